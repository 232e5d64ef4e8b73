"""All that can go wrong, in one table. Each strikes a system that serves a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.faults import desk_faults as desk
from benchmarks.faults import device_faults as device
from benchmarks.faults.system import FaultySystem

LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class Struck:
    """When it struck, and from when on the system could have gone on: both of one clock."""

    fault: str
    at: float
    able_at: float


@dataclass(frozen=True, slots=True)
class Fault:
    """`recovery_s`: how soon the next result is to come, once it can. `cold`: it strikes a system
    whose devices have nothing yet. `submitted`: the run is one that another client submitted."""

    says: str
    strike: device.Act
    recovery_s: float | None = None
    cold: bool = False
    submitted: bool = False


FAULTS: dict[str, Fault] = {
    "agent_killed": Fault("an agent is killed", device.killed, 3.0),
    "agent_stopped": Fault("an agent stands still for 30 s", device.stopped, 5.0),
    "agent_left": Fault("an agent says farewell, and comes again", device.left),
    "agent_renamed": Fault("an agent is killed, another name comes instead", device.renamed, 3.0),
    "agent_twice": Fault("a second agent comes under a name that is there", device.twice),
    "agent_at_start": Fault(
        "an agent is killed as it first fetches or loads", device.killed_at_its_start, cold=True
    ),
    "orchestrator_killed": Fault("the orchestrator is killed", desk.orchestrator_killed, 3.0),
    "orchestrator_stopped": Fault("the orchestrator stands still", desk.orchestrator_stopped, 3.0),
    "broker_killed": Fault("the broker is killed", desk.broker_killed, 3.0),
    "broker_emptied": Fault("the broker is killed and has lost all", desk.broker_emptied, 3.0),
    "broker_restarted": Fault("the broker is started anew in order", desk.broker_restarted, 3.0),
    "store_killed": Fault("the store is killed", desk.store_killed),
    "client_killed": Fault(
        "the client that submitted is killed, another collects", desk.client_killed, submitted=True
    ),
    "link_cut": Fault("a device's link is cut for some seconds", device.link_cut),
    "link_silent": Fault("nothing passes a device's link for some seconds", device.link_silent),
    "link_slow": Fault("a device's link passes 500 kB/s", device.link_slow),
    "link_lossy": Fault("a device's link loses 5 % of its packets", device.link_lossy),
}


@dataclass(frozen=True, slots=True)
class Moment:
    """So many results have come, and a little later."""

    results: int
    later_s: float


class Striker:
    """Has one fault strike at a moment of the run, in a thread of its own. `results` says how many
    have come by now; `over` ends all waits."""

    def __init__(
        self,
        fault: str,
        system: FaultySystem,
        random: Random,
        moment: Moment,
        results: Callable[[], int],
        over: threading.Event,
    ) -> None:
        self._fault, self._system, self._random = fault, system, random
        self._moment, self._results, self._over = moment, results, over
        self._thread = threading.Thread(target=self._run, name="fault", daemon=True)
        self.struck: Struck | None = None
        self.error: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while self._results() < self._moment.results and not self._over.wait(LOOK_S):
            pass
        if self._over.wait(self._moment.later_s):
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
