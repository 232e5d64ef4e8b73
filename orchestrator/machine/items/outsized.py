"""Why an output was too large, in the model's own words: tensor, dimension, value and option.

A device knows names and sizes; which dimension is bounded, and at what, is in the manifest. Tensors
that the cut does not have are passed over: of what a device says only sizes are quoted.
"""

from __future__ import annotations

import math

from wire.elements import Element, nbytes_of
from wire.frame_head import TensorHead
from wire.ids import TaskId
from wire.manifest import Manifest, TensorSpec
from wire.messages.events import TaskFailed


def reason(manifest: Manifest, told: TaskFailed) -> str:
    """A sentence; the device's own where no dimension is over its bound."""
    task = told.task
    if task.last >= len(manifest.segments):
        return told.reason
    cut = manifest.cuts[task.last + 1]
    made = {head.name: head for head in told.made}
    for spec in cut.tensors:
        head = made.get(spec.name)
        fault = _fault(manifest, spec, head) if head is not None else None
        if fault is not None:
            return f"{_segments(task)} gave {fault}"
    return told.reason


def _segments(task: TaskId) -> str:
    one = task.first == task.last
    return f"segment {task.first}" if one else f"segments {task.first} to {task.last}"


def _fault(manifest: Manifest, spec: TensorSpec, head: TensorHead) -> str | None:
    if not spec.rank_known or spec.kind is Element.STRING or len(head.shape) != len(spec.dims):
        return None
    named = {d: n for d, n in zip(spec.dims, head.shape, strict=True) if not d.isdecimal()}
    over = {dim: n for dim, n in named.items() if n > manifest.symbols.get(dim, n)}
    gave = f"'{spec.name}' the shape {list(head.shape)}"
    if over:
        bounds = ", ".join(f"'{d}' may be at most {manifest.symbols[d]}" for d in over)
        return f"{gave}, where {bounds}: {_wish(over)}"
    # Dimensions that were guessed are bounded together, by bytes; those that are wished are not.
    if named and nbytes_of(spec.kind, math.prod(head.shape)) > spec.bound_nbytes:
        return f"{gave}, which is more than the {spec.bound_nbytes} bytes allowed: {_wish(named)}"
    return None


def _wish(sizes: dict[str, int]) -> str:
    listed = ",".join(f"{dim}={size}" for dim, size in sizes.items())
    return f"add the model again with --max-shape {listed}"
