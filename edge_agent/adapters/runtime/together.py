"""A group of tasks on the loaded partition: which are computed in one call, and that call.

What comes of it is what each item's own call would have given, up to last bits: see
`docs/adr/0033-several-items-in-one-call.md`. Knows neither queue nor listener.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from edge_agent.adapters.runtime.batching import Form, form_of, grouped, joined, parted
from edge_agent.adapters.runtime.frame_tensors import open_frame, values_of
from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
from wire.frames import Frame, Tensor, peek
from wire.messages.assignment import BatchTerms, PartitionAssignment

_log = logging.getLogger("crowdpipe.agent.executor")

Source = Callable[[], bytes]  # an item's frame, read anew each time


@dataclass(frozen=True, slots=True)
class ItemShare:
    """One item after a call. Seconds are its share: began, as if items had taken turns."""

    frame: Frame
    made: dict[str, Any]
    began_s: float
    decode_s: float
    compute_s: float
    segment_s: tuple[float, ...]


def in_turn(
    assigned: PartitionAssignment,
    sources: Sequence[Source],
    run: Callable[[Sequence[Source]], list[ItemShare]],
) -> Iterator[ItemShare | None]:
    """Of each in order what came of it in one call with others, which `run` makes. None: it is to
    be computed alone; also where that call failed, which says whose fault it was."""
    for turn in turns_of(assigned, sources):
        made: Sequence[ItemShare | None] = [None] * len(turn)
        if len(turn) > 1:
            try:
                made = run(sources[turn.start : turn.stop])
            except Exception as error:
                _log.info("%d items are computed one by one: together, %s", len(turn), error)
        yield from made


def turns_of(assigned: PartitionAssignment, sources: Sequence[Source]) -> Iterator[range]:
    """All of the group, in order: alone, or with the neighbours that fit."""
    terms = assigned.batch
    if terms is None or len(sources) == 1:
        yield from (range(at, at + 1) for at in range(len(sources)))
        return
    wanted = _wanted(assigned)
    forms = [_form(source, assigned, wanted, terms) for source in sources]
    yield from grouped(forms, terms.rows)


def _wanted(assigned: PartitionAssignment) -> set[str]:
    return {name for segment in assigned.segments for name in segment.inputs}


def _form(
    source: Source, assigned: PartitionAssignment, wanted: set[str], terms: BatchTerms
) -> Form | None:
    """None also for a frame that cannot be read: it fails at its turn, and says why. What comes
    again may have ended a device, so nobody else is computed with it."""
    try:
        data = source()
        head = peek(data)
        if head.batch == 1 or head.comes_again:
            return None
        needed = wanted.intersection(terms.shared)
        frame = open_frame(data, assigned.accepts_nbytes) if needed else None
        tensors = [each for each in frame.tensors if each.name in needed] if frame else []
        return form_of(head, wanted, {each.name: _bits(each) for each in tensors})
    except Exception:  # also `MemoryError`: said at its turn
        return None


def _bits(tensor: Tensor) -> bytes:
    """As it came: of equal ones encoded otherwise, each goes alone."""
    return b"".join([bytes([tensor.encoding]), *(bytes(plane.data) for plane in tensor.planes)])


def compute(partition: LoadedPartition, sources: Sequence[Source]) -> list[ItemShare]:
    """These items in one call, which raises as one of them would; none is harmed by that."""
    assigned = partition.assigned
    began_s = time.monotonic()
    frames = [open_frame(source(), assigned.accepts_nbytes) for source in sources]
    values, rows = _joined_values(assigned, frames)
    decoded_s = time.monotonic()
    made, segment_s = partition.run(values)
    names = [name for name in assigned.emits if not _passes(frames[0], name)]
    parts = parted(made, names, rows)
    computed_s = time.monotonic()
    shares = [count / sum(rows) for count in rows]
    before = [0.0, *accumulate(shares)]
    return [
        ItemShare(
            frame=frame,
            made=part,
            began_s=began_s + passed * (computed_s - began_s),
            decode_s=share * (decoded_s - began_s),
            compute_s=share * (computed_s - decoded_s),
            segment_s=tuple(share * each for each in segment_s),
        )
        for frame, part, share, passed in zip(frames, parts, shares, before, strict=False)
    ]


def _joined_values(
    assigned: PartitionAssignment, frames: Sequence[Frame]
) -> tuple[dict[str, Any], list[int]]:
    wanted = _wanted(assigned)
    shared = assigned.batch.shared if assigned.batch is not None else ()
    items = [values_of(frame, wanted) for frame in frames]
    first = next(name for name in items[0] if name not in shared)
    rows = [int(each[first].shape()[0]) for each in items]
    return joined(items, shared), rows


def _passes(frame: Frame, name: str) -> bool:
    return any(tensor.name == name for tensor in frame.tensors)
