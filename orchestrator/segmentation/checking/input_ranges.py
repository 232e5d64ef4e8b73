"""Which integers a model takes on each input: those that select rows of a table, or that it
compares with constants.

Follows each integer input through operators that keep its numbers, into bodies too. What it
does not understand has no entry; it refuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from onnx import numpy_helper

from orchestrator.segmentation.reading.tensors import INTEGERS, is_external
from orchestrator.segmentation.reading.walk import all_nodes
from orchestrator.segmentation.typing.types import Types

_KEEPING = frozenset(
    {
        "Cast",
        "Expand",
        "Flatten",
        "Identity",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
# Operator -> for the place of the indices, the place of the table.
_TABLES = {
    "Gather": {1: 0},
    "GatherElements": {1: 0},
    "GatherBlockQuantized": {1: 0},
    "EmbedLayerNormalization": {0: 2, 1: 4},
}


@dataclass(frozen=True, slots=True)
class InputRange:
    """What an integer input may hold: 0 to `below` - 1, or one of `choices` where there are any."""

    below: int | None = None
    choices: tuple[int, ...] = ()


def input_ranges(model: onnx.ModelProto, types: Types) -> dict[str, InputRange]:
    """By name of input, for those of which something is known."""
    users = _users(model)
    found = {}
    for value in model.graph.input:
        if types[value.name].kind in INTEGERS:
            known = _range_of(value.name, users, model, types)
            if known != InputRange():
                found[value.name] = known
    return found


def _users(model: onnx.ModelProto) -> dict[str, list[onnx.NodeProto]]:
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in all_nodes(model):
        for name in dict.fromkeys(node.input):
            users.setdefault(name, []).append(node)
    return users


def _range_of(
    name: str, users: dict[str, list[onnx.NodeProto]], model: onnx.ModelProto, types: Types
) -> InputRange:
    rows: list[int] = []
    choices: list[int] = []
    tables = {t.name: tuple(t.dims) for t in model.graph.initializer}
    for same in _same_numbers(name, users):
        for node in users.get(same, ()):
            rows += _rows(node, same, tables, types)
            choices += _compared(node, same, model)
    return InputRange(min(rows, default=None), tuple(sorted(set(choices))))


def _same_numbers(name: str, users: dict[str, list[onnx.NodeProto]]) -> Iterator[str]:
    """`name` and every value that holds the same numbers, arranged otherwise."""
    waiting, seen = [name], {name}
    while waiting:
        same = waiting.pop()
        yield same
        for node in users.get(same, ()):
            if node.op_type in _KEEPING and node.input[0] == same:
                new = set(node.output) - seen
                seen |= new
                waiting += sorted(new)


def _rows(
    node: onnx.NodeProto, name: str, tables: dict[str, tuple[int, ...]], types: Types
) -> Iterator[int]:
    """How many rows the tables have from which a node selects by `name`."""
    for place, table in _TABLES.get(node.op_type, {}).items():
        if place < len(node.input) and node.input[place] == name and table < len(node.input):
            dims = tables.get(node.input[table]) or types.sizes(node.input[table])
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            if dims and -len(dims) <= axis < len(dims) and dims[axis]:
                yield dims[axis]


def _compared(node: onnx.NodeProto, name: str, model: onnx.ModelProto) -> Iterator[int]:
    """The constants that a node compares `name` with."""
    if node.op_type == "Equal":
        for other in set(node.input) - {name}:
            number = _constant(other, model)
            if number is not None:
                yield number


def _constant(name: str, model: onnx.ModelProto) -> int | None:
    """The only element of a constant of integers, else None."""
    tensors = [tensor for tensor in model.graph.initializer if tensor.name == name]
    tensors += [
        attribute.t
        for node in all_nodes(model)
        if node.op_type == "Constant" and name in node.output
        for attribute in node.attribute
        if attribute.HasField("t")
    ]
    if not tensors or is_external(tensors[0]):
        return None
    array = numpy_helper.to_array(tensors[0])
    return int(array.item()) if array.size == 1 and array.dtype.kind in "iu" else None
