"""Cuts a model, runs the segments against the whole model, and says how far apart they are.

Two comparisons: with graph optimisation off, where every bit must agree; and with it on, where
outputs must be within the larger of the type's rounding and twice the difference that ONNX
Runtime shows between its own settings. Stores nothing that lasts and knows no device: whoever
keeps models may keep the reference that is measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx
import onnxruntime

from orchestrator.segmentation.checking.generated import accepted
from orchestrator.segmentation.checking.input_ranges import input_ranges
from orchestrator.segmentation.checking.reference import (
    DEFAULT,
    EXACT,
    OTHERS,
    Runs,
    beyond_tolerance,
    reference_of,
    run_all,
    tolerance,
)
from orchestrator.segmentation.checking.verify import (
    Feeds,
    Outputs,
    compare,
    identical,
    open_session,
    run_chains,
)
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.normalise import normalise
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.reading.walk import dataflow
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.typing.types import infer_types
from orchestrator.segmentation.writing.blob_sink import FolderSink
from wire.errors import InvalidInput, InvalidModel
from wire.manifest import Manifest, Reference

GENERATED_ITEMS = 3
STEPS = 1 + 1 + len(OTHERS) + 2  # the cut, the whole model's settings, and the segments twice
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
) -> CheckFigures:
    """Cuts the model at `path` into `folder` (an empty one, that the caller removes) and compares.

    `progress` hears how many of `STEPS` are done. Raises `InvalidModel` with what cannot be
    served or what ONNX Runtime cannot run, `InvalidInput` if `items` are not what the model
    takes or none could be made up, `UserError` for options that do not fit.
    """
    wishes, steps = options or SegmentOptions(), _Steps(progress)
    manifest = segment(path, name, FolderSink(folder), options=wishes)
    generated = items is None
    if items is None:
        items = _made_up(path, manifest, wishes)
    else:
        _try_whole(path, items)
    steps.advance()
    runs = run_all(path, items, lambda settings: steps.advance())
    exact = run_chains(folder, manifest, items, exact=True)
    steps.advance()
    fast = run_chains(folder, manifest, items, exact=False)
    steps.advance()
    reference = reference_of(runs)
    figures = _figures(items, runs, exact, fast, reference.spread)
    return CheckFigures(
        replace(manifest, reference=reference),
        tuple(_nodes(folder / one.graph.digest) for one in manifest.segments),
        _limit(runs[DEFAULT], reference.spread),
        reference,
        figures,
        generated,
    )


def _nodes(graph: Path) -> int:
    return len(onnx.load(graph, load_external_data=False).graph.node)


def _limit(outputs: Sequence[Outputs], spread: float) -> float:
    limits = [tolerance(array, spread) for item in outputs for array in item.values()]
    return min((limit for limit in limits if limit), default=0.0)


class _Steps:
    def __init__(self, tell: Progress | None) -> None:
        self._tell = tell or (lambda done, total: None)
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        self._tell(self._done, STEPS)


def _made_up(path: Path, manifest: Manifest, options: SegmentOptions) -> list[Feeds]:
    model = normalise(open_model(path)).model
    types = infer_types(model, dataflow(model.graph), options)
    ranges = input_ranges(model, types)
    return list(accepted(_whole(path), manifest, ranges, GENERATED_ITEMS, types.relations))


def _whole(path: Path) -> onnxruntime.InferenceSession:
    try:
        return open_session(path, exact=True)
    except Exception as error:
        # ONNX Runtime raises classes of its own, without a common base.
        raise InvalidModel(
            f"ONNX Runtime cannot load the whole model: {str(error)[:400]}"
        ) from None


def _try_whole(path: Path, items: Sequence[Feeds]) -> None:
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
                f"the whole model does not take item {at}: {str(error)[:300]}"
            ) from None


def _listed(names: Mapping[str, object] | set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


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
            differing=_differing(exact[at], runs[EXACT][at]),
            difference=compare(fast[at], runs[DEFAULT][at]),
            beyond=beyond_tolerance(fast[at], runs[DEFAULT][at], spread),
        )
        for at, feeds in enumerate(items)
    )


def _differing(a: Outputs, b: Outputs) -> tuple[str, ...]:
    return tuple(name for name in b if not identical({name: a[name]}, {name: b[name]}))
