"""What a model is compared on: items that were given, tried first, or made up.

Runs the whole model alone; what segments make of an item is compared elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnxruntime

from orchestrator.segmentation.checking.generated import STYLES, FillPlan, accepted, generate
from orchestrator.segmentation.checking.input_ranges import input_ranges
from orchestrator.segmentation.checking.verify import Array, Feeds, open_session, run_session
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.complaints import telling_part
from orchestrator.segmentation.reading.normalise import normalise
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.reading.walk import dataflow
from orchestrator.segmentation.typing.types import infer_types
from wire.errors import InvalidInput, InvalidModel
from wire.manifest import Manifest

ALIKE_TRIES = 9


def made_up(path: Path, manifest: Manifest, options: SegmentOptions, count: int) -> list[Feeds]:
    """Up to `count` items that the whole model takes. Raises `InvalidModel` if ONNX Runtime
    cannot load it, `InvalidInput` if it takes nothing that could be made up."""
    model = normalise(open_model(path)).model
    types = infer_types(model, dataflow(model.graph), options)
    ranges = input_ranges(model, types)
    return accepted(_whole(path), manifest, ranges, count, types.relations)


def made_up_alike(
    path: Path, manifest: Manifest, options: SegmentOptions, sizes: Mapping[str, int], count: int
) -> list[dict[str, Array]]:
    """Up to `count` items of the same sizes and different contents that the whole model takes."""
    model = normalise(open_model(path)).model
    ranges = input_ranges(model, infer_types(model, dataflow(model.graph), options))
    session, taken = _whole(path), []
    for seed in range(ALIKE_TRIES):
        style = STYLES[seed % len(STYLES)]
        feeds = generate(manifest, sizes, seed, FillPlan(ranges, style))
        try:
            run_session(session, feeds)
        except Exception:
            continue  # ONNX Runtime raises classes of its own; it takes others, or none
        taken.append(feeds)
        if len(taken) == count:
            break
    return taken


def _whole(path: Path) -> onnxruntime.InferenceSession:
    try:
        return open_session(path, exact=True)
    except Exception as error:
        # ONNX Runtime raises classes of its own, without a common base.
        raise InvalidModel(
            f"ONNX Runtime cannot load the whole model: {telling_part(error)}"
        ) from None


def try_whole(path: Path, items: Sequence[Feeds]) -> None:
    """Raises `InvalidInput` if the whole model does not take one of `items`."""
    session = _whole(path)
    known = {value.name for value in session.get_inputs()}
    for at, feeds in enumerate(items):
        if set(feeds) != known:
            raise InvalidInput(
                f"item {at} holds {_listed(feeds)}, but the model's inputs are {_listed(known)}"
            )
        try:
            session.run(None, dict(feeds))
        except Exception as error:
            raise InvalidInput(
                f"the whole model does not take item {at}: {telling_part(error)}"
            ) from None


def _listed(names: Mapping[str, object] | set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
