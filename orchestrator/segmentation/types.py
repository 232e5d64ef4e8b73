"""What is known of each value: tensor or not, element type, and dimensions.

Two passes of ONNX's shape inference: one with the author's symbols, for names, and one with
every symbol at its bound, for sizes. Where they know nothing (operators of other domains), ONNX
Runtime's own inference answers: it loads the graph with large weights as inputs, so no weight
is read and nothing runs. What stays unknown stays unknown; `segmenter` refuses to cut there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import onnx
import onnxruntime
from onnx import helper

from orchestrator.segmentation.options import DEFAULT_BATCH, DEFAULT_DIM, SegmentOptions
from orchestrator.segmentation.tensors import is_external
from orchestrator.segmentation.walk import Dataflow, copied
from wire.elements import Element, bits_of, element
from wire.errors import InvalidModel, Malformed, UserError
from wire.manifest import STRING_LIMIT_NBYTES, bound_of

_RUNTIME_TYPES = {
    "float": Element.FLOAT, "double": Element.DOUBLE, "float16": Element.FLOAT16,
    "bfloat16": Element.BFLOAT16, "int8": Element.INT8, "int16": Element.INT16,
    "int32": Element.INT32, "int64": Element.INT64, "uint8": Element.UINT8,
    "uint16": Element.UINT16, "uint32": Element.UINT32, "uint64": Element.UINT64,
    "bool": Element.BOOL, "string": Element.STRING, "complex64": Element.COMPLEX64,
    "complex128": Element.COMPLEX128, "float8e4m3fn": Element.FLOAT8E4M3FN,
    "float8e4m3fnuz": Element.FLOAT8E4M3FNUZ, "float8e5m2": Element.FLOAT8E5M2,
    "float8e5m2fnuz": Element.FLOAT8E5M2FNUZ, "int4": Element.INT4, "uint4": Element.UINT4,
    "float4e2m1": Element.FLOAT4E2M1,
}  # fmt: skip
_MINTED_NAME = re.compile(r".*(unk|dynamic|dim|\?).*|.*\.0", re.IGNORECASE)
_BATCH_NAMES = frozenset({"n", "b", "bs"})


GUESS_LIMIT_NBYTES = 16 << 20  # of a tensor with a dimension of which nothing is known


@dataclass(frozen=True, slots=True)
class ValueType:
    """A value's type. `kind` None: a sequence, an optional, or unknown. `dims` None: the rank is
    unknown; a dim None: unknown. `sizes` are the dims at the symbols' bounds."""

    kind: Element | None = None
    dims: tuple[int | str | None, ...] | None = None
    sizes: tuple[int | None, ...] | None = None

    @property
    def is_tensor(self) -> bool:
        return self.kind is not None

    @property
    def count(self) -> int:
        """Elements at the bounds; a size that is unknown counts as `DEFAULT_DIM`."""
        total = 1
        for size in self.sizes or ():
            total *= DEFAULT_DIM if size is None else size
        return total if self.sizes is not None else DEFAULT_DIM * DEFAULT_DIM

    @property
    def nbytes(self) -> int:
        if self.kind is None:
            return 0
        if self.kind is Element.STRING:
            return STRING_LIMIT_NBYTES
        nbytes = (self.count * bits_of(self.kind) + 7) // 8
        guessed = self.sizes is None or None in self.sizes
        return min(nbytes, GUESS_LIMIT_NBYTES) if guessed else nbytes


@dataclass(frozen=True, slots=True)
class Types:
    """The types of all values, the bounds of all symbols, which of these bounds are guesses
    because the dimension depends on data, and notes on that."""

    values: dict[str, ValueType]
    symbols: dict[str, int]
    guessed: frozenset[str]
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> ValueType:
        return self.values.get(name, ValueType())

    def kind_of(self, name: str) -> Element:
        """The element type. Raises `InvalidModel` if the value is no tensor."""
        kind = self[name].kind
        if kind is None:
            raise InvalidModel(
                f"{name!r} is no tensor of a known type (a sequence, map or optional); "
                "it can be neither an output nor cross a cut"
            )
        return kind

    def bound_nbytes(self, name: str) -> int:
        """Bytes of a tensor at the symbols' bounds; less where a bound is a guess, since guesses
        multiply. A larger one is refused when it comes, and `max_shape` then mends that."""
        value = self[name]
        if value.dims is None:
            return value.nbytes
        dims = tuple(str(dim) for dim in value.dims)
        nbytes = bound_of(self.kind_of(name), dims, self.symbols)
        guessed = not self.guessed.isdisjoint(dims)
        return min(nbytes, GUESS_LIMIT_NBYTES) if guessed else nbytes

    def count(self, name: str) -> int:
        return self[name].count

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """The dims at the bounds if all are known."""
        sizes = self[name].sizes
        if sizes is None or any(size is None for size in sizes):
            return None
        return tuple(size for size in sizes if size is not None)


def infer_types(model: onnx.ModelProto, flow: Dataflow, options: SegmentOptions) -> Types:
    """Raises `UserError` if `options.max_shape` names a symbol that the model does not have."""
    named = _named(model)
    symbols = _input_symbols(named, options)
    bounded = _bounded(named, symbols)
    values = _merge(_inferred(named), _inferred_at_bounds(bounded))
    if any(_is_vague(values.get(name, ValueType())) for name in flow.producer):
        values = _complete(values, _asked(named, flow), _asked(bounded, flow))
    return _with_minted(values, symbols, options)


def _named(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose inputs have a name for each unnamed dimension."""
    copy = _bare(model)
    for value in copy.graph.input:
        for axis, dim in enumerate(_tensor_type(value).shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                dim.dim_param = _symbol(dim.dim_param) or f"{value.name}.{axis}"
    return copy


def _bare(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without the author's claims on inner values and outputs, which may contradict."""
    copy = copied(model)
    del copy.graph.value_info[:]
    for value in copy.graph.output:
        value.ClearField("type")
    return copy


def _tensor_type(value: onnx.ValueInfoProto) -> onnx.TypeProto.Tensor:
    return value.type.tensor_type


def _symbol(text: str) -> str:
    """A usable name of a dimension: decimal text would read as a size."""
    return f"dim {text}" if text.isdecimal() else text


def _input_symbols(model: onnx.ModelProto, options: SegmentOptions) -> dict[str, int]:
    symbols: dict[str, int] = {}
    for value in model.graph.input:
        _check_input(value)
        for axis, dim in enumerate(_tensor_type(value).shape.dim):
            name = dim.dim_param
            if name and name not in symbols:
                symbols[name] = options.max_shape.get(name, _default(name, axis))
    return symbols


def _check_input(value: onnx.ValueInfoProto) -> None:
    if not value.type.HasField("tensor_type") or not _tensor_type(value).elem_type:
        raise InvalidModel(
            f"input {value.name!r} is no tensor (a sequence, map or optional); "
            "only tensors can be sent to a device"
        )


def _default(name: str, axis: int) -> int:
    """A first dimension whose name says nothing, as converters mint them, is taken for a batch."""
    batch = "batch" in name.lower() or name.lower() in _BATCH_NAMES
    minted = axis == 0 and _MINTED_NAME.fullmatch(name) is not None
    return DEFAULT_BATCH if batch or minted else DEFAULT_DIM


def _check_wishes(options: SegmentOptions, known: set[str]) -> None:
    unknown = sorted(set(options.max_shape) - known)
    if unknown:
        have = ", ".join(sorted(known)) or "none"
        raise UserError(f"the model has no dimension {unknown[0]!r}; its dimensions are: {have}")


def _bounded(model: onnx.ModelProto, symbols: dict[str, int]) -> onnx.ModelProto:
    copy = copied(model)
    for value in copy.graph.input:
        for dim in _tensor_type(value).shape.dim:
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
        values[name] = ValueType(kind, dims, _sizes(dims, sizes))
    return values


def _sizes(
    dims: tuple[int | str | None, ...] | None, sizes: tuple[int | str | None, ...] | None
) -> tuple[int | None, ...] | None:
    if dims is None:
        return None
    known = sizes if sizes is not None else dims
    pairs = zip(dims, known, strict=True)
    return tuple(
        size if isinstance(size, int) else dim if isinstance(dim, int) else None
        for dim, size in pairs
    )


def _read(proto: onnx.TypeProto) -> tuple[Element | None, tuple[int | str | None, ...] | None]:
    if not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
        return None, None
    try:
        kind = element(proto.tensor_type.elem_type)
    except Malformed as error:
        raise InvalidModel(str(error)) from None
    if not proto.tensor_type.HasField("shape"):
        return kind, None
    return kind, tuple(_dim(dim) for dim in proto.tensor_type.shape.dim)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return _symbol(dim.dim_param) or None


def _is_vague(value: ValueType) -> bool:
    return value.sizes is None or any(size is None for size in value.sizes)


def _asked(model: onnx.ModelProto, flow: Dataflow) -> dict[str, ValueType]:
    """What ONNX Runtime says of every value that a node makes; nothing if it cannot load the
    graph at these sizes or without its weights' values."""
    copy = _weightless(model)
    have = {value.name for value in copy.graph.output}
    copy.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in flow.producer if name not in have
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        session = onnxruntime.InferenceSession(
            copy.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # ONNX Runtime raises classes of its own, without a common base
        return {}
    return {output.name: _answer(output.type, output.shape) for output in session.get_outputs()}


def _weightless(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose external weights are inputs of the same type and shape."""
    copy = copied(model)
    copy.ir_version = max(4, min(copy.ir_version, 10))
    kept = [tensor for tensor in copy.graph.initializer if not is_external(tensor)]
    for tensor in filter(is_external, model.graph.initializer):
        copy.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    own = [copied(tensor) for tensor in kept]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(own)
    return copy


def _answer(text: str, shape: list[int | str | None]) -> ValueType:
    """ONNX Runtime reports an unknown rank and a scalar alike as []: then no shape."""
    if not text.startswith("tensor("):
        return ValueType()
    kind = _RUNTIME_TYPES.get(text[len("tensor(") : -1])
    dims: tuple[int | str | None, ...] | None = None
    if shape:
        dims = tuple(_symbol(dim) if isinstance(dim, str) else dim for dim in shape)
    return ValueType(kind, dims, _sizes(dims, dims))


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
        done[name] = ValueType(value.kind or answer.kind, dims, _sizes(dims, both))
    return done


def _first_known(
    first: tuple[int | None, ...] | None, second: tuple[int | None, ...] | None
) -> tuple[int | None, ...] | None:
    if first is None or second is None or len(first) != len(second):
        return first if first is not None else second
    return tuple(b if a is None else a for a, b in zip(first, second, strict=True))


class _Minting:
    """Names each unnamed dimension and bounds each name: by what inference gave at the inputs'
    bounds (the largest, where one name has several sizes), or by the default, with a note."""

    def __init__(self, symbols: dict[str, int], options: SegmentOptions) -> None:
        self._given = frozenset(symbols)
        self._options = options
        self.symbols = dict(symbols)
        self.guessed: list[str] = []

    def mint(self, name: str, value: ValueType) -> ValueType:
        if value.dims is None or value.sizes is None:
            return value
        pairs = enumerate(zip(value.dims, value.sizes, strict=True))
        dims = tuple(self._dim(name, axis, dim, size) for axis, (dim, size) in pairs)
        return replace(value, dims=dims)

    def _dim(self, name: str, axis: int, dim: int | str | None, size: int | None) -> int | str:
        if isinstance(dim, int):
            return dim
        symbol = dim or f"{name}.{axis}"
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


def _with_minted(
    values: dict[str, ValueType], symbols: dict[str, int], options: SegmentOptions
) -> Types:
    minting = _Minting(symbols, options)
    done = {name: minting.mint(name, value) for name, value in values.items()}
    notes: tuple[str, ...] = ()
    if minting.guessed:
        listed = ", ".join(minting.guessed[:5])
        notes = (f"dimensions that depend on data are bounded at {DEFAULT_DIM}: {listed}",)
    _check_wishes(options, set(minting.symbols))
    return Types(done, minting.symbols, frozenset(minting.guessed), notes)
