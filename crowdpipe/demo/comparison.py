"""How far results are from the whole model's: the difference the project promises to bound.

|a - b| / max(1, max|b|), the largest over all elements of all outputs of all items. Integers,
booleans and strings must be identical, NaN and infinities in the same places; otherwise the
difference is infinite.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Result = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`compared` items had a result; `identical` says that every bit is the same."""

    compared: int
    max_rel_diff: float
    identical: bool


def compare(ours: Sequence[Result | None], whole: Sequence[Result]) -> Comparison:
    """Compare results, None where one is missing, to the whole model's, item by item."""
    pairs = [(a, b) for a, b in zip(ours, whole, strict=True) if a is not None]
    worst = max((difference(a, b) for a, b in pairs), default=0.0)
    return Comparison(len(pairs), worst, all(hash_of(a) == hash_of(b) for a, b in pairs))


def difference(ours: Result, whole: Result) -> float:
    """The largest difference over all outputs of one item; infinite if they cannot be compared."""
    if set(ours) != set(whole):
        return math.inf
    return max((_array_difference(ours[name], whole[name]) for name in whole), default=0.0)


def _array_difference(ours: NDArray[Any], whole: NDArray[Any]) -> float:
    if ours.dtype != whole.dtype or ours.shape != whole.shape:
        return math.inf
    if ours.dtype.kind not in "fc":
        return 0.0 if np.array_equal(ours, whole) else math.inf
    finite = np.isfinite(whole)
    if not np.array_equal(ours[~finite], whole[~finite], equal_nan=True):
        return math.inf
    if not np.isfinite(ours[finite]).all():
        return math.inf
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    a, b = ours[finite].astype(wide), whole[finite].astype(wide)
    scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
    return float(np.max(np.abs(a - b), initial=0.0)) / scale


def hash_of(result: Result) -> str:
    """SHA-256 over names, types, shapes and every bit of one item's outputs."""
    digest = hashlib.sha256()
    for name in sorted(result):
        array = result[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        if array.dtype == object:
            digest.update("\0".join(map(str, array.ravel())).encode())
        else:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
