"""What each segment computes, takes and gives, and what lives across each cut.

A segment is a stretch of the trunk (nodes that make neither constants nor light values) with the
constants and light values that it needs. A cut's live set is every value or model input that
exists before it and is used after it or is a model output; what only passes through is in the
live set and in no segment's graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.segmentation.cutting.constants import Roles
from orchestrator.segmentation.reading.walk import Dataflow
from orchestrator.segmentation.typing.types import Types

FRAME_TENSOR_NBYTES = 64  # about what a tensor's entry in a frame's header takes

INPUT_SHARES = 8  # about how many light values share the price of carrying on one input


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
        if node.index in needed and node.index not in roles.constant | roles.light
    )


def divide(flow: Dataflow, roles: Roles, types: Types, starts: Sequence[int]) -> Division:
    """Segments that begin at the node indices `starts` (ascending, the first is 0)."""
    ends = [*starts[1:], len(flow.nodes)]
    needed = flow.needed()
    if not needed:
        return _passing(flow)
    need = set(flow.outputs)
    stretches: list[Stretch] = []
    live = [flow.outputs]
    for start, end in zip(reversed(starts), reversed(ends), strict=True):
        demand = _Demand(flow, roles, types, range(start, end), need)
        stretch = demand.resolve(sorted(needed), last=end == len(flow.nodes))
        need = (need - set(stretch.outputs)) | set(stretch.inputs)
        stretches.append(stretch)
        live.append(_in_order(flow, need))
    return Division(tuple(reversed(stretches)), tuple(reversed(live)))


def _passing(flow: Dataflow) -> Division:
    """Of a model whose outputs are inputs: they pass one segment, which has the only node. What
    that makes is in no live set, and dropped by whoever runs it."""
    node = flow.nodes[0]
    stretch = Stretch((node.index,), node.inputs, node.outputs)
    return Division((stretch,), (_in_order(flow, flow.outputs), flow.outputs))


def _in_order(flow: Dataflow, names: Iterable[str]) -> tuple[str, ...]:
    """Model inputs first, in their order; then values in the order in which they are made."""
    place = {name: at for at, name in enumerate(flow.inputs)}
    for node in flow.nodes:
        for name in node.outputs:
            place[name] = len(place)
    return tuple(sorted(names, key=place.__getitem__))


class _Demand:
    """Finds out what one segment must compute and take, from what it must give."""

    def __init__(
        self, flow: Dataflow, roles: Roles, types: Types, own: range, need: set[str]
    ) -> None:
        self._flow, self._roles, self._types = flow, roles, types
        self._own, self._need = own, need
        self._nodes: set[int] = set()
        self._inputs: set[str] = set()
        self._again: frozenset[str] = frozenset()

    def resolve(self, needed: list[int], last: bool) -> Stretch:
        """`need` after this segment is given; `last` says that constant outputs are due here."""
        flow, roles = self._flow, self._roles
        elsewhere = roles.constant | roles.light
        trunk = [index for index in needed if index in self._own and index not in elsewhere]
        due = {flow.producer.get(name, -1) for name in self._need}
        due = {i for i in due if self._is_own(i) or (last and i in roles.constant)}
        hand = self._values_at_hand(trunk)
        self._gather([*trunk, *sorted(due)], hand)
        # What one light value brought in may make others worth computing: they share it.
        hand |= {name for name in self._inputs if not self._is_light(name)}
        self._gather([*trunk, *sorted(due)], hand)
        nodes = tuple(sorted(self._nodes))
        made = {
            name
            for index in nodes
            if self._is_own(index) or index in roles.constant
            for name in flow.nodes[index].outputs
        }
        given = made & self._need
        return Stretch(nodes, _in_order(flow, self._inputs), _in_order(flow, given))

    def _gather(self, wanted: list[int], hand: set[str]) -> None:
        """Fills nodes and inputs with what the nodes `wanted` need, given what is at hand."""
        self._nodes.clear()
        self._inputs.clear()
        self._again = self._computed_again(hand)
        for index in wanted:
            self._include(index)

    def _values_at_hand(self, trunk: list[int]) -> set[str]:
        """What is here whatever is decided on light values: what passes through, what comes in
        for the trunk's sake, and what the trunk makes."""
        flow = self._flow
        hand = set(self._need)
        for index in trunk:
            hand.update(n for n in flow.nodes[index].inputs if not self._is_light(n))
            hand.update(flow.nodes[index].outputs)
        return hand

    def _is_light(self, name: str) -> bool:
        return self._flow.producer.get(name) in self._roles.light

    def _computed_again(self, hand: set[str]) -> frozenset[str]:
        """Light values of earlier segments that are cheaper to compute here than to take in.

        The price of a value is the bytes that must cross to have it here: its own, or those of
        what it is computed from, whichever is less.
        """
        prices = dict.fromkeys(hand, 0)
        again = set()
        for index in sorted(self._roles.light):
            node = self._flow.nodes[index]
            inputs = sum(self._price(name, prices) for name in node.inputs)
            for name in node.outputs:
                sent = 0 if name in hand else self._types[name].nbytes + FRAME_TENSOR_NBYTES
                prices[name] = 0 if self._is_own(index) else min(sent, inputs)
                if inputs < sent:
                    again.add(name)
        return frozenset(again)

    def _price(self, name: str, prices: dict[str, int]) -> int:
        """Of a value from which a light one is computed."""
        constant = self._flow.producer.get(name) in self._roles.constant
        if name in self._flow.initializers or constant:
            return 0
        shared = INPUT_SHARES if name in self._flow.inputs else 1
        return prices.get(name, (self._types[name].nbytes + FRAME_TENSOR_NBYTES) // shared)

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
        """Makes `name` available: computed here, or taken from before."""
        if name in self._flow.initializers:
            return
        index = self._flow.producer.get(name)
        if index is not None and self._is_computed_here(index, name):
            waiting.append(index)
        else:
            self._inputs.add(name)

    def _is_computed_here(self, index: int, name: str) -> bool:
        return index in self._roles.constant or self._is_own(index) or name in self._again
