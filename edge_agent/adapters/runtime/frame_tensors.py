"""A frame's tensors as OrtValues, and OrtValues as the next frame's tensors.

Only what a partition needs is decoded; what merely passes is copied in its encoded form. Lossy
transports are used where the run asks for one and the values survive it: exact runs, other types
than float32, and tensors with infinities or NaN travel without loss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from edge_agent.adapters.runtime.deflating import Deflating
from edge_agent.adapters.runtime.onnx_values import (
    element_of,
    raw_of,
    shape_of,
    strings_of,
    strings_value,
    value_of,
)
from wire.elements import Element
from wire.errors import ComputeFailed, TooLarge
from wire.frame_head import MAX_RANK, FrameHead, FrameSettings, TensorHead
from wire.frames import (
    Encoding,
    Frame,
    Tensor,
    decode_frame,
    encode_frame,
    encode_lossy_fp16,
    encode_lossy_int8,
    encode_strings,
    encode_tensor,
    head_of,
)
from wire.ids import TaskId
from wire.messages.assignment import PartitionAssignment
from wire.messages.events import MADE_TOLD

LARGEST_INT8 = 127.0


class OutputTooLarge(TooLarge):
    """`made`: what came out, the largest first. The orchestrator knows which dimension is bounded,
    and says what mends it."""

    def __init__(self, emitted: Frame, limit_nbytes: int) -> None:
        by_size = sorted(emitted.tensors, key=lambda tensor: -tensor.raw_nbytes)
        self.made = tuple(
            TensorHead(tensor.name, tensor.kind, tensor.shape)
            for tensor in by_size[:MADE_TOLD]
            if len(tensor.shape) <= MAX_RANK
        )
        listed = ", ".join(f"{made.name!r} {list(made.shape)}" for made in self.made)
        super().__init__(
            f"what came out has {emitted.raw_nbytes} bytes, and {limit_nbytes} are allowed for: "
            f"{listed}"
        )


@dataclass(frozen=True, slots=True)
class Emitted:
    header: FrameHead
    data: bytes


def open_frame(data: bytes, limit_nbytes: int) -> Frame:
    """The frame with its tensors still encoded. Raises `TooLarge` or `Malformed`."""
    return decode_frame(data, limit_nbytes)


def values_of(frame: Frame, names: Collection[str]) -> dict[str, Any]:
    """OrtValues of those of `names` that the frame has."""
    return {tensor.name: _value(tensor) for tensor in frame.tensors if tensor.name in names}


def _value(tensor: Tensor) -> Any:
    if tensor.encoding is Encoding.STRINGS:
        return strings_value(tensor.shape, tensor.strings())
    if tensor.encoding is Encoding.FP16:
        return value_of(tensor.kind, tensor.shape, _from_halves(tensor))
    if tensor.encoding is Encoding.INT8_ROWS:
        return value_of(tensor.kind, tensor.shape, _from_rows(tensor))
    return value_of(tensor.kind, tensor.shape, tensor.data())


def _from_halves(tensor: Tensor) -> bytes:
    import numpy

    return numpy.frombuffer(tensor.data(), numpy.float16).astype(numpy.float32).tobytes()


def _from_rows(tensor: Tensor) -> bytes:
    import numpy

    scales, values = tensor.rows()
    rows = numpy.frombuffer(values, numpy.int8).reshape(-1, max(1, tensor.shape[-1]))
    return (rows * numpy.frombuffer(scales, numpy.float32)[:, None]).astype(numpy.float32).tobytes()


def emit(
    frame: Frame,
    made: dict[str, Any],
    task: TaskId,
    assigned: PartitionAssignment,
    link_nbytes_per_s: float | None,
    deflating: Deflating,
) -> Emitted:
    """The frame after the partition: `assigned.emits` in order, from `made` or passing through.

    Raises `ComputeFailed` if one is nowhere, `OutputTooLarge` if together they exceed their bound.
    """
    passing = {tensor.name: tensor for tensor in frame.tensors}
    tensors = tuple(
        passing.get(name) or _made(name, made, frame.settings, link_nbytes_per_s, deflating)
        for name in assigned.emits
    )
    emitted = Frame(frame.model, task.makes, task.attempt, frame.settings, tensors)
    if emitted.raw_nbytes > assigned.emits_nbytes:
        raise OutputTooLarge(emitted, assigned.emits_nbytes)
    data = encode_frame(emitted)
    return Emitted(head_of(emitted, len(data)), data)


def _made(
    name: str,
    made: dict[str, Any],
    settings: FrameSettings,
    link: float | None,
    deflating: Deflating,
) -> Tensor:
    value = made.get(name)
    if value is None:
        raise ComputeFailed(f"neither the partition nor its input has {name!r}")
    kind, shape = element_of(value), shape_of(value)
    if kind is Element.STRING:
        return encode_strings(name, shape, strings_of(value), settings.lossless, link)
    data = raw_of(value)
    lossy = _lossy(name, shape, data, settings) if kind is Element.FLOAT else None
    if lossy is not None:
        return lossy
    began_s = time.monotonic()
    tensor = encode_tensor(name, kind, shape, data, settings.lossless, deflating.worth(link))
    deflating.took(tensor, time.monotonic() - began_s)
    return tensor


def _lossy(
    name: str, shape: tuple[int, ...], data: bytes, settings: FrameSettings
) -> Tensor | None:
    if settings.exact or not shape or not math.prod(shape):
        return None
    if settings.transport == "fp16":
        return _halves(name, shape, data)
    if settings.transport == "int8":
        return _rows(name, shape, data)
    return None


def _halves(name: str, shape: tuple[int, ...], data: bytes) -> Tensor | None:
    import numpy

    with numpy.errstate(over="ignore"):
        halves = numpy.frombuffer(data, numpy.float32).astype(numpy.float16)
    if not numpy.isfinite(halves).all():
        return None
    return encode_lossy_fp16(name, shape, halves.tobytes())


def _rows(name: str, shape: tuple[int, ...], data: bytes) -> Tensor | None:
    import numpy

    rows = numpy.frombuffer(data, numpy.float32).reshape(-1, shape[-1])
    if not numpy.isfinite(rows).all():
        return None
    scales = (numpy.abs(rows).max(axis=1) / LARGEST_INT8).astype(numpy.float32)
    divisors = numpy.where(scales > 0, scales, 1)[:, None]
    values = numpy.clip(numpy.rint(rows / divisors), -LARGEST_INT8, LARGEST_INT8)
    return encode_lossy_int8(name, shape, scales.tobytes(), values.astype(numpy.int8).tobytes())
