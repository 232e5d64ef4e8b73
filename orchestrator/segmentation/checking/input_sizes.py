"""Sizes to try for the dimensions that a model leaves open, small and likely ones first.

Nobody says which sizes a model really takes: some want multiples of 32, some that two
dimensions add up to a third. Whoever runs the model tries one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from wire.manifest import Manifest, TensorSpec

SIZES = (8, 1, 13, 32, 64)
MORE_SIZES = (2, 3, 16, 24, 128, 224, 256, 384, 512)
Inputs = tuple[TensorSpec, ...]
Sizes = dict[str, int]


def candidate_sizes(manifest: Manifest) -> Iterator[Sizes]:
    """Sizes by name for all dimensions that the inputs leave open, within their bounds; different
    each time. One empty dictionary if none is open."""
    named = {dim for spec in manifest.inputs for dim in spec.dims if not dim.isdecimal()}
    bounds = {name: bound for name, bound in manifest.symbols.items() if name in named}
    seen: list[Sizes] = []
    for size in (*SIZES, max(bounds.values(), default=1), *MORE_SIZES):
        for rule in RULES:
            sizes = rule(size, bounds, manifest.inputs)
            if sizes not in seen and all(0 <= sizes[name] <= bounds[name] for name in bounds):
                seen.append(sizes)
                yield sizes


def _uniform(size: int, bounds: Mapping[str, int], inputs: Inputs) -> Sizes:
    """The same size everywhere, or the bound where that is less."""
    return {name: min(size, bound) for name, bound in bounds.items()}


def _summed(size: int, bounds: Mapping[str, int], inputs: Inputs) -> Sizes:
    """As `_uniform`, but a dimension called `a + b` is the sum, and a total is that of what went
    before and what comes: exporters of decoders name them so."""
    sizes = _uniform(size, bounds, inputs)
    for name in bounds:
        parts = [part.strip() for part in name.split("+")]
        if len(parts) > 1 and all(part in sizes or part.isdecimal() for part in parts):
            sizes[name] = sum(sizes[part] if part in sizes else int(part) for part in parts)
    lengths = [name for name in bounds if "seq" in name.lower() and "total" not in name.lower()]
    for name in bounds:
        if "total" in name.lower() and "+" not in name and lengths:
            sizes[name] = sum(sizes[part] for part in lengths if "+" not in part)
    return sizes


def _trailing(size: int, bounds: Mapping[str, int], inputs: Inputs) -> Sizes:
    """As `_uniform`, but 1 for what is the last axis of no input: often a batch without a name."""
    last = {spec.dims[-1] for spec in inputs if spec.dims}
    sizes = _uniform(size, bounds, inputs)
    return {name: value if name in last else min(1, value) for name, value in sizes.items()}


RULES: tuple[Callable[[int, Mapping[str, int], Inputs], Sizes], ...] = (
    _summed,
    _uniform,
    _trailing,
)
