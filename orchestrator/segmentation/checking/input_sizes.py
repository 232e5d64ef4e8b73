"""Sizes to try for the dimensions that a model leaves open, small and likely ones first.

Nobody says which sizes a model really takes: some want multiples of 32, some that two
dimensions add up to a third. Where typing found such relations, sizes that hold them come first,
and those at the bounds early. Whoever runs the model tries one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from orchestrator.segmentation.typing.relations import Relations
from wire.manifest import Manifest, TensorSpec

SIZES = (8, 1, 13, 32, 64)
MORE_SIZES = (2, 3, 16, 24, 128, 224, 256, 384, 512)
MAX_PROMISED_NBYTES = 256 << 20  # of activations: a check runs such an item some eight times
UNRELATED = Relations()
Inputs = tuple[TensorSpec, ...]
Sizes = dict[str, int]


def candidate_sizes(manifest: Manifest, relations: Relations = UNRELATED) -> Iterator[Sizes]:
    """Sizes by name for all dimensions that the inputs leave open, within their bounds; different
    each time. One empty dictionary if none is open."""
    named = {dim for spec in manifest.inputs for dim in spec.dims if not dim.isdecimal()}
    bounds = {name: bound for name, bound in manifest.symbols.items() if name in named}
    seen: list[Sizes] = []
    for sizes in _wishes(bounds, manifest, relations):
        if sizes not in seen and all(0 <= sizes[name] <= bounds[name] for name in bounds):
            seen.append(sizes)
            yield sizes


def _wishes(bounds: Sizes, manifest: Manifest, relations: Relations) -> Iterator[Sizes]:
    """Perhaps beyond the bounds."""
    if relations.following:
        yield from _related(bounds, manifest, relations)
    for size in (*SIZES, max(bounds.values(), default=1), *MORE_SIZES):
        yield from (rule(size, bounds, manifest.inputs) for rule in RULES)


def _related(bounds: Sizes, manifest: Manifest, relations: Relations) -> Iterator[Sizes]:
    """Sizes that agree; what the bounds promise after the first, unless it is too much to try."""
    top = max(bounds.values())
    largest = max(segment.peak_activation_nbytes for segment in manifest.segments)
    promised = [top] if largest <= MAX_PROMISED_NBYTES else []
    for size in (SIZES[0], *promised, *SIZES[1:]):
        made = [rule(size, bounds, manifest.inputs) for rule in RULES]
        alone = _alone(bounds, relations) if size == top else []
        for sizes in (made[0], *alone, *made[1:]):
            completed = relations.completed(sizes)
            if completed is not None:
                yield completed


def _alone(bounds: Sizes, relations: Relations) -> list[Sizes]:
    """Each free dimension at its bound and the others 1, where others follow: not all may be large
    at once."""
    least = dict.fromkeys(bounds, 1)
    free = relations.free(set(relations.following) & set(bounds))
    return [{**least, name: bounds[name]} for name in free if name in bounds]


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
