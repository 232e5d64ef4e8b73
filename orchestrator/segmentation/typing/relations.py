"""Which of the inputs' dimensions follow from others.

A model adds a mask [total] to scores over past + sequence: then `total` follows, and only the two
others are free. Whether a relation holds is not decided here: whoever infers shapes tries it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.segmentation.typing.formulas import (
    Formula,
    FormulaBook,
    Term,
    integer_at,
    names_of,
)


@dataclass(frozen=True, slots=True)
class Relations:
    """The dimensions that follow from others, by name: terms of free ones only."""

    following: Mapping[str, Term] = field(default_factory=dict)

    def completed(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """`sizes` with what follows from the free ones; None where there is no such size."""
        found = dict(sizes)
        for name, term in self.following.items():
            if names_of(term) <= sizes.keys():
                size = integer_at(term, sizes)
                if size is None:
                    return None
                found[name] = size
        return found

    def free(self, names: Collection[str]) -> list[str]:
        """The free dimensions behind `names`, once each."""
        found = (names_of(self.following.get(name, name)) for name in sorted(names))
        return list(dict.fromkeys(one for some in found for one in sorted(some)))


_INVERSES = {"add": "sub", "mul": "div"}
Equations = Sequence[tuple[Term, Term]]


def violated(equations: Equations, sizes: Mapping[str, int]) -> list[tuple[Term, Term]]:
    """The equations that do not hold at these sizes; one side that is 1 would be broadcast."""
    found = []
    known: dict[Formula, Any] = {}
    for a, b in equations:
        values = {integer_at(a, sizes, known), integer_at(b, sizes, known)}
        if len(values) > 1 and 1 not in values:
            found.append((a, b))
    return found


def relations_of(equations: Equations, book: FormulaBook, wished: Collection[str]) -> Relations:
    """Solves each equation for a dimension that stands alone on a side. Of two that are equal the
    first one is free, or the wished one. What cannot be solved so is left out."""
    following: dict[str, Term] = {}
    for pair in equations:
        a, b = (book.replaced(side, following) for side in pair)
        solved = None if a is None or b is None else _solved(a, b, book, wished)
        if solved is None:
            continue
        name, term = solved
        for other, known in following.items():
            replaced = book.replaced(known, {name: term})
            following[other] = known if replaced is None else replaced
        following[name] = term
    return Relations(following)


def _solved(
    a: Term, b: Term, book: FormulaBook, wished: Collection[str]
) -> tuple[str, Term] | None:
    """The name that follows, and from what."""
    for isolated in (_alone, _inside):
        choices = [
            (name, term)
            for name, term in (*isolated(a, b, book), *isolated(b, a, book))
            if name not in names_of(term) and _may_be(term, name in wished)
        ]
        if choices:
            order = book.names
            return max(choices, key=lambda one: (one[0] not in wished, order.index(one[0])))
    return None


def _alone(a: Term, b: Term, book: FormulaBook) -> Iterator[tuple[str, Term]]:
    if isinstance(a, str):
        yield a, b


def _inside(a: Term, b: Term, book: FormulaBook, depth: int = 4) -> Iterator[tuple[str, Term]]:
    """What stands in a sum or a product: batch * tokens = h * w is tokens = h * w // batch."""
    yield from _alone(a, b, book)
    inverse = _INVERSES.get(a.kind) if isinstance(a, Formula) else None
    if inverse is None or depth == 0 or not isinstance(a, Formula):
        return
    for one, other in (a.terms, a.terms[::-1]):
        rest = book.make(inverse, b, other)
        if rest is not None:
            yield from _inside(one, rest, book, depth - 1)


def _may_be(term: Term, wished: bool) -> bool:
    """A constant is no size that could give way to a wish."""
    return not isinstance(term, float | int) or (isinstance(term, int) and term > 0 and not wished)
