"""What can go wrong at the desk: with the orchestrator, the broker, the store, a client."""

from __future__ import annotations

import signal
import time
from random import Random

from benchmarks.faults.device_faults import BACK_S, Wait
from benchmarks.faults.system import FaultySystem


def orchestrator_killed(system: FaultySystem, random: Random, wait: Wait) -> float:
    system.kill_orchestrator()
    wait(random.uniform(0.0, BACK_S))
    system.start_orchestrator()
    system.await_orchestrator()
    return time.monotonic()


def orchestrator_stopped(system: FaultySystem, random: Random, wait: Wait) -> float:
    """As a laptop whose lid is shut for a moment."""
    system.signal_orchestrator(signal.SIGSTOP)
    wait(random.uniform(1.0, 2 * BACK_S))
    system.signal_orchestrator(signal.SIGCONT)
    return time.monotonic()


def broker_killed(system: FaultySystem, random: Random, wait: Wait) -> float:
    return _broker(system, random, wait, forgets=False)


def broker_emptied(system: FaultySystem, random: Random, wait: Wait) -> float:
    return _broker(system, random, wait, forgets=True)


def _broker(system: FaultySystem, random: Random, wait: Wait, *, forgets: bool) -> float:
    system.kill_broker(forgets=forgets)
    wait(random.uniform(0.0, BACK_S))
    system.broker.start()
    return time.monotonic()


def broker_restarted(system: FaultySystem, random: Random, wait: Wait) -> float:
    """In order, with all that it knows."""
    system.broker.stop()
    wait(random.uniform(0.0, BACK_S))
    system.broker.start()
    return time.monotonic()


def store_killed(system: FaultySystem, random: Random, wait: Wait) -> float:
    system.kill_store()
    wait(random.uniform(0.0, BACK_S))
    system.start_store()
    return time.monotonic()


def client_killed(system: FaultySystem, random: Random, wait: Wait) -> float:
    """Of a run that it submitted; another then collects it."""
    system.submitter.kill()
    return time.monotonic()
