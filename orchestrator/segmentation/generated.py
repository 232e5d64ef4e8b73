"""Inputs made up for a model when nobody gives real ones: enough to run it, no more."""

from __future__ import annotations

import numpy as np

from orchestrator.segmentation.verify import Array, dtype_of
from wire.elements import Element
from wire.manifest import Manifest, TensorSpec, size_of

DEFAULT_SIZE = 8  # of a dimension that is free, unless its bound is less


def generate(
    manifest: Manifest, sizes: dict[str, int] | None = None, seed: int = 0
) -> dict[str, Array]:
    """An array for each input: normal floats, ones for integers (valid as ids and masks), true,
    or the string "a". `sizes` sets symbolic dimensions; the others are small."""
    rng = np.random.default_rng(seed)
    symbols = {name: min(bound, DEFAULT_SIZE) for name, bound in manifest.symbols.items()}
    symbols.update(sizes or {})
    return {spec.name: _array(spec, symbols, rng) for spec in manifest.inputs}


def _array(spec: TensorSpec, symbols: dict[str, int], rng: np.random.Generator) -> Array:
    shape = tuple(size_of(dim, symbols) for dim in spec.dims)
    if spec.kind is Element.STRING:
        return np.full(shape, "a", object)
    dtype = dtype_of(spec.kind)
    if np.issubdtype(dtype, np.integer) or dtype == np.bool_:
        return np.ones(shape, dtype)
    return np.asarray(rng.normal(size=shape)).astype(dtype)
