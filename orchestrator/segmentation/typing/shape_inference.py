"""Asks ONNX's shape inference and ONNX Runtime's what the values of a model are.

Two passes of ONNX's: one with the author's symbols, for names, and one with every symbol at some
size, for sizes. Where they know nothing (operators of other domains), ONNX Runtime's own inference
answers. What stays unknown stays unknown.
"""

from __future__ import annotations

from functools import cached_property

import onnx

from orchestrator.segmentation.reading.walk import Dataflow, copied
from orchestrator.segmentation.typing.runtime_types import ask_runtime
from orchestrator.segmentation.typing.value_type import Dim, ValueType, sizes_of, symbol_of
from wire.elements import Element, element
from wire.errors import InvalidModel, Malformed


class _Asked:
    """Both inferences of a model whose inputs have sizes; ONNX Runtime's when it is wanted."""

    def __init__(
        self, bounded: onnx.ModelProto, named: dict[str, onnx.TypeProto], flow: Dataflow
    ) -> None:
        self._bounded, self._flow = bounded, flow
        inferred = _inferred_at_bounds(bounded)
        self.agree = bool(inferred)
        self.values = _merge(named, inferred)

    @cached_property
    def answers(self) -> dict[str, ValueType]:
        return ask_runtime(self._bounded, self._flow)


class ShapeInference:
    """Both inferences at some bounds. ONNX Runtime is asked only for what ONNX leaves open."""

    def __init__(self, named: onnx.ModelProto, flow: Dataflow) -> None:
        self._model = named
        self._flow = flow
        self._named = _inferred(named)
        self._last: tuple[dict[str, int], _Asked] | None = None

    @cached_property
    def _runtime_named(self) -> dict[str, ValueType]:
        return ask_runtime(self._model, self._flow)

    def fits(self, symbols: dict[str, int]) -> bool:
        """Whether the shapes agree at these bounds, as far as anyone can tell."""
        asked = self._asked(symbols)
        if not asked.agree or not self._has_vague(asked.values):
            return asked.agree
        return not self._runtime_named or bool(asked.answers)

    @cached_property
    def named_values(self) -> dict[str, ValueType]:
        """What is known of the values without any bounds."""
        values = _merge(self._named, {})
        if any(value.dims is None for value in map(values.get, self._flow.producer) if value):
            return _complete(values, self._runtime_named, {})
        return values

    def at(self, symbols: dict[str, int]) -> dict[str, ValueType]:
        asked = self._asked(symbols)
        if not self._has_vague(asked.values):
            return asked.values
        return _complete(asked.values, self._runtime_named, asked.answers)

    def _asked(self, symbols: dict[str, int]) -> _Asked:
        """What was asked last is known: whether bounds fit is asked before what they give."""
        if self._last is None or self._last[0] != symbols:
            bounded = _bounded(self._model, symbols)
            self._last = (dict(symbols), _Asked(bounded, self._named, self._flow))
        return self._last[1]

    def _has_vague(self, values: dict[str, ValueType]) -> bool:
        return any(_is_vague(values.get(name, ValueType())) for name in self._flow.producer)


def with_named_dimensions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose inputs have a name for each unnamed dimension."""
    copy = _bare(model)
    for value in copy.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                dim.dim_param = symbol_of(dim.dim_param) or f"{value.name}.{axis}"
    return copy


def _bare(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without the author's claims on inner values and outputs, which may contradict."""
    copy = copied(model)
    del copy.graph.value_info[:]
    for value in copy.graph.output:
        value.ClearField("type")
    return copy


def _bounded(model: onnx.ModelProto, symbols: dict[str, int]) -> onnx.ModelProto:
    copy = copied(model)
    for value in copy.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param]
    return copy


def _inferred(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise InvalidModel(f"its shapes contradict each other: {str(error)[:300]}") from None
    graph = inferred.graph
    # Inputs last: a model output that is an input has no inferred type of its own.
    return {v.name: v.type for v in (*graph.output, *graph.value_info, *graph.input)}


def _inferred_at_bounds(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Nothing where the bounds do not fit together, as may be if they are defaults."""
    try:
        return _inferred(model)
    except InvalidModel:
        return {}


def _merge(
    named: dict[str, onnx.TypeProto], bounded: dict[str, onnx.TypeProto]
) -> dict[str, ValueType]:
    """Names and fixed sizes from the first pass, sizes at the bounds from the second."""
    values = {}
    for name, proto in named.items():
        kind, dims = _read(proto)
        _, sizes = _read(bounded.get(name, onnx.TypeProto()))
        if sizes is not None and (dims is None or len(dims) != len(sizes)):
            dims = (None,) * len(sizes)
        values[name] = ValueType(kind, dims, sizes_of(dims, sizes))
    return values


def _read(proto: onnx.TypeProto) -> tuple[Element | None, tuple[Dim, ...] | None]:
    if not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
        return None, None
    try:
        kind = element(proto.tensor_type.elem_type)
    except Malformed as error:
        raise InvalidModel(str(error)) from None
    if not proto.tensor_type.HasField("shape"):
        return kind, None
    return kind, tuple(_dim(dim) for dim in proto.tensor_type.shape.dim)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return symbol_of(dim.dim_param) or None


def _is_vague(value: ValueType) -> bool:
    return value.sizes is None or any(size is None for size in value.sizes)


def _complete(
    values: dict[str, ValueType], named: dict[str, ValueType], bounded: dict[str, ValueType]
) -> dict[str, ValueType]:
    """ONNX's answers first; ONNX Runtime's where those are vague."""
    done = dict(values)
    for name, answer in named.items():
        value = values.get(name, ValueType())
        if not _is_vague(value):
            continue
        sizes = bounded.get(name, answer).sizes
        dims = value.dims if value.dims is not None else answer.dims
        if dims is None and sizes is not None:
            dims = (None,) * len(sizes)
        if sizes is not None and dims is not None and len(sizes) != len(dims):
            sizes = None
        both = _first_known(value.sizes, sizes)
        done[name] = ValueType(value.kind or answer.kind, dims, sizes_of(dims, both))
    return done


def _first_known(
    first: tuple[int | None, ...] | None, second: tuple[int | None, ...] | None
) -> tuple[int | None, ...] | None:
    if first is None or second is None or len(first) != len(second):
        return first if first is not None else second
    return tuple(b if a is None else a for a, b in zip(first, second, strict=True))
