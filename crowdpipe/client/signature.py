"""What a model takes and gives, in ONNX Runtime's words, and whether feeds are that.

Checks names, element types, ranks, fixed dimensions, bounds of symbolic ones, and that a symbol
means one size, before anything is sent. The orchestrator checks again: this is for the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdpipe.client.arrays import DTYPES, Array, encode_array, matches
from wire.elements import Element
from wire.errors import InvalidInput
from wire.frames import Tensor
from wire.manifest import ModelMetadata, TensorSpec
from wire.messages.model import ModelSummary
from wire.planes import Lossless
from wire.shapes import Sizes, shape_fault

Feeds = Mapping[str, Any]
_MINTED = re.compile(r".+\.\d+")  # `<tensor>.<axis>`, where the model's author gave no name


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output: `shape` holds sizes and the names of symbolic dimensions (None for one
    without a name), `type` is such as `tensor(float)`. As in ONNX Runtime, a scalar and an unknown
    rank both read `[]`."""

    name: str
    shape: list[int | str | None]
    type: str


@dataclass(frozen=True, slots=True)
class ModelMeta:
    """What the model's author wrote of it, under the names of ONNX Runtime's `ModelMetadata`."""

    custom_metadata_map: dict[str, str]
    description: str
    domain: str
    graph_name: str
    producer_name: str
    version: int


def model_meta(metadata: ModelMetadata) -> ModelMeta:
    return ModelMeta(
        custom_metadata_map=dict(metadata.custom),
        description=metadata.description,
        domain=metadata.domain,
        graph_name=metadata.graph_name,
        producer_name=metadata.producer_name,
        version=metadata.version,
    )


def node_arg(spec: TensorSpec) -> NodeArg:
    shape = [_size(dim) for dim in spec.dims]
    return NodeArg(spec.name, shape if spec.rank_known else [], type_name(spec.kind))


def _size(dim: str) -> int | str | None:
    if dim.isdecimal():
        return int(dim)
    return None if _MINTED.fullmatch(dim) else dim


def type_name(kind: Element) -> str:
    return f"tensor({kind.name.lower()})"


def tensors_of(model: ModelSummary, feeds: Feeds, transport: Lossless) -> tuple[Tensor, ...]:
    """`feeds` as an item's tensors, in the model's order; `InvalidInput` says what is wrong."""
    if not isinstance(feeds, Mapping):
        raise InvalidInput(
            f"feeds must be a dict of arrays by input name, not {type(feeds).__name__}"
        )
    _check_names(model, feeds)
    sizes: Sizes = {}
    tensors = []
    for spec in model.inputs:
        array = _array(spec, feeds[spec.name])
        _check_type(spec, array)
        fault = shape_fault(spec, array.shape, model.symbols, sizes)
        if fault is not None:
            raise InvalidInput(fault)
        try:
            tensors.append(encode_array(spec.name, spec.kind, array, transport))
        except ValueError as error:
            raise InvalidInput(f"input '{spec.name}': {error}") from None
    return tuple(tensors)


def output_names_of(model: ModelSummary, names: Sequence[str] | None) -> tuple[str, ...]:
    """The outputs asked for, all by default; `InvalidInput` for one that there is not."""
    known = tuple(spec.name for spec in model.outputs)
    for name in names or ():
        if name not in known:
            raise InvalidInput(
                f"model '{model.name}' has no output '{name}'; it has {', '.join(known)}"
            )
    return tuple(names) if names else known


def _check_names(model: ModelSummary, feeds: Feeds) -> None:
    known = [spec.name for spec in model.inputs]
    missing = [name for name in known if name not in feeds]
    extra = [str(name) for name in feeds if name not in known]
    if missing or extra:
        what = f"input '{missing[0]}' is missing" if missing else f"there is no input '{extra[0]}'"
        taken = ", ".join(map(_described, model.inputs)) or "no input"
        raise InvalidInput(f"{what}: model '{model.name}' takes {taken}")


def _described(spec: TensorSpec) -> str:
    shape = f"[{', '.join(spec.dims)}]" if spec.rank_known else "any shape"
    return f"{spec.name}: {type_name(spec.kind)} {shape}"


def _array(spec: TensorSpec, value: Any) -> Array:
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"input '{spec.name}' is no array: {error}") from None


def _check_type(spec: TensorSpec, array: Array) -> None:
    if not matches(spec.kind, array):
        raise InvalidInput(
            f"input '{spec.name}' has elements of type {array.dtype.name}; "
            f"the model takes {type_name(spec.kind)}{_conversion(spec.kind, array)}"
        )


def _conversion(kind: Element, array: Array) -> str:
    """How to convert `array`, where numpy has the model's type and nothing but digits is lost."""
    if kind is Element.STRING or kind > Element.COMPLEX128:
        return ""
    wanted = np.dtype(DTYPES[kind])
    fits = array.dtype.kind in "biufc" and np.can_cast(array.dtype, wanted, "same_kind")
    return f"; convert it with array.astype('{wanted.name}')" if fits else ""
