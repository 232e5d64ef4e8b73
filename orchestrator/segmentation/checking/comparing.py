"""Compares a model's segments with the whole before anybody serves them: one item, both modes.

With graph optimisation off every bit must agree, or the model is refused. With it on, outputs must
be within the limit of `reference.tolerance`; where they are not, the model is served exactly only:
slower on some models, never wrong. Cheap beside `check`, which tries more items under all of ONNX
Runtime's settings. What cannot give the same twice (`is_random`) is run, and not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.segmentation.checking.batched import Trial, batching_of
from orchestrator.segmentation.checking.items import made_up, try_whole
from orchestrator.segmentation.checking.reference import (
    DEFAULT,
    EXACT,
    Runs,
    beyond_tolerance,
    least_tolerance,
    reference_of,
    run_all,
)
from orchestrator.segmentation.checking.verify import (
    Feeds,
    Outputs,
    RuntimeSettings,
    compare,
    differing,
    run_chains,
)
from orchestrator.segmentation.cutting.randomness import is_random
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.complaints import telling_part
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.reading.walk import all_nodes
from wire.errors import InvalidModel
from wire.manifest import Manifest

GENERATED_ITEMS = 1
PACKED_NBYTES = 1 << 30  # of weights: more are not packed, which would take as much memory again
EXACT_ONLY_NOTE = (
    "served exactly only: with graph optimisation on, its segments are off by {difference:.1e}, "
    "over the limit of {limit:.1e}"
)


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """`manifest` says what was found: its reference, and whether it is served exactly only.
    `difference` is the worst |a - b| / max(1, max|b|) with optimisation on, `limit` the least that
    was allowed; both 0.0 where nothing could be compared."""

    manifest: Manifest
    difference: float = 0.0
    limit: float = 0.0
    reproducible: bool = True


def compared(
    path: Path,
    manifest: Manifest,
    folder: Path,
    options: SegmentOptions,
    items: Sequence[Feeds] | None = None,
) -> ModelComparison:
    """The model at `path` against its segments, whose blobs are in `folder`, on `items` or on one
    that is made up.

    Raises `InvalidModel` if any bit differs with optimisation off, or if a segment does not run;
    `InvalidInput` if the model takes none of the inputs that could be made up.
    """
    trial = Trial(path, folder, manifest, options, DEFAULT, items or ())
    if items is None:
        items = made_up(path, manifest, options, GENERATED_ITEMS)
    else:
        try_whole(path, items)
    if any(is_random(node) for node in all_nodes(open_model(path).model)):
        _chain(folder, manifest, items, DEFAULT)
        return ModelComparison(manifest, reproducible=False)
    packed = manifest.nbytes <= PACKED_NBYTES
    fast, exact = (replace(mode, prepack=packed) for mode in (DEFAULT, EXACT))
    runs = run_all(path, items, under=(fast, exact))
    _check_same_bits(runs[exact], _chain(folder, manifest, items, exact))
    found = _comparison(manifest, runs, _chain(folder, manifest, items, fast))
    return found if found.manifest.exact_only else _with_batching(found, trial, fast)


def _chain(
    folder: Path, manifest: Manifest, items: Sequence[Feeds], settings: RuntimeSettings
) -> list[Outputs]:
    try:
        return run_chains(folder, manifest, items, not settings.optimise, settings)
    except Exception as error:
        # ONNX Runtime raises classes of its own, without a common base.
        raise InvalidModel(
            f"the whole model runs, but not its segments: {telling_part(error)}; cut it otherwise"
        ) from None


def _with_batching(
    found: ModelComparison, trial: Trial, settings: RuntimeSettings
) -> ModelComparison:
    reference = found.manifest.reference
    assert reference is not None, "it was just measured"
    batching = batching_of(replace(trial, settings=settings), reference.spread)
    measured = replace(reference, batching=batching)
    return replace(found, manifest=replace(found.manifest, reference=measured))


def _check_same_bits(whole: Sequence[Outputs], chain: Sequence[Outputs]) -> None:
    names = {name for a, b in zip(chain, whole, strict=True) for name in differing(a, b)}
    if names:
        raise InvalidModel(
            f"its segments do not give the bits of the whole model in {', '.join(sorted(names))}, "
            "with graph optimisation off; cut it otherwise (--segments 1 does not cut it)"
        )


def _comparison(manifest: Manifest, runs: Runs, chain: Sequence[Outputs]) -> ModelComparison:
    reference, whole = reference_of(runs), next(iter(runs.values()))
    pairs = list(zip(chain, whole, strict=True))
    difference = max((compare(a, b) for a, b in pairs), default=0.0)
    beyond = any(beyond_tolerance(a, b, reference.spread) for a, b in pairs)
    limit = least_tolerance(whole, reference.spread)
    found = replace(manifest, reference=reference)
    if beyond:
        note = EXACT_ONLY_NOTE.format(difference=difference, limit=limit)
        found = replace(found, exact_only=True, notes=(*found.notes, note))
    return ModelComparison(found, difference, limit)
