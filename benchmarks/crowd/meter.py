"""Processor time by kind of event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

US_PER_NS = 1e-3
SEARCH = "search"
NO_ITEMS = frozenset({"telemetry", "residency", "state", "life", SEARCH})
"""What comes whether anybody computes or not, and what is done beside the machine. All other kinds
are an item's way."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of so many events together."""

    nanoseconds: int
    count: int

    @property
    def each_us(self) -> float:
        """Of one; at least one event is needed."""
        return self.nanoseconds / self.count * US_PER_NS


class Meter:
    def __init__(self) -> None:
        self._nanoseconds: defaultdict[str, int] = defaultdict(int)
        self._counts: defaultdict[str, int] = defaultdict(int)

    def add(self, kind: str, nanoseconds: int) -> None:
        self._nanoseconds[kind] += nanoseconds
        self._counts[kind] += 1

    def take(self) -> dict[str, Cost]:
        """All since the last time."""
        taken = {kind: Cost(ns, self._counts[kind]) for kind, ns in self._nanoseconds.items()}
        self._nanoseconds.clear()
        self._counts.clear()
        return taken


def total_ns(costs: Mapping[str, Cost]) -> int:
    return sum(cost.nanoseconds for cost in costs.values())


def item_us(costs: Mapping[str, Cost], items: int) -> float:
    """What an item costs on its whole way: its share of all that is not in any case."""
    way = {kind: cost for kind, cost in costs.items() if kind not in NO_ITEMS}
    return total_ns(way) / items * US_PER_NS
