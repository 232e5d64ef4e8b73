"""The trunk of a model as the numbers that `cuts` works on."""

from __future__ import annotations

import math

import numpy as np

from orchestrator.segmentation.cutting.constants import Roles
from orchestrator.segmentation.cutting.cost import cost_of
from orchestrator.segmentation.cutting.cuts import TrunkCosts
from orchestrator.segmentation.cutting.live_sets import FRAME_TENSOR_NBYTES
from orchestrator.segmentation.reading.skeleton import INLINE_NBYTES
from orchestrator.segmentation.reading.tensors import tensor_nbytes
from orchestrator.segmentation.reading.walk import Dataflow
from orchestrator.segmentation.typing.types import Types


def trunk_costs(flow: Dataflow, roles: Roles, types: Types, trunk: tuple[int, ...]) -> TrunkCosts:
    costs = tuple(cost_of(flow.nodes[index].proto, types) for index in trunk)
    return TrunkCosts(costs, _weights(flow, roles, trunk), _crossing(flow, roles, types, trunk))


def _weights(flow: Dataflow, roles: Roles, trunk: tuple[int, ...]) -> tuple[int, ...]:
    """Bytes of the weights that each node is the first to use."""
    seen: set[str] = set()
    found = []
    for index in trunk:
        names = _weights_behind(flow, roles, index) - seen
        seen |= names
        found.append(sum(tensor_nbytes(flow.initializers[name]) for name in names))
    return tuple(found)


def _weights_behind(flow: Dataflow, roles: Roles, index: int) -> set[str]:
    """Large initializers that a node uses, itself or through constants and shape values."""
    elsewhere = roles.constant | roles.light
    found: set[str] = set()
    waiting, seen = [index], {index}
    while waiting:
        for name in flow.nodes[waiting.pop()].inputs:
            maker = flow.producer.get(name)
            if name in flow.initializers:
                found.add(name)
            elif maker is not None and maker in elsewhere and maker not in seen:
                seen.add(maker)
                waiting.append(maker)
    return {name for name in found if tensor_nbytes(flow.initializers[name]) >= INLINE_NBYTES}


def _crossing(
    flow: Dataflow, roles: Roles, types: Types, trunk: tuple[int, ...]
) -> tuple[float, ...]:
    """Bytes live at each place, infinite where a value that no frame can carry lives."""
    changes = np.zeros(len(trunk) + 2)
    blocked = np.zeros(len(trunk) + 2, np.int64)
    position = {index: at for at, index in enumerate(trunk)}
    for name in (*flow.inputs, *flow.producer):
        span = _span(name, flow, roles, position, trunk)
        if span is None:
            continue
        first, last = span
        if types[name].is_tensor:
            nbytes = _nbytes(name, roles, types) + FRAME_TENSOR_NBYTES
            changes[first] += nbytes
            changes[last + 1] -= nbytes
        else:
            blocked[first] += 1
            blocked[last + 1] -= 1
    live, stopped = np.cumsum(changes), np.cumsum(blocked)
    pairs = zip(live[: len(trunk)], stopped[: len(trunk)], strict=True)
    return tuple(math.inf if stop else float(nbytes) for nbytes, stop in pairs)


def _nbytes(name: str, roles: Roles, types: Types) -> int:
    """Of a value that crosses; a light one may be computed again from what is smaller."""
    roots = sum(types[root].nbytes for root in roles.roots.get(name, (name,)))
    return min(types[name].nbytes, roots)


def _span(
    name: str,
    flow: Dataflow,
    roles: Roles,
    position: dict[int, int],
    trunk: tuple[int, ...],
) -> tuple[int, int] | None:
    """The first and last place at which a value lives, or None if it crosses no place."""
    maker = flow.producer.get(name)
    if maker in roles.constant:
        return None
    made_by = -1 if maker is None else maker
    born = _after(roles.place.get(made_by, made_by), trunk) if maker is not None else 0
    uses = [position[user] for user in flow.users.get(name, ()) if user in position]
    last = len(trunk) - 1 if name in flow.outputs else max(uses, default=-1)
    first = max(born, 1)
    return (first, last) if first <= last else None


def _after(index: int, trunk: tuple[int, ...]) -> int:
    """The place behind a node: the number of trunk nodes up to it."""
    return int(np.searchsorted(trunk, index, side="right"))
