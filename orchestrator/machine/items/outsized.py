"""Why an output was too large, in the model's own words: tensor, dimension, value and option.

A device knows names and sizes; which dimension is bounded, and at what, is in the manifest. Tensors
that the cut does not have are passed over: what a device says is quoted nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.elements import Element
from wire.frame_head import TensorHead
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
            return f"segments {task.first} to {task.last} gave {fault}"
    return told.reason


def _fault(manifest: Manifest, spec: TensorSpec, head: TensorHead) -> str | None:
    over = _over(manifest, spec, head.shape)
    if not over:
        return None
    bounds = ", ".join(f"'{dim}' is {size} and may be at most {most}" for dim, size, most in over)
    wishes = ",".join(f"{dim}={size}" for dim, size, _ in over)
    return (
        f"'{spec.name}' the shape {list(head.shape)}, where {bounds}: "
        f"add the model again with --max-shape {wishes}"
    )


def _over(manifest: Manifest, spec: TensorSpec, shape: Sequence[int]) -> list[tuple[str, int, int]]:
    """Of dimensions over their bounds: name, size, bound. Bytes of strings follow from no shape."""
    if not spec.rank_known or spec.kind is Element.STRING or len(shape) != len(spec.dims):
        return []
    pairs = zip(spec.dims, shape, strict=True)
    named = [(dim, size, manifest.symbols[dim]) for dim, size in pairs if not dim.isdecimal()]
    return [(dim, size, most) for dim, size, most in named if size > most]
