"""What is said of a model for which no inputs could be made up."""

from __future__ import annotations

from orchestrator.segmentation.reading.complaints import telling_part
from wire.errors import InvalidInput
from wire.manifest import Manifest


def nothing_taken(manifest: Manifest, why: Exception) -> InvalidInput:
    """`why` is what ONNX Runtime said of the first; a bound of 1 may be all that is wrong."""
    return InvalidInput(
        "no inputs could be made up that the whole model takes (ONNX Runtime said: "
        f"{telling_part(why)}); {_bounds(manifest)}give real ones in an .npz file"
    )


def _bounds(manifest: Manifest) -> str:
    named = dict.fromkeys(dim for spec in manifest.inputs for dim in spec.dims)
    single = [name for name in named if manifest.symbols.get(name) == 1]
    if not single:
        return ""
    wishes = ",".join(f"{name}=8" for name in single)
    listed = ", ".join(repr(name) for name in single)
    return f"only 1 is allowed for {listed}: allow more with --max-shape {wishes}, or "
