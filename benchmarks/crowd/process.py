"""A crowd in a process of its own, so that sizes take turns and none counts another's memory.

    python -m benchmarks.crowd.process DEVICES RUNS

It reads a line (what to do, with how many items, within how many seconds), and answers with what
that cost. Whoever asks kills it if it does not answer in time: one call of the machine cannot be
interrupted.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.crowd.crowd import Crowd, TooSlow
from benchmarks.crowd.meter import Cost
from benchmarks.process import memory
from benchmarks.talker import Talker
from wire.errors import TimedOut

GRACE_S = 2.0  # beyond the limit, for a helper that can still say that it is late


@dataclass(frozen=True, slots=True)
class Taken:
    """Costs by kind of event; `wall_s` is with all that the crowd does around the machine."""

    costs: dict[str, Cost]
    wall_s: float
    longest_ns: int
    memory_nbytes: int


class CrowdProcess(Talker):
    """Runs inside a `with`. Each question raises `TooSlow` at its limit, and the process is then
    of no more use."""

    def __init__(self, devices: int, runs: int) -> None:
        super().__init__(f"{__name__}", [str(devices), str(runs)])

    @property
    def memory_nbytes(self) -> int:
        """Before the first device."""
        return int(self.said["memory_nbytes"])

    def take(self, what: str, items: int, limit_s: float) -> Taken:
        try:
            told = self.ask(f"{what} {items} {limit_s}", limit_s + GRACE_S)
        except TimedOut:
            told = {"late": True}
        if "late" in told:
            self.kill()
            raise TooSlow(f"it took more than {limit_s:g} s")
        told["costs"] = {kind: Cost(*cost) for kind, cost in told["costs"].items()}
        return Taken(**told)


def main(devices: int, runs: int) -> None:
    crowd = Crowd(devices, runs)
    _say({"memory_nbytes": _memory_nbytes()})
    for line in sys.stdin:
        what, items, limit_s = line.split()
        crowd.until = time.monotonic() + float(limit_s)
        ways: dict[str, Callable[[], dict[str, Cost]]] = {
            "start": crowd.start,
            "run": partial(crowd.run, int(items)),
            "comings": partial(crowd.run, int(items), comings=True),
            "residencies": crowd.residencies,
        }
        try:
            _say(_taken(crowd, ways[what]))
        except TooSlow:
            _say({"late": True})


def _taken(crowd: Crowd, way: Callable[[], dict[str, Cost]]) -> dict[str, Any]:
    crowd.longest_ns = 0
    begun = time.monotonic()
    costs = way()
    wall_s = time.monotonic() - begun
    return {
        "costs": {kind: (cost.nanoseconds, cost.count) for kind, cost in costs.items()},
        "wall_s": wall_s,
        "longest_ns": crowd.longest_ns,
        "memory_nbytes": _memory_nbytes(),
    }


def _memory_nbytes() -> int:
    gc.collect()
    return memory().anonymous_nbytes


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
