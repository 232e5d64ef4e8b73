"""Symbolic dimensions: a name and a bound for each.

The bounds of the inputs' dimensions are wished or defaults; those of all others follow from
them, or are guesses where a dimension depends on data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import onnx

from orchestrator.segmentation.options import DEFAULT_BATCH, DEFAULT_DIM, SegmentOptions
from orchestrator.segmentation.reading.walk import Node
from orchestrator.segmentation.typing.value_type import Dim, ValueType
from wire.errors import InvalidModel, UserError

_MINTED_NAME = re.compile(r".*(unk|dynamic|dim|\?).*|.*\.0", re.IGNORECASE)
_SAYS_BATCH = frozenset({"bs"})
_MAY_SAY_BATCH = frozenset({"n", "b"})
_COUNTING = frozenset({"NonZero", "Compress", "Unique"})  # give at most one per element of input


def input_bounds(model: onnx.ModelProto, options: SegmentOptions) -> dict[str, int]:
    """The inputs' dimensions and their bounds. Raises `InvalidModel` for an input that is no
    tensor."""
    for value in model.graph.input:
        _check_input(value)
    shapes = [_names(value) for value in model.graph.input]
    names = dict.fromkeys(name for shape in shapes for name in shape if name)
    return {name: options.max_shape.get(name, default_bound(name, shapes)) for name in names}


def _names(value: onnx.ValueInfoProto) -> tuple[str, ...]:
    """The name of each axis; "" where the size is fixed."""
    return tuple(dim.dim_param for dim in value.type.tensor_type.shape.dim)


def _check_input(value: onnx.ValueInfoProto) -> None:
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.elem_type:
        raise InvalidModel(
            f"input {value.name!r} is no tensor (a sequence, map or optional); "
            "only tensors can be sent to a device"
        )


def default_bound(name: str, shapes: Sequence[Sequence[str]]) -> int:
    """`DEFAULT_BATCH` for a batch, `DEFAULT_DIM` for a length; `shapes` are the names of the
    inputs' axes ("" for a fixed one).

    A name that says batch is one on any axis. One that may say it (n, b) or that says nothing, as
    converters mint them, is one only if it leads: it is the first axis of every input that has it,
    and further axes follow in one of them. A lone [n] is a length, and so is [1, n, 3].
    """
    lowered = name.lower()
    if "batch" in lowered or lowered in _SAYS_BATCH:
        return DEFAULT_BATCH
    minted = _MINTED_NAME.fullmatch(name) is not None
    leads = _leads(name, shapes) or (minted and _lists_items(name, shapes))
    return DEFAULT_BATCH if leads and (minted or lowered in _MAY_SAY_BATCH) else DEFAULT_DIM


def _leads(name: str, shapes: Sequence[Sequence[str]]) -> bool:
    having = [shape for shape in shapes if name in shape]
    first = all(name not in shape[1:] for shape in having)
    return first and any(len(shape) > 1 for shape in having)


def _lists_items(name: str, shapes: Sequence[Sequence[str]]) -> bool:
    """Whether a minted [name] may be one number for each item: converters name the batch of each
    input apart, so that of another input tells it."""
    alone = all(len(shape) == 1 for shape in shapes if name in shape)
    firsts = {shape[0] for shape in shapes if len(shape) > 1 and shape[0]}
    return alone and any(default_bound(first, shapes) == DEFAULT_BATCH for first in firsts)


def counted_bounds(nodes: tuple[Node, ...], values: dict[str, ValueType]) -> dict[str, int]:
    """Bounds of dimensions that count elements of an input: there are no more than it has."""
    bounds: dict[str, int] = {}
    for node in nodes:
        counted = values.get(node.proto.input[0]) if node.proto.op_type in _COUNTING else None
        if counted is None or counted.sizes is None or None in counted.sizes:
            continue
        for name in node.outputs:
            bounds.update(dict.fromkeys(_unknown(name, values), counted.count))
    return bounds


def _unknown(name: str, values: dict[str, ValueType]) -> list[str]:
    """The names of a value's dimensions whose sizes do not follow from the inputs' bounds."""
    value = values.get(name, ValueType())
    pairs = enumerate(zip(value.dims or (), value.sizes or (), strict=True))
    return [_named(name, axis, dim) for axis, (dim, size) in pairs if size is None]


def _named(name: str, axis: int, dim: Dim) -> str:
    return str(dim) if dim else f"{name}.{axis}"


def check_wishes(options: SegmentOptions, known: set[str]) -> None:
    """Raises `UserError` for a wished bound of a dimension that the model does not have."""
    unknown = sorted(set(options.max_shape) - known)
    if unknown:
        have = ", ".join(sorted(known)) or "none"
        raise UserError(f"the model has no dimension {unknown[0]!r}; its dimensions are: {have}")


class Minting:
    """Names each unnamed dimension and bounds each name: by what inference gave at the inputs'
    bounds (the largest, where one name has several sizes), or by the default, with a note."""

    def __init__(self, symbols: dict[str, int], options: SegmentOptions) -> None:
        self._given = frozenset(symbols)
        self._options = options
        self.symbols = dict(symbols)
        self.guessed: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.guessed:
            return ()
        listed = ", ".join(self.guessed[:5])
        return (f"dimensions that depend on data are bounded at {DEFAULT_DIM}: {listed}",)

    def mint(self, name: str, value: ValueType) -> ValueType:
        if value.dims is None or value.sizes is None:
            return value
        pairs = enumerate(zip(value.dims, value.sizes, strict=True))
        dims = tuple(self._dim(name, axis, dim, size) for axis, (dim, size) in pairs)
        return replace(value, dims=dims)

    def _dim(self, name: str, axis: int, dim: Dim, size: int | None) -> int | str:
        if isinstance(dim, int):
            return dim
        symbol = _named(name, axis, dim)
        self.symbols[symbol] = self._bound(symbol, size)
        return symbol

    def _bound(self, symbol: str, size: int | None) -> int:
        if symbol in self._options.max_shape:
            return self._options.max_shape[symbol]
        if symbol in self._given and (size is None or size <= self.symbols[symbol]):
            return self.symbols[symbol]
        if size is None and symbol not in self.symbols:
            self.guessed.append(symbol)
        return max(self.symbols.get(symbol, 0), DEFAULT_DIM if size is None else size)
