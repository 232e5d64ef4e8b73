"""What can go wrong, and how it comes right again. Each strikes a system that serves a run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.faults.system import FaultySystem

BACK_S = 3.0  # what was killed is started again after at most so long
STOPPED_S = 30.0  # an agent that stands still goes on after so long


@dataclass(frozen=True, slots=True)
class Struck:
    """When it struck, and from when on the system could have gone on: both of one clock."""

    fault: str
    at: float
    able_at: float


Wait = Callable[[float], None]
Act = Callable[[FaultySystem, Random, Wait], float]
"""Strikes, waits with the given call, mends; when the system could go on from."""


def _agent_killed(system: FaultySystem, random: Random, wait: Wait) -> float:
    name, struck_at = random.choice(system.names), time.monotonic()
    system.kill_agent(name)
    wait(random.uniform(0.0, BACK_S))
    system.start_agent(name)
    return struck_at


def _agent_stopped(system: FaultySystem, random: Random, wait: Wait) -> float:
    """As a phone that dozes; then it goes on with stale work."""
    name, struck_at = random.choice(system.names), time.monotonic()
    system.signal_agent(name, signal.SIGSTOP)
    wait(STOPPED_S)
    system.signal_agent(name, signal.SIGCONT)
    return struck_at


def _agent_left(system: FaultySystem, random: Random, wait: Wait) -> float:
    """It says farewell, and comes again."""
    name, struck_at = random.choice(system.names), time.monotonic()
    system.signal_agent(name, signal.SIGTERM)
    system.await_agent_gone(name)
    wait(random.uniform(0.0, BACK_S))
    system.start_agent(name)
    return struck_at


def _orchestrator_killed(system: FaultySystem, random: Random, wait: Wait) -> float:
    system.kill_orchestrator()
    wait(random.uniform(0.0, BACK_S))
    system.start_orchestrator()
    system.await_orchestrator()
    return time.monotonic()


def _broker_killed(system: FaultySystem, random: Random, wait: Wait) -> float:
    system.kill_broker()
    wait(random.uniform(0.0, BACK_S))
    system.broker.start()
    return time.monotonic()


def _store_stopped(system: FaultySystem, random: Random, wait: Wait) -> float:
    system.stop_store()
    wait(random.uniform(0.0, BACK_S))
    system.start_store()
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Fault:
    """`recovery_s`: how soon the next result is to come, once it can."""

    says: str
    strike: Act
    recovery_s: float | None = None


FAULTS: dict[str, Fault] = {
    "agent_killed": Fault("an agent is killed", _agent_killed, 3.0),
    "agent_stopped": Fault("an agent stands still for 30 s", _agent_stopped, 5.0),
    "agent_left": Fault("an agent says farewell", _agent_left),
    "orchestrator_killed": Fault("the orchestrator is killed", _orchestrator_killed, 3.0),
    "broker_killed": Fault("the broker is killed", _broker_killed, 3.0),
    "store_stopped": Fault("the store is stopped", _store_stopped),
}


class Striker:
    """Has one fault strike after a while, in a thread of its own. `over` ends its waits."""

    def __init__(
        self,
        fault: str,
        system: FaultySystem,
        random: Random,
        after_s: float,
        over: threading.Event,
    ) -> None:
        self._fault, self._system, self._random = fault, system, random
        self._after_s, self._over = after_s, over
        self._thread = threading.Thread(target=self._run, name="fault", daemon=True)
        self.struck: Struck | None = None
        self.error: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        if self._over.wait(self._after_s):
            return
        at = time.monotonic()
        try:
            able_at = FAULTS[self._fault].strike(self._system, self._random, self._wait)
        except Exception as error:
            self.error = error
            return
        self.struck = Struck(self._fault, at, able_at)

    def _wait(self, seconds: float) -> None:
        self._over.wait(seconds)
