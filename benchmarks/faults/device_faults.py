"""What can go wrong with one device, and how it comes right again: when the system could go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.faults.system import FaultySystem

Wait = Callable[[float], None]
Act = Callable[[FaultySystem, Random, Wait], float]
"""Strikes, waits with the given call, mends; from when on the system could go on."""

BACK_S = 3.0  # what was killed is started again after at most so long
STOPPED_S = 30.0  # an agent that stands still goes on after so long
AT_WORK_S = 8.0  # so long a device without a cache has to begin to fetch
LINK_S = (2.0, 6.0)  # so long a link is spoilt
SLOW_NBYTES_PER_S = 500e3
LOSS = 0.05  # of the pieces that pass, each at most 16 KiB


def killed(system: FaultySystem, random: Random, wait: Wait) -> float:
    name, struck_at = random.choice(system.names), time.monotonic()
    system.agents.kill(name)
    wait(random.uniform(0.0, BACK_S))
    system.agents.start(name)
    return struck_at


def killed_at_its_start(system: FaultySystem, random: Random, wait: Wait) -> float:
    """As it fetches or loads what it has never had."""
    name = random.choice(system.names)
    system.await_at_work(name, AT_WORK_S)
    wait(random.uniform(0.0, 0.5))
    struck_at = time.monotonic()
    system.agents.kill(name)
    wait(random.uniform(0.0, BACK_S))
    system.agents.start(name)
    return struck_at


def stopped(system: FaultySystem, random: Random, wait: Wait) -> float:
    """As a phone that dozes; then it goes on with stale work."""
    name, struck_at = random.choice(system.names), time.monotonic()
    system.agents.signal(name, signal.SIGSTOP)
    wait(STOPPED_S)
    system.agents.signal(name, signal.SIGCONT)
    return struck_at


def left(system: FaultySystem, random: Random, wait: Wait) -> float:
    """It says farewell, and comes again."""
    name, struck_at = random.choice(system.names), time.monotonic()
    system.agents.leave(name)
    wait(random.uniform(0.0, BACK_S))
    system.agents.start(name)
    return struck_at


def renamed(system: FaultySystem, random: Random, wait: Wait) -> float:
    """It is gone for good, and a device that nobody knows comes in its place."""
    name, struck_at = random.choice(system.names), time.monotonic()
    system.agents.kill(name)
    wait(random.uniform(0.0, BACK_S))
    system.agents.start(system.newcomer())
    return struck_at


def twice(system: FaultySystem, random: Random, wait: Wait) -> float:
    """Another agent comes under its name; both are there until the trial is over."""
    name, struck_at = random.choice(system.names), time.monotonic()
    system.agents.start(name, f"{name}-again")
    wait(BACK_S)
    return struck_at


def link_cut(system: FaultySystem, random: Random, wait: Wait) -> float:
    return _spoilt(system, random, wait, cut=True)


def link_silent(system: FaultySystem, random: Random, wait: Wait) -> float:
    return _spoilt(system, random, wait, silent=True)


def link_slow(system: FaultySystem, random: Random, wait: Wait) -> float:
    return _spoilt(system, random, wait, nbytes_per_s=SLOW_NBYTES_PER_S)


def link_lossy(system: FaultySystem, random: Random, wait: Wait) -> float:
    return _spoilt(system, random, wait, loss=LOSS)


def _spoilt(system: FaultySystem, random: Random, wait: Wait, **state: Any) -> float:
    name, struck_at = random.choice(system.linked), time.monotonic()
    system.links.set(name, **state)
    wait(random.uniform(*LINK_S))
    system.links.set(name)
    return struck_at
