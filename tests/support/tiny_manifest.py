"""Manifests of made-up models, small enough to reason about: one tensor crosses each cut."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from wire.elements import Element
from wire.manifest import FORMAT, BlobRef, CutSpec, Manifest, SegmentSpec, TensorSpec

MB = 1_000_000


def blob(name: str, nbytes: int) -> BlobRef:
    return BlobRef(hashlib.sha256(name.encode()).hexdigest(), nbytes)


def tiny_manifest(
    name: str = "tiny",
    *,
    weights: Sequence[int] = (10 * MB, 10 * MB, 10 * MB),
    costs: Sequence[float] | None = None,
    cuts: Sequence[int] | None = None,
    opsets: Sequence[int] | None = None,
    seq: int = 128,
) -> Manifest:
    """One segment per entry of `weights` (bytes), with its cost in multiply-adds; `cuts` are the
    raw bytes at each of the n + 1 cuts. The input is x: float [batch, seq], batch at most 4."""
    count = len(weights)
    costs = costs or [1e9] * count
    cuts = cuts or [4 * 4 * seq] * (count + 1)
    opsets = opsets or [17] * count
    segments = tuple(
        SegmentSpec(
            index=index,
            graph=blob(f"{name}-graph-{index}", 1000),
            weights=(blob(f"{name}-weights-{index}-{weights[index]}", weights[index]),),
            inputs=(_tensor_name(index, count),),
            outputs=(_tensor_name(index + 1, count),),
            opsets={"": opsets[index]},
            operators=("MatMul",),
            cost=costs[index],
            peak_activation_nbytes=1000,
        )
        for index in range(count)
    )
    tensors = [
        TensorSpec(_tensor_name(index, count), Element.FLOAT, ("batch", "seq"), cuts[index])
        for index in range(count + 1)
    ]
    return Manifest(
        format=FORMAT,
        name=name,
        source=blob(f"{name}-source", sum(weights)),
        inputs=(tensors[0],),
        outputs=(tensors[-1],),
        symbols={"batch": 4, "seq": seq},
        cuts=tuple(CutSpec(index, (tensor,)) for index, tensor in enumerate(tensors)),
        segments=segments,
        ir_version=10,
    )


def _tensor_name(cut: int, count: int) -> str:
    return {0: "x", count: "y"}.get(cut, f"h{cut}")
