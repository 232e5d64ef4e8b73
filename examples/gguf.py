"""Reads a GGUF file, the format of llama.cpp: what it says about the model, and its tensors.

Written from the format's description (github.com/ggml-org/ggml, docs/gguf.md). Knows the
encodings F32, F16, Q4_1 and Q8_0, and says so of any other. Gives numpy arrays; what they mean is
the model's affair (`examples.smollm2`).
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wire.errors import UserError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # of tensors in the file, unless it says otherwise
BLOCK = 32  # weights that share one scale
COUNT_LIMIT = 1 << 24  # of anything that a file may claim to list
RANK_LIMIT = 8
STRING, ARRAY = 8, 9
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}

Floats = NDArray[np.float32]


class NotGguf(UserError):
    """The file is not GGUF, is cut short, or uses what this reader does not know."""

    kind: ClassVar[str] = "not_gguf"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies: its shape as numpy has it, its encoding, and its offset in the data."""

    shape: tuple[int, ...]
    encoding: int
    offset: int


class GgufFile:
    """`facts` by name, as `llama.block_count`. Open until the process ends: arrays are copies,
    made when asked for."""

    def __init__(self, path: Path) -> None:
        """Raises `NotGguf` or `OSError`."""
        with path.open("rb") as file:
            if path.stat().st_size < len(MAGIC):
                raise NotGguf(f"{path.name} is too short to be a GGUF file")
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        self.facts: dict[str, Any] = {}
        self._places: dict[str, _Place] = {}
        try:
            self._read_head(path)
        except (struct.error, UnicodeDecodeError) as error:
            raise NotGguf(f"{path.name} is cut short or damaged: {error}") from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)

    def tensor(self, name: str) -> Floats:
        """In float32; the last dimension runs fastest. Raises `NotGguf` or `KeyError`."""
        place = self._places[name]
        decoder = DECODERS.get(place.encoding)
        if decoder is None:
            raise NotGguf(f"{name} is encoded as type {place.encoding}, which is not known here")
        count = math.prod(place.shape)
        nbytes = decoder.nbytes_of(count)
        begin = self._data + place.offset
        if begin + nbytes > len(self._bytes):
            raise NotGguf(f"{name} reaches beyond the end of the file")
        raw = np.frombuffer(self._bytes[begin : begin + nbytes], np.uint8)
        return decoder.decode(raw).reshape(place.shape)

    # --- the head -----------------------------------------------------------------------------

    def _read_head(self, path: Path) -> None:
        if self._bytes[: len(MAGIC)] != MAGIC:
            raise NotGguf(f"{path.name} is not a GGUF file")
        self._at = len(MAGIC)
        version = self._number("I")
        if version not in VERSIONS:
            raise NotGguf(f"{path.name} has GGUF version {version}; versions 2 and 3 are known")
        tensors, facts = self._count(), self._count()
        for _ in range(facts):
            name = self._string()
            self.facts[name] = self._value(self._number("I"))
        for _ in range(tensors):
            name = self._string()
            self._places[name] = self._place()
        alignment = int(self.facts.get("general.alignment", ALIGNMENT))
        self._data = -(-self._at // alignment) * alignment

    def _place(self) -> _Place:
        rank = self._number("I")
        if rank > RANK_LIMIT:
            raise NotGguf(f"a tensor of rank {rank}")
        turned = [self._number("Q") for _ in range(rank)]  # the one that runs fastest comes first
        return _Place(tuple(reversed(turned)), self._number("I"), self._number("Q"))

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            inner, count = self._number("I"), self._count()
            return [self._value(inner) for _ in range(count)]
        if kind not in SCALARS:
            raise NotGguf(f"a value of type {kind}, which is not known here")
        return self._number(SCALARS[kind])

    def _count(self) -> int:
        count = int(self._number("Q"))
        if count > COUNT_LIMIT:
            raise NotGguf(f"a list of {count} entries")
        return count

    def _string(self) -> str:
        length = self._count()
        text = self._bytes[self._at : self._at + length]
        self._at += length
        return text.decode()

    def _number(self, form: str) -> Any:
        (value,) = struct.unpack_from(f"<{form}", self._bytes, self._at)
        self._at += struct.calcsize(f"<{form}")
        return value


# --- encodings ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Decoder:
    """`block_nbytes` hold `block` numbers."""

    block: int
    block_nbytes: int
    decode: Callable[[NDArray[np.uint8]], Floats]

    def nbytes_of(self, count: int) -> int:
        return -(-count // self.block) * self.block_nbytes


def _f32(raw: NDArray[np.uint8]) -> Floats:
    return raw.view("<f4").astype(np.float32)


def _f16(raw: NDArray[np.uint8]) -> Floats:
    return raw.view("<f2").astype(np.float32)


def _q4_1(raw: NDArray[np.uint8]) -> Floats:
    """Blocks of a scale, a least value, and 16 bytes: the low halves are the first 16 numbers."""
    blocks = raw.reshape(-1, 20)
    scale, least = (blocks[:, at : at + 2].copy().view("<f2").astype(np.float32) for at in (0, 2))
    halves = np.concatenate([blocks[:, 4:] & 0xF, blocks[:, 4:] >> 4], axis=1)
    return halves.astype(np.float32) * scale + least


def _q8_0(raw: NDArray[np.uint8]) -> Floats:
    """Blocks of a scale and 32 signed bytes."""
    blocks = raw.reshape(-1, 34)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return blocks[:, 2:].view(np.int8).astype(np.float32) * scale


DECODERS = {
    0: _Decoder(1, 4, _f32),
    1: _Decoder(1, 2, _f16),
    3: _Decoder(BLOCK, 20, _q4_1),
    8: _Decoder(BLOCK, 34, _q8_0),
}
