"""What each segment computes, takes and gives, and what lives across each cut.

A segment is a stretch of the trunk (nodes that are neither constants nor shape arithmetic) with
the constants and shape values that it needs. A cut's live set is every value or model input that
exists before it and is used after it or is a model output; what only passes through is in the
live set and in no segment's graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.segmentation.constants import Roles
from orchestrator.segmentation.walk import Dataflow


@dataclass(frozen=True, slots=True)
class Stretch:
    """One segment: its nodes in topological order, what it takes and what it gives."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """A model's segments, and the live set before each and after the last: n and n + 1."""

    stretches: tuple[Stretch, ...]
    live: tuple[tuple[str, ...], ...]


def trunk_of(flow: Dataflow, roles: Roles) -> tuple[int, ...]:
    """The nodes that outputs need and that are computed exactly once, in topological order."""
    needed = flow.needed()
    return tuple(
        node.index
        for node in flow.nodes
        if node.index in needed and node.index not in roles.constant | roles.shape
    )


def divide(flow: Dataflow, roles: Roles, starts: Sequence[int]) -> Division:
    """Segments that begin at the node indices `starts` (ascending, the first is 0)."""
    ends = [*starts[1:], len(flow.nodes)]
    needed = flow.needed()
    need = set(flow.outputs)
    stretches: list[Stretch] = []
    live = [flow.outputs]
    for start, end in zip(reversed(starts), reversed(ends), strict=True):
        demand = _Demand(flow, roles, range(start, end), need)
        stretch = demand.resolve(sorted(needed), last=end == len(flow.nodes))
        need = (need - set(stretch.outputs)) | set(stretch.inputs)
        stretches.append(stretch)
        live.append(_in_order(flow, need))
    return Division(tuple(reversed(stretches)), tuple(reversed(live)))


def _in_order(flow: Dataflow, names: Iterable[str]) -> tuple[str, ...]:
    """Model inputs first, in their order; then values in the order in which they are made."""
    place = {name: at for at, name in enumerate(flow.inputs)}
    for node in flow.nodes:
        for name in node.outputs:
            place[name] = len(place)
    return tuple(sorted(names, key=place.__getitem__))


class _Demand:
    """Finds out what one segment must compute and take, from what it must give."""

    def __init__(self, flow: Dataflow, roles: Roles, own: range, need: set[str]) -> None:
        self._flow, self._roles, self._own, self._need = flow, roles, own, need
        self._nodes: set[int] = set()
        self._inputs: set[str] = set()
        self._at_hand: set[str] = set()

    def resolve(self, needed: list[int], last: bool) -> Stretch:
        """`need` after this segment is given; `last` says that constant outputs are due here."""
        flow, roles = self._flow, self._roles
        light = roles.constant | roles.shape
        trunk = [index for index in needed if index in self._own and index not in light]
        self._at_hand = self._values_at_hand(trunk)
        for index in trunk:
            self._include(index)
        for name in sorted(self._need):
            index = flow.producer.get(name, -1)
            if self._is_own(index) or (last and index in roles.constant):
                self._include(index)
        nodes = tuple(sorted(self._nodes))
        made = {
            name
            for index in nodes
            if self._is_own(index) or index in roles.constant
            for name in flow.nodes[index].outputs
        }
        given = made & self._need
        return Stretch(nodes, _in_order(flow, self._inputs), _in_order(flow, given))

    def _values_at_hand(self, trunk: list[int]) -> set[str]:
        """What is here whether or not a shape is wanted: what comes in for the trunk's sake or
        passes through, and what the trunk makes."""
        flow = self._flow
        hand = {name for name in self._need if name not in self._roles.roots}
        for index in trunk:
            hand.update(n for n in flow.nodes[index].inputs if n not in self._roles.roots)
            hand.update(flow.nodes[index].outputs)
        return hand

    def _is_own(self, index: int) -> bool:
        """Whether a node is first computed in this segment (constants are computed anywhere)."""
        constant = index in self._roles.constant
        return not constant and self._roles.place.get(index, index) in self._own

    def _include(self, start: int) -> None:
        waiting = [start]
        while waiting:
            index = waiting.pop()
            if index in self._nodes:
                continue
            self._nodes.add(index)
            for name in self._flow.nodes[index].inputs:
                self._want(name, waiting)

    def _want(self, name: str, waiting: list[int]) -> None:
        """Makes `name` available: computed here, cloned here, or taken from before."""
        if name in self._flow.initializers:
            return
        index = self._flow.producer.get(name)
        if index is not None and self._is_computed_here(index, name):
            waiting.append(index)
        else:
            self._inputs.add(name)

    def _is_computed_here(self, index: int, name: str) -> bool:
        """Constants anywhere; shape values also where their roots are at hand; else once."""
        if index in self._roles.constant or self._is_own(index):
            return True
        return index in self._roles.shape and self._roles.roots[name] <= self._at_hand
