"""A cut model's segments on a device: its cache filled from a folder of blobs, then partitions."""

from __future__ import annotations

import shutil
from pathlib import Path

from edge_agent.adapters.runtime.joining import TIMED_TASKS
from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
from edge_agent.adapters.store.cache import BlobCache
from orchestrator.segmentation.checking.verify import Feeds, Outputs, to_array, to_value
from wire.ids import PartitionId
from wire.manifest import Manifest
from wire.messages.assignment import PartitionAssignment, SegmentRef

BUDGET_NBYTES = 1 << 30


def cache_of(blobs: Path, folder: Path) -> BlobCache:
    """A cache that has what was cut into `blobs`."""
    cache = BlobCache(folder)
    for blob in blobs.iterdir():
        shutil.copy(blob, cache.part_path(blob.name))
        cache.admit(blob.name)
    return cache


def assignment_of(
    manifest: Manifest, exact: bool, first: int = 0, last: int | None = None
) -> PartitionAssignment:
    """Segments `first` to `last` as the orchestrator would assign them."""
    last = len(manifest.segments) - 1 if last is None else last
    return PartitionAssignment(
        partition=PartitionId(manifest.digest, exact, first, last),
        model_name=manifest.name,
        tier=2,
        segments=tuple(map(SegmentRef.of, manifest.segments[first : last + 1])),
        accepts_nbytes=manifest.cuts[first].bound_nbytes,
        emits=manifest.cuts[last + 1].names,
        emits_nbytes=manifest.cuts[last + 1].bound_nbytes,
    )


def run_on_device(
    cache: BlobCache,
    manifest: Manifest,
    feeds: Feeds,
    *,
    exact: bool,
    streamed: bool,
    prepare_nbytes: int | None = None,
    joined: bool = False,
) -> Outputs:
    """The model's outputs by name, from all its segments as one partition; `joined`: after as many
    tasks as it takes for them to become one session."""
    partition = LoadedPartition(
        assignment_of(manifest, exact),
        cache,
        streamed=streamed,
        budget_nbytes=BUDGET_NBYTES,
        prepare_nbytes=prepare_nbytes,
    )
    through = {name: to_value(array) for name, array in feeds.items()}
    try:
        for _ in range(TIMED_TASKS if joined else 0):
            partition.run(dict(through))
        partition.settle()
        made, _ = partition.run(dict(through))
        return {
            tensor.name: to_array(made.get(tensor.name, through.get(tensor.name)))
            for tensor in manifest.outputs
        }
    finally:
        partition.close()
