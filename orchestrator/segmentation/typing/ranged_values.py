"""The greatest sizes of all values over everything that inputs may be.

Inference at the bounds gives each size there; a size may be greater where an input is smaller, as
rows = 4096 // length is. Where a size is known as a term, its greatest value is known. What is not,
inference is asked of at a few more sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.segmentation.reading.walk import Dataflow
from orchestrator.segmentation.typing.fitting_bounds import FittingBounds
from orchestrator.segmentation.typing.formulas import Formula, Term, integer_at
from orchestrator.segmentation.typing.node_view import KnownTerms, Sizes
from orchestrator.segmentation.typing.relations import Relations, relations_of, violated
from orchestrator.segmentation.typing.shape_inference import ShapeInference
from orchestrator.segmentation.typing.size_flow import follow_sizes, named_equations
from orchestrator.segmentation.typing.size_range import SizeRange
from orchestrator.segmentation.typing.value_type import ValueType

SMALL_SIZES = (5, 8)


@dataclass(frozen=True, slots=True)
class RangedValues:
    """All values with their greatest sizes, the bounds of the inputs' dimensions, and which of
    these must agree for the model to run."""

    values: dict[str, ValueType]
    symbols: dict[str, int]
    relations: Relations
    notes: tuple[str, ...]


def ranged_values(asking: ShapeInference, flow: Dataflow, found: FittingBounds) -> RangedValues:
    reach = found.reach
    symbols = {name: _bound(name, found, reach) for name in found.sizes}
    values = asking.at(found.sizes)
    known = found.known or follow_sizes(flow, values, symbols)
    widening = _Widening(known, reach, found.sizes)
    wide = {name: widening.widened(name, value) for name, value in values.items()}
    sampled = _sampled(asking, found, wide, widening.unknown) if widening.unknown else {}
    return RangedValues(wide | sampled, symbols, _relations(known, symbols), _notes(sampled))


def _relations(known: KnownTerms, symbols: dict[str, int]) -> Relations:
    """Those without which the model does not run at its bounds, or at a few small sizes."""
    needed = named_equations(symbols, known.book)[0]
    for most in (*SMALL_SIZES, max(symbols.values(), default=1)):
        sizes = {name: min(bound, most) for name, bound in symbols.items()}
        needed += [one for one in violated(known.equations, sizes) if one not in needed]
    return relations_of(needed, known.book, ())


def _bound(name: str, found: FittingBounds, reach: SizeRange) -> int:
    """Of an input's dimension. One that follows has the wished bound, or what it reaches."""
    if name in found.free:
        return found.free[name]
    return found.limits.get(name, reach.most(name) or found.sizes[name])


class _Widening:
    """Raises sizes at the bounds to the greatest ones; `unknown` are the values with a size that is
    no term, or not the term's where inference knows better."""

    def __init__(self, known: KnownTerms, reach: SizeRange, sizes: dict[str, int]) -> None:
        self._known, self._reach, self._sizes = known, reach, sizes
        self._at: dict[Term, int | None] = {}
        self._values: dict[Formula, Any] = {}
        self.unknown: list[str] = []

    def widened(self, name: str, value: ValueType) -> ValueType:
        dims = self._known.dims_of(name)
        if value.dims is None or value.sizes is None or all(isinstance(d, int) for d in value.dims):
            return value
        if dims is None or len(dims) != len(value.sizes):
            dims = (None,) * len(value.sizes)
        pairs = zip(dims, value.sizes, strict=True)
        terms = tuple(self._trusted(term, size) for term, size in pairs)
        if any(t is None and s is not None for t, s in zip(terms, value.sizes, strict=True)):
            self.unknown.append(name)
        return self._at_most(value, value.sizes, terms)

    def _trusted(self, term: Term | None, size: int | None) -> Term | None:
        if term is None or size is None:
            return term
        if term not in self._at:
            self._at[term] = integer_at(term, self._sizes, self._values)
        bounded = self._at[term] == size and self._reach.most(term) is not None
        return term if bounded else None

    def _at_most(self, value: ValueType, at: tuple[int | None, ...], terms: Sizes) -> ValueType:
        pairs = zip(terms, at, strict=True)
        sizes = tuple(size if term is None else self._reach.most(term) for term, size in pairs)
        if sizes == at:
            return value
        product = self._known.book.chain("mul", [1, *terms])
        most = None if product is None else self._reach.most(product)
        return replace(value, sizes=sizes, most=most)


def _sampled(
    asking: ShapeInference, found: FittingBounds, values: dict[str, ValueType], names: list[str]
) -> dict[str, ValueType]:
    """Of the named values those that are larger at other sizes than the bounds."""
    raised: dict[str, ValueType] = {}
    for sizes in _points(found):
        there = asking.at(sizes)
        for name in names:
            value, other = raised.get(name, values[name]), there.get(name, ValueType())
            grown = _grown(value.sizes, other.sizes)
            if grown is not None and grown != value.sizes:
                raised[name] = replace(value, sizes=grown, most=None)
    return raised


def _points(found: FittingBounds) -> Iterator[dict[str, int]]:
    """The least sizes, and some between: odd ones, which what is rounded does not hit."""
    for pick in (
        lambda bound: 1,
        lambda bound: max(bound - 1, 1),
        lambda bound: bound // 4 * 2 + 1,
    ):
        sizes = found.relations.completed({name: pick(size) for name, size in found.free.items()})
        if sizes is not None and sizes != found.sizes:
            yield sizes


def _grown(
    at: tuple[int | None, ...] | None, there: tuple[int | None, ...] | None
) -> tuple[int | None, ...] | None:
    if at is None or there is None or len(at) != len(there):
        return None
    pairs = zip(at, there, strict=True)
    return tuple(a if a is None or b is None else max(a, b) for a, b in pairs)


def _notes(sampled: dict[str, ValueType]) -> tuple[str, ...]:
    if not sampled:
        return ()
    listed = ", ".join(list(sampled)[:5])
    return (f"sizes that rise and fall are bounded by what a few inputs give: {listed}",)
