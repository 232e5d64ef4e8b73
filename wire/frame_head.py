"""What a frame's header says: whose activation it is, and of what its tensors are.

The bytes are read and written in `wire.frames`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from wire.ids import ActivationId
from wire.planes import Lossless
from wire.transport import Transport

MAX_RANK = 32
ATTEMPTS = 1000  # of one item under one generation, which has a thousand numbers of its own
MAX_BATCH = 64  # items that may ask to be computed at once: six bits tell their number


@dataclass(frozen=True, slots=True)
class FrameSettings:
    """A run's settings, which travel with its items from hop to hop. `batch`: so many items at
    most may be computed at once; 1: each alone."""

    exact: bool = False
    barrier: bool = False
    transport: Transport = "auto"
    batch: int = 1

    @property
    def lossless(self) -> Lossless:
        """What a tensor that must keep its bits is sent with."""
        if self.transport == "fp16" or self.transport == "int8":
            return "auto"
        return self.transport


@dataclass(frozen=True, slots=True)
class TensorHead:
    """Name, ONNX element type and shape of one tensor in a frame."""

    name: str
    element: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FrameHead:
    """A frame's header without its planes. `nbytes` is the encoded frame, `raw_nbytes` its
    tensors decoded."""

    model: str
    activation: ActivationId
    attempt: int
    _: KW_ONLY
    exact: bool
    barrier: bool
    nbytes: int
    raw_nbytes: int
    tensors: tuple[TensorHead, ...] = ()
    transport: Transport = "auto"
    batch: int = 1

    @property
    def comes_again(self) -> bool:
        """Not the first attempt that this life of the orchestrator makes."""
        return self.attempt % ATTEMPTS > 0

    @property
    def settings(self) -> FrameSettings:
        return FrameSettings(self.exact, self.barrier, self.transport, self.batch)
