"""Small manifests about given blobs, for tests that care for blobs and names alone."""

from __future__ import annotations

from collections.abc import Sequence

from wire.elements import Element
from wire.ids import digest_of
from wire.manifest import FORMAT, BlobRef, CutSpec, Manifest, SegmentSpec, TensorSpec
from wire.record import encode


def manifest_about(name: str, blobs: Sequence[BlobRef]) -> bytes:
    """A manifest with one segment for each of `blobs`, as JSON."""
    tensor = TensorSpec("x", Element.FLOAT, ("1",), 4)
    segments = tuple(
        SegmentSpec(
            index=index,
            graph=blob,
            weights=(),
            inputs=("x",),
            outputs=("x",),
            opsets={"": 17},
            operators=("Identity",),
            cost=1.0,
            peak_activation_nbytes=8,
        )
        for index, blob in enumerate(blobs)
    )
    return encode(
        Manifest(
            format=FORMAT,
            name=name,
            source=BlobRef(digest_of(name.encode()), 1),
            inputs=(tensor,),
            outputs=(tensor,),
            symbols={},
            cuts=tuple(CutSpec(index, (tensor,)) for index in range(len(blobs) + 1)),
            segments=segments,
            ir_version=10,
        )
    )
