"""Putting a model into a store: content first, the manifest last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdpipe.serving.stores import ServedStore
from wire.errors import InvalidModel
from wire.manifest import BlobRef, Manifest
from wire.record import encode

if TYPE_CHECKING:
    from orchestrator.segmentation.checking.comparing import ModelComparison
    from orchestrator.segmentation.options import SegmentOptions

Progress = Callable[[int, int], None]
"""Bytes of weights done, and in total."""
Doing = Callable[[str], None]
"""What is being done, in a word or two."""


@dataclass(frozen=True, slots=True)
class CutWishes:
    """How a model is to be cut; None leaves it to the segmenter. `cut_after` names values after
    whose node to cut, and nothing else is cut."""

    max_segment_nbytes: int | None = None
    segments: int | None = None
    max_shape: dict[str, int] = field(default_factory=dict)
    cut_after: tuple[str, ...] | None = None

    def options(self) -> SegmentOptions:
        from orchestrator.segmentation.options import MAX_SEGMENT_NBYTES, SegmentOptions

        return SegmentOptions(
            max_segment_nbytes=self.max_segment_nbytes or MAX_SEGMENT_NBYTES,
            segments=self.segments,
            max_shape=self.max_shape,
            cut_after=self.cut_after,
        )


@contextmanager
def naming_file(file: Path) -> Iterator[None]:
    """The segmenter says what is wrong inside; people also want to know which file."""
    try:
        yield
    except InvalidModel as error:
        raise error if str(file) in str(error) else type(error)(f"{file}: {error}") from None


@dataclass(frozen=True, slots=True)
class Comparing:
    """On what segments are compared with the whole before they are served: `items`, or one that
    is made up; on nothing if `skipped`."""

    items: tuple[dict[str, Any], ...] | None = None
    skipped: bool = False


def add_model(
    store: ServedStore,
    file: Path,
    name: str,
    wishes: CutWishes,
    progress: Progress | None = None,
    comparing: Comparing | None = None,
    doing: Doing | None = None,
) -> ModelComparison:
    """Cut `file`, compare its segments with the whole, and store it as `name`, replacing what had
    that name.

    Raises `InvalidModel`, `InvalidName`, `UserError`, `StoreUnreachable` or `DiskFull`.
    """
    # onnx takes a while to import: only here, not for every command.
    from orchestrator.segmentation.checking.comparing import ModelComparison, compared
    from orchestrator.segmentation.segmenter import segment

    def keep(chunks: Iterable[bytes]) -> BlobRef:
        return store.blobs.put(chunks)

    with naming_file(file):
        cut = segment(file, name, keep, options=wishes.options(), progress=progress, doing=doing)
        given = comparing or Comparing()
        found = ModelComparison(cut)
        if not given.skipped:
            if doing is not None:
                doing("comparing")
            found = compared(file, cut, store.folder, wishes.options(), given.items)
    store.manifests.put(name, encode(found.manifest))
    return found


def record_reference(store: ServedStore, checked: Manifest) -> list[str]:
    """Keeps `checked.reference` with every stored model that is the same, cut the same way; their
    names. What devices serve does not change by it."""
    kept = []
    for name in store.manifests.names():
        stored = store.get(name)
        same = replace(checked, exact_only=stored.exact_only).digest == stored.digest
        if same and stored.reference != checked.reference:
            store.manifests.put(name, encode(replace(stored, reference=checked.reference)))
            kept.append(name)
    return kept
