"""The model that a crowd serves: as large as DistilBERT, in twelve segments that do not exist.

Tokens go in, few numbers come out, and what crosses the cuts between is large. The orchestrator's
machine sees manifests alone, so no bytes are needed.
"""

from __future__ import annotations

import math

from wire.elements import Element, nbytes_of
from wire.ids import digest_of
from wire.manifest import FORMAT, BlobRef, CutSpec, Manifest, SegmentSpec, TensorSpec

NAME = "made-up"
SEGMENTS = 12
WEIGHT_NBYTES = 22 << 20
COST = 9e8  # multiply-adds of a segment
TOKENS = (Element.INT64, (1, 128))
HIDDEN = (Element.FLOAT, (1, 128, 768))
LOGITS = (Element.FLOAT, (1, 2))
HIDDEN_NBYTES = nbytes_of(Element.FLOAT, 128 * 768)


def made_up_model() -> Manifest:
    """One tensor crosses each cut."""
    tensors = list(map(_tensor, range(SEGMENTS + 1)))
    return Manifest(
        format=FORMAT,
        name=NAME,
        source=_blob("source", SEGMENTS * WEIGHT_NBYTES),
        inputs=(tensors[0],),
        outputs=(tensors[-1],),
        symbols={},
        cuts=tuple(CutSpec(index, (tensor,)) for index, tensor in enumerate(tensors)),
        segments=tuple(map(_segment, range(SEGMENTS))),
        ir_version=10,
    )


def tensor_name(cut: int) -> str:
    return f"at-{cut}"


def crossing(cut: int) -> tuple[Element, tuple[int, ...]]:
    """The kind and the shape of what crosses it."""
    return {0: TOKENS, SEGMENTS: LOGITS}.get(cut, HIDDEN)


def _tensor(cut: int) -> TensorSpec:
    kind, shape = crossing(cut)
    nbytes = nbytes_of(kind, math.prod(shape))
    return TensorSpec(tensor_name(cut), kind, tuple(map(str, shape)), nbytes)


def _segment(index: int) -> SegmentSpec:
    return SegmentSpec(
        index=index,
        graph=_blob(f"graph-{index}", 20_000),
        weights=(_blob(f"weights-{index}", WEIGHT_NBYTES),),
        inputs=(tensor_name(index),),
        outputs=(tensor_name(index + 1),),
        opsets={"": 17},
        operators=("MatMul",),
        cost=COST,
        peak_activation_nbytes=4 * HIDDEN_NBYTES,
    )


def _blob(name: str, nbytes: int) -> BlobRef:
    return BlobRef(digest_of(f"{NAME}-{name}".encode()), nbytes)
