"""Searches for ranges that are under way in another thread, and what each is for.

Each has a number, and is answered once: what was asked meanwhile under another number makes an
answer stale. What follows from an answer is decided by whoever asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.machine.records.device import Device
from orchestrator.machine.records.plan import PlanKey, Want
from orchestrator.machine.records.tally import Tally
from wire.ids import PartitionId
from wire.messages.requests import RequestPlan
from wire.messages.residency import Failure
from wire.topics import user_of

Purpose = Literal["renew", "compare", "repartition", "preview", "submit"]


@dataclass(frozen=True, slots=True)
class Failed:
    """What is given up if no other ranges are found."""

    partition: PartitionId
    device: Device
    failure: Failure


@dataclass(frozen=True, slots=True)
class Asked:
    """A client's question, for its answer."""

    party: str
    request: RequestPlan


@dataclass(slots=True)
class Hopefuls:
    """Runs that are accepted once it is known that the devices could serve them."""

    runs: tuple[str, ...]


About = Failed | Asked | Hopefuls | None


@dataclass(frozen=True, slots=True)
class Search:
    """`about`: what is done about the answer."""

    number: int
    purpose: Purpose
    key: PlanKey
    want: Want
    items: int
    about: About = None


class Searches:
    """One that counts for each plan, one for runs that want the same, and one for each preview."""

    def __init__(self) -> None:
        self._under_way: dict[int, Search] = {}
        self._hopefuls: dict[tuple[str, int | None], Hopefuls] = {}  # by model and partitions
        self.previews = Tally()  # under way, by party and by user
        self._last = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def next_number(self) -> int:
        self._last += 1
        return self._last

    def begin(self, search: Search) -> None:
        self._under_way[search.number] = search
        if isinstance(search.about, Hopefuls):
            self._hopefuls[search.key[0], search.want.partitions] = search.about
        self._count_preview(search, 1)

    def join(self, model: str, want: Want, run: str) -> bool:
        """Have the run's question answered by a search that is under way."""
        hopefuls = self._hopefuls.get((model, want.partitions))
        if hopefuls is not None:
            hopefuls.runs = (*hopefuls.runs, run)
        return hopefuls is not None

    def end(self, number: int) -> Search | None:
        """What it was for; None if it is not waited for any more."""
        search = self._under_way.pop(number, None)
        if search is not None:
            self._count_preview(search, -1)
        if search is not None and isinstance(search.about, Hopefuls):
            self._hopefuls.pop((search.key[0], search.want.partitions), None)
        return search

    def _count_preview(self, search: Search, by: int) -> None:
        if isinstance(search.about, Asked):
            for name in (search.about.party, user_of(search.about.party)):
                self.previews.change(name, by)

    def __contains__(self, number: int) -> bool:
        return number in self._under_way
