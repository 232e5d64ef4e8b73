"""What the author wrote beside the graph: names of classes, strides, who exported it.

Segments leave it out, as it says nothing to a runtime. It travels in every announcement of the
model, so long texts are left out here, and that is said; long names and numbers are cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from wire.manifest import ModelMetadata
from wire.record_readers import MAX_INT

LIMIT_NBYTES = 32 << 10  # of all texts; the names of a thousand classes have some 20 KB
NAME_LENGTH = 200
NAMED_LEFT = 5
DESCRIPTION = "the description"


def metadata_of(model: onnx.ModelProto) -> tuple[ModelMetadata, tuple[str, ...]]:
    """What is kept, and notes of what is not. The shortest texts are kept first."""
    texts = dict(_texts(model))
    kept = set(_within_limit(texts))
    custom = {e.key: e.value for e in model.metadata_props if f"metadata {e.key!r}" in kept}
    metadata = ModelMetadata(
        custom=custom,
        producer_name=model.producer_name[:NAME_LENGTH],
        graph_name=model.graph.name[:NAME_LENGTH],
        domain=model.domain[:NAME_LENGTH],
        description=model.doc_string if DESCRIPTION in kept else "",
        version=max(-MAX_INT, min(model.model_version, MAX_INT)),
    )
    return metadata, _notes([what for what in texts if what not in kept])


def _texts(model: onnx.ModelProto) -> Iterator[tuple[str, int]]:
    """Each text by what it is called, with its bytes."""
    yield DESCRIPTION, len(model.doc_string.encode())
    for entry in model.metadata_props:
        yield f"metadata {entry.key!r}", len(entry.key.encode()) + len(entry.value.encode())


def _within_limit(texts: dict[str, int]) -> Iterator[str]:
    room = LIMIT_NBYTES
    for what, nbytes in sorted(texts.items(), key=lambda pair: pair[1]):
        room -= nbytes
        if room >= 0:
            yield what


def _notes(left: list[str]) -> tuple[str, ...]:
    if not left:
        return ()
    listed = ", ".join(what[:NAME_LENGTH] for what in left[:NAMED_LEFT])
    more = f" and {len(left) - NAMED_LEFT} more" if len(left) > NAMED_LEFT else ""
    return (f"left out, as it is more than {LIMIT_NBYTES >> 10} KiB: {listed}{more}",)
