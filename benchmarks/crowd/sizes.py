"""Crowds of several sizes, which take turns: what each costs, and where one was too slow.

A size that takes longer than its limit is given up and says so; larger ones are still tried,
since they have limits, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.crowd.crowd import TooSlow
from benchmarks.crowd.meter import item_us
from benchmarks.crowd.process import CrowdProcess, Taken

FIRST_ITEMS = 4
ITEMS = 16


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for a start, for the first run (whose plan is searched for), for one round, and for
    all rounds of one size; and how many rounds there are at most."""

    start_s: float
    first_s: float
    round_s: float
    rounds_s: float
    rounds: int


@dataclass(slots=True)
class Size:
    """`rounds` are runs on a plan that stands, `comings` one while devices come and go. `why`:
    what took too long, if something did."""

    devices: int
    runs: int
    before_nbytes: int = 0
    start: Taken | None = None
    first: Taken | None = None
    residencies: Taken | None = None
    rounds: list[Taken] = field(default_factory=list)
    comings: Taken | None = None
    why: str = ""

    def items_us(self) -> list[float]:
        """What an item costs on its whole way, round by round."""
        return [item_us(taken.costs, ITEMS) for taken in self.rounds]

    def items_with_comings_us(self) -> list[float]:
        return [item_us(self.comings.costs, ITEMS)] if self.comings is not None else []

    def each_us(self, kind: str) -> list[float]:
        """What one event of this kind costs, round by round."""
        once = [each for each in (self.residencies, self.comings) if each is not None]
        rounds, others = (
            [each.costs[kind].each_us for each in taken if kind in each.costs]
            for taken in (self.rounds, once)
        )
        return rounds or others

    def longest_ms(self) -> float:
        """The most that one event took on a plan that stands; at least one round is needed."""
        return max(taken.longest_ns for taken in self.rounds) / 1e6

    def memory_nbytes(self) -> float | None:
        """Of all that is kept of devices and runs, with nothing under way."""
        return None if self.start is None else float(self.start.memory_nbytes - self.before_nbytes)


def measure(sizes: Sequence[Size], limits: Limits, say: Callable[[str], None]) -> None:
    """All of them, into themselves."""
    with ExitStack() as stack:
        crowds = [_Measured(each, stack, limits, say) for each in sizes]
        for each in crowds:
            each.begin()
        for number in range(limits.rounds):
            shift = number % len(crowds)
            for each in crowds[shift:] + crowds[:shift]:
                each.round()
        for each in crowds:
            each.end()


class _Measured:
    """One size and its process, until it is too slow."""

    def __init__(
        self, size: Size, stack: ExitStack, limits: Limits, say: Callable[[str], None]
    ) -> None:
        self._size = size
        self._limits = limits
        self._say = say
        self._process = stack.enter_context(CrowdProcess(size.devices, size.runs))
        self._rounds_s = 0.0
        size.before_nbytes = self._process.memory_nbytes

    def begin(self) -> None:
        size, limits = self._size, self._limits
        size.start = self._take("start", 0, limits.start_s, "to start")
        size.first = self._take("run", FIRST_ITEMS, limits.first_s, "to plan and run 4 items")
        size.residencies = self._take("residencies", 0, limits.round_s, "to read residencies")

    def round(self) -> None:
        """Another, unless rounds have taken long enough."""
        if self._rounds_s < self._limits.rounds_s:
            taken = self._take("run", ITEMS, self._limits.round_s, f"to run {ITEMS} items")
            self._size.rounds += [taken] if taken is not None else []
            self._rounds_s += taken.wall_s if taken is not None else 0.0

    def end(self) -> None:
        self._size.comings = self._take(
            "comings", ITEMS, self._limits.first_s, f"to run {ITEMS} items as devices come and go"
        )

    def _take(self, what: str, items: int, limit_s: float, told: str) -> Taken | None:
        """None if it was too slow for this, or for something before."""
        size = self._size
        if size.why:
            return None
        try:
            return self._process.take(what, items, limit_s)
        except TooSlow as error:
            size.why = f"{size.devices:,} devices and {size.runs:,} idle runs {told}: {error}"
            self._say(size.why)
            return None
