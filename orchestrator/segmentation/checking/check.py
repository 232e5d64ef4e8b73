"""Cuts a model, runs the segments against the whole model, and says how far apart they are.

Two comparisons: with graph optimisation off, where every bit must agree; and with it on, where
outputs must be within the larger of the type's rounding and twice the difference that ONNX
Runtime shows between its own settings. Then, in fast mode, items together against the same alone.
Stores nothing that lasts and knows no device: whoever keeps models may keep the reference that is
measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from orchestrator.segmentation.checking.batched import Trial, batching_of
from orchestrator.segmentation.checking.items import made_up, try_whole
from orchestrator.segmentation.checking.reference import (
    DEFAULT,
    EXACT,
    OTHERS,
    Runs,
    beyond_tolerance,
    least_tolerance,
    reference_of,
    run_all,
)
from orchestrator.segmentation.checking.verify import (
    Feeds,
    Outputs,
    compare,
    differing,
    run_chains,
)
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import Doing, segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from wire.manifest import Manifest, Reference

GENERATED_ITEMS = 3
LEAST = 3  # segments of a model that is small enough for one: a check of no cut would check nothing
STEPS = 1 + 1 + len(OTHERS) + 3  # the cut, the whole model's settings, the segments three times
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ItemFigures:
    """One item: what it was, which outputs differ in any bit with optimisation off, and with it
    on the worst |a - b| / max(1, max|b|) and the outputs beyond the limit."""

    shapes: dict[str, tuple[int, ...]]
    differing: tuple[str, ...]
    difference: float
    beyond: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckFigures:
    """What a check found. `manifest` carries the measured reference; `nodes` counts each
    segment's; `limit` is the least that floating outputs may differ by, 0.0 if there are none;
    `generated` says that the inputs were made up."""

    manifest: Manifest
    nodes: tuple[int, ...]
    limit: float
    reference: Reference
    items: tuple[ItemFigures, ...]
    generated: bool

    @property
    def exact_holds(self) -> bool:
        """Whether every output was bit for bit the whole model's, with optimisation off."""
        return not any(item.differing for item in self.items)

    @property
    def fast_holds(self) -> bool:
        """Whether every output was within its limit, with optimisation on."""
        return not any(item.beyond for item in self.items)

    @property
    def difference(self) -> float:
        """The worst of all items, with optimisation on."""
        return max((item.difference for item in self.items), default=0.0)


def check(
    path: Path,
    name: str,
    folder: Path,
    *,
    options: SegmentOptions | None = None,
    items: Sequence[Feeds] | None = None,
    progress: Progress | None = None,
    doing: Doing | None = None,
) -> CheckFigures:
    """Cuts the model at `path` into `folder` (an empty one, that the caller removes) and compares.

    `progress` hears how many of `STEPS` are done, `doing` what begins. Raises `InvalidModel` with
    what cannot be served or what ONNX Runtime cannot run, `InvalidInput` if `items` are not what
    the model takes or none could be made up, `UserError` for options that do not fit.
    """
    wishes, steps = replace(options or SegmentOptions(), least_segments=LEAST), _Steps(progress)
    manifest = segment(path, name, FolderSink(folder), options=wishes, doing=doing)
    if doing is not None:
        doing("comparing")
    generated, trial = items is None, Trial(path, folder, manifest, wishes, DEFAULT, items or ())
    if items is None:
        items = made_up(path, manifest, wishes, GENERATED_ITEMS)
    else:
        try_whole(path, items)
    steps.advance()
    runs = run_all(path, items, lambda settings: steps.advance())
    exact = run_chains(folder, manifest, items, exact=True)
    steps.advance()
    fast = run_chains(folder, manifest, items, exact=False)
    steps.advance()
    reference = reference_of(runs)
    reference = replace(reference, batching=batching_of(trial, reference.spread))
    steps.advance()
    figures = _figures(items, runs, exact, fast, reference.spread)
    return CheckFigures(
        replace(manifest, reference=reference),
        tuple(_nodes(folder / one.graph.digest) for one in manifest.segments),
        least_tolerance(runs[DEFAULT], reference.spread),
        reference,
        figures,
        generated,
    )


def _nodes(graph: Path) -> int:
    return len(onnx.load(graph, load_external_data=False).graph.node)


class _Steps:
    def __init__(self, tell: Progress | None) -> None:
        self._tell = tell or (lambda done, total: None)
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        self._tell(self._done, STEPS)


def _figures(
    items: Sequence[Feeds],
    runs: Runs,
    exact: Sequence[Outputs],
    fast: Sequence[Outputs],
    spread: float,
) -> tuple[ItemFigures, ...]:
    return tuple(
        ItemFigures(
            shapes={name: tuple(array.shape) for name, array in feeds.items()},
            differing=differing(exact[at], runs[EXACT][at]),
            difference=compare(fast[at], runs[DEFAULT][at]),
            beyond=beyond_tolerance(fast[at], runs[DEFAULT][at], spread),
        )
        for at, feeds in enumerate(items)
    )
