"""How far ONNX Runtime is from itself on a model, and how far segments may therefore be.

In fast mode a cut loses fusions, so last bits change, as they do between ONNX Runtime's own
optimisation levels, thread counts and packings. `measure` runs the whole model under each and
records the largest difference; `tolerance` derives the limit that segments must keep.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime

from orchestrator.segmentation.verify import (
    Array,
    Feeds,
    Outputs,
    Settings,
    compare,
    is_inexact,
    run_whole,
)
from wire.manifest import Reference

DEFAULT = Settings()
OTHERS = (
    Settings(optimise=False),
    Settings(threads=2),
    Settings(prepack=False),
    Settings(optimise=False, prepack=False),
)
EPSILONS = 84  # 1e-5 for float32


def measure(path: Path, items: Iterable[Feeds]) -> Reference:
    """The spread of ONNX Runtime on the model at `path` over `items`.

    A model that draws random numbers, or whose outputs are not finite in the same places, has
    an infinite spread; recorded as the largest finite float, since JSON has no infinity.
    """
    worst = 0.0
    for feeds in items:
        usual = run_whole(path, feeds, exact=False, settings=DEFAULT)
        for settings in OTHERS:
            worst = max(worst, compare(run_whole(path, feeds, False, settings), usual))
    spread = min(worst, float(np.finfo(np.float64).max))
    names = tuple(str(one) for one in (DEFAULT, *OTHERS))
    return Reference(onnxruntime.__version__, spread, names)


def tolerance(array: Array, spread: float) -> float:
    """The largest |a - b| / max(1, max|b|) allowed for an output like `array`; 0 for integers,
    booleans and strings."""
    if not is_inexact(array):
        return 0.0
    finfo: Any = ml_dtypes.finfo  # knows numpy's types and its own
    return max(EPSILONS * float(finfo(array.dtype).eps), 2.0 * spread)


def beyond_tolerance(a: Outputs, b: Outputs, spread: float) -> tuple[str, ...]:
    """The outputs in which `a` is further from `b` than allowed."""
    return tuple(
        name for name in b if compare({name: a[name]}, {name: b[name]}) > tolerance(b[name], spread)
    )
