"""How far ONNX Runtime is from itself on a model, and how far segments may therefore be.

In fast mode a cut loses fusions, so last bits change, as they do between ONNX Runtime's own
optimisation levels, thread counts and packings. `measure` runs the whole model under each and
records the largest difference; `tolerance` derives the limit that segments must keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime

from orchestrator.segmentation.checking.verify import (
    Array,
    Feeds,
    Outputs,
    RuntimeSettings,
    compare,
    is_inexact,
    open_session,
    run_session,
)
from wire.manifest import Reference

DEFAULT = RuntimeSettings()
EXACT = RuntimeSettings(optimise=False)
OTHERS = (
    EXACT,
    RuntimeSettings(threads=2),
    RuntimeSettings(prepack=False),
    RuntimeSettings(optimise=False, prepack=False),
)
EPSILONS = 84  # 1e-5 for float32


Runs = dict[RuntimeSettings, list[Outputs]]
"""The outputs of the whole model for each item, under each setting."""


def run_all(
    path: Path,
    items: Sequence[Feeds],
    done: Callable[[RuntimeSettings], None] | None = None,
    under: Sequence[RuntimeSettings] = (DEFAULT, *OTHERS),
) -> Runs:
    """Runs the model at `path` on `items` `under` each of these settings, one session after the
    other; `done` hears of each. The first is the usual one."""
    runs: Runs = {}
    for settings in under:
        session = open_session(path, exact=False, settings=settings)
        runs[settings] = [run_session(session, feeds) for feeds in items]
        del session  # before the next one is opened: two would hold the weights twice
        if done is not None:
            done(settings)
    return runs


def measure(path: Path, items: Sequence[Feeds]) -> Reference:
    """The spread of ONNX Runtime on the model at `path` over `items`."""
    return reference_of(run_all(path, items))


def reference_of(runs: Runs) -> Reference:
    """The largest difference between the usual outputs and those of any other setting.

    A model that draws random numbers, or whose outputs are not finite in the same places, has
    an infinite spread; recorded as the largest finite float, since JSON has no infinity.
    """
    usual = next(iter(runs.values()))
    worst = max(
        (compare(a, b) for settings in runs for a, b in zip(runs[settings], usual, strict=True)),
        default=0.0,
    )
    spread = min(worst, float(np.finfo(np.float64).max))
    return Reference(onnxruntime.__version__, spread, tuple(str(one) for one in runs))


def tolerance(array: Array, spread: float) -> float:
    """The largest |a - b| / max(1, max|b|) allowed for an output like `array`; 0 for integers,
    booleans and strings."""
    if not is_inexact(array):
        return 0.0
    finfo: Any = ml_dtypes.finfo  # knows numpy's types and its own
    return max(EPSILONS * float(finfo(array.dtype).eps), 2.0 * spread)


def least_tolerance(outputs: Sequence[Outputs], spread: float) -> float:
    """The least that any floating output may differ by; 0.0 if there are none."""
    limits = [tolerance(array, spread) for item in outputs for array in item.values()]
    return min((limit for limit in limits if limit), default=0.0)


def beyond_tolerance(a: Outputs, b: Outputs, spread: float) -> tuple[str, ...]:
    """The outputs in which `a` is further from `b` than allowed."""
    return tuple(
        name for name in b if compare({name: a[name]}, {name: b[name]}) > tolerance(b[name], spread)
    )
