"""Putting a model into a store: content first, the manifest last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from crowdpipe.serving.stores import Store
from wire.errors import InvalidModel
from wire.manifest import BlobRef, Manifest
from wire.record import encode

Progress = Callable[[int, int], None]
"""Bytes of weights done, and in total."""


@dataclass(frozen=True, slots=True)
class CutWishes:
    """How a model is to be cut; None leaves it to the segmenter."""

    max_segment_nbytes: int | None = None
    segments: int | None = None
    max_shape: dict[str, int] = field(default_factory=dict)


def add_model(
    store: Store, file: Path, name: str, wishes: CutWishes, progress: Progress | None = None
) -> Manifest:
    """Cut `file` and store it as `name`, replacing what had that name.

    Raises `InvalidModel`, `InvalidName`, `UserError`, `StoreUnreachable` or `DiskFull`.
    """
    # onnx takes a while to import: only here, not for every command.
    from orchestrator.segmentation.options import MAX_SEGMENT_NBYTES, SegmentOptions
    from orchestrator.segmentation.segmenter import segment

    options = SegmentOptions(
        max_segment_nbytes=wishes.max_segment_nbytes or MAX_SEGMENT_NBYTES,
        segments=wishes.segments,
        max_shape=wishes.max_shape,
    )

    def keep(chunks: Iterable[bytes]) -> BlobRef:
        return store.blobs.put(chunks)

    try:
        manifest = segment(file, name, keep, options=options, progress=progress)
    except InvalidModel as error:
        # The segmenter says what is wrong inside; people also want to know which file.
        raise error if str(file) in str(error) else type(error)(f"{file}: {error}") from None
    store.manifests.put(name, encode(manifest))
    return manifest
