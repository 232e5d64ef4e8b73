"""Searches for ranges that are under way in another thread, and what each is for.

Each has a number, and is answered once: what was asked meanwhile under another number makes an
answer stale. What follows from an answer is decided by whoever asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.machine.records.device import Device
from orchestrator.machine.records.plan import PlanKey, Want
from wire.ids import PartitionId
from wire.messages.requests import RequestPlan
from wire.messages.residency import Failure

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


@dataclass(frozen=True, slots=True)
class Search:
    """`about`: what is done about the answer; for a submit the run's id."""

    number: int
    purpose: Purpose
    key: PlanKey
    want: Want
    items: int
    about: Failed | Asked | str | None = None


class Searches:
    """At most one for each plan, and one for each question of a client."""

    def __init__(self) -> None:
        self._under_way: dict[int, Search] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def next_number(self) -> int:
        self._last += 1
        return self._last

    def begin(self, search: Search) -> None:
        self._under_way[search.number] = search

    def end(self, number: int) -> Search | None:
        """What it was for; None if it is not waited for any more."""
        return self._under_way.pop(number, None)
