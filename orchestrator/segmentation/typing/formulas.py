"""Sizes as formulas of the inputs' dimensions, and their greatest values.

A `Formula` is made by a `FormulaBook`, which knows what it gives at some hundred points: two that
give the same everywhere are one, and what gives a constant or a dimension is that. So no algebra is
needed. Where the points of a range are few, all are tried; else intervals bound the value, perhaps
too generously, never below the truth. Knows no graph: `size_flow` makes formulas of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[float, float]
POINTS = 640  # at which formulas are compared
SMALL_RANGE = 8  # up to which every dimension is tried, also a batch of one
MAX_POINTS = 1 << 18  # of a range that is tried whole: some milliseconds
MAX_VALUES = 1 << 23  # of all parts of a formula while it is tried: 64 MB
MAX_FORMULAS = 4_000  # of one model, 10 kB each: with more, the rest stays unknown
MAX_DEPTH = 150  # of one formula, well below Python's own limit
SHOWN_DEPTH = 5
ANYTHING: Interval = (-math.inf, math.inf)
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "//", "mod": "%", "true_div": "/"}


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """An operation on terms, by name. The same one in the whole book, so identity is equality."""

    kind: str
    terms: tuple[Term, ...]
    names: frozenset[str] = field(repr=False)
    depth: int = field(repr=False)

    def __str__(self) -> str:
        return _text(self, SHOWN_DEPTH)


def _text(term: Term, depth: int) -> str:
    """As people write it, and no deeper: shared parts would fill a library."""
    if not isinstance(term, Formula):
        return str(term)
    if depth == 0:
        return "…"
    texts = [_text(part, depth - 1) for part in term.terms]
    sign = _SIGNS.get(term.kind)
    if sign is None:
        return f"{term.kind}({', '.join(texts)})"
    return f" {sign} ".join(map(_grouped, term.terms, texts))


def _grouped(term: Term, text: str) -> str:
    return f"({text})" if isinstance(term, Formula) and term.kind in _SIGNS else text


Term = float | str | Formula  # a number, a dimension, or a formula of them


def names_of(term: Term) -> frozenset[str]:
    """The dimensions that a term depends on."""
    if isinstance(term, Formula):
        return term.names
    return frozenset({term}) if isinstance(term, str) else frozenset()


def parts_of(term: Term) -> int:
    """How many formulas a term is made of, itself included."""
    seen: set[Formula] = set()
    waiting = [term]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Formula) and one not in seen:
            seen.add(one)
            waiting += one.terms
    return len(seen)


def value_at(term: Term, sizes: Mapping[str, Any], known: dict[Formula, Any] | None = None) -> Any:
    """The value at `sizes`, which are numbers or arrays that broadcast; NaN where there is none.
    `known` keeps what was found at the same sizes."""
    known = {} if known is None else known

    def value(one: Term) -> Any:
        if isinstance(one, str):
            return sizes[one]
        if not isinstance(one, Formula):
            return float(one)
        if one not in known:
            known[one] = _applied(one.kind, [value(part) for part in one.terms])
        return known[one]

    return value(term)


def integer_at(
    term: Term, sizes: Mapping[str, int], known: dict[Formula, Any] | None = None
) -> int | None:
    """As `value_at` for a size; None if it is none there."""
    value = float(value_at(term, sizes, known))
    return int(value) if math.isfinite(value) and value >= 0 else None


def interval_of(
    term: Term, ranges: Mapping[str, Interval], known: dict[Formula, Interval] | None = None
) -> Interval:
    """Between which numbers the value lies if each dimension is in its range by itself; `known`
    keeps what was found for the same ranges."""
    known = {} if known is None else known

    def interval(one: Term) -> Interval:
        if isinstance(one, str):
            return ranges[one]
        if not isinstance(one, Formula):
            return (float(one), float(one))
        if one not in known:
            found = _INTERVALS[one.kind](*[interval(part) for part in one.terms])
            known[one] = ANYTHING if any(map(math.isnan, found)) else found
        return known[one]

    return interval(term)


class FormulaBook:
    """Makes formulas of dimensions, each between 1 and the bound that `symbols` gives it."""

    def __init__(self, symbols: Mapping[str, int]) -> None:
        self._points = _points_of(symbols)
        self._made: dict[tuple[str | Term | None, ...], Term | None] = {}
        self._known: dict[bytes, Term] = {}
        self._values: dict[Formula, Array] = {}
        for name, values in self._points.items():
            self._known.setdefault(values.tobytes(), name)

    def make(self, kind: str, *terms: Term | None) -> Term | None:
        """The term for an operation; None if one of `terms` is."""
        key = (kind, *terms)
        if key not in self._made:
            self._made[key] = self._new(kind, terms)
        return self._made[key]

    def _new(self, kind: str, terms: tuple[Term | None, ...]) -> Term | None:
        known = [term for term in terms if term is not None]
        if len(known) < len(terms) or len(self._values) >= MAX_FORMULAS:
            return None
        values = _applied(kind, [self._at_points(term) for term in known])
        values = np.broadcast_to(np.asarray(values, np.float64), POINTS)
        if values[0] == values.min() == values.max():
            return plain(float(values[0]))
        key = (values + 0.0).tobytes()  # a zero has a sign, which is no difference here
        if key not in self._known:
            names = frozenset().union(*(names_of(term) for term in known))
            depth = 1 + max(term.depth if isinstance(term, Formula) else 0 for term in known)
            if depth > MAX_DEPTH:
                return None
            made = Formula(kind, tuple(known), names, depth)
            self._known[key], self._values[made] = made, values
        return self._known[key]

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions, in order."""
        return tuple(self._points)

    def replaced(self, term: Term, meant: Mapping[str, Term]) -> Term | None:
        """A term with other terms in the place of dimensions."""
        known: dict[Formula, Term | None] = {}

        def made(one: Term) -> Term | None:
            if not isinstance(one, Formula):
                return meant.get(one, one) if isinstance(one, str) else one
            if one not in known:
                known[one] = self.make(one.kind, *[made(part) for part in one.terms])
            return known[one]

        return made(term) if not names_of(term).isdisjoint(meant) else term

    def chain(self, kind: str, terms: list[Term | None]) -> Term | None:
        """`terms` under an operation that takes two at a time, from the left."""
        return reduce(lambda a, b: self.make(kind, a, b), terms)

    def _at_points(self, term: Term) -> Any:
        if isinstance(term, Formula):
            return self._values[term]
        return self._points[term] if isinstance(term, str) else float(term)


def plain(value: float) -> float:
    """A whole number as an integer."""
    return int(value) if math.isfinite(value) and value == int(value) else value


def _points_of(symbols: Mapping[str, int]) -> dict[str, Array]:
    """Values for each dimension: all there are if they are no more than the points, in an order of
    its own."""
    rng = np.random.default_rng(0)
    points = {}
    for name, bound in symbols.items():
        top = max(bound, SMALL_RANGE)
        few = np.arange(1, top + 1) if top <= POINTS else np.linspace(1, top, POINTS).astype(int)
        values = rng.permutation(np.resize(few, POINTS)).astype(np.float64)
        values[:2] = 1, top
        points[name] = values
    return points


def _applied(kind: str, values: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return _FUNCTIONS[kind](*values)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "true_div": np.divide,
    "div": lambda a, b: np.trunc(np.divide(a, b)),
    "mod": np.mod,
    "fmod": np.fmod,
    "pow": lambda a, b: np.power(np.asarray(a, np.float64), b),
    "min": np.minimum,
    "max": np.maximum,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "abs": np.abs,
    "neg": np.negative,
    "sqrt": lambda a: np.sqrt(np.asarray(a, np.float64)),
    "equal": lambda a, b: np.equal(a, b) * 1.0,
    "less": lambda a, b: np.less(a, b) * 1.0,
    "less_equal": lambda a, b: np.less_equal(a, b) * 1.0,
    "where": lambda condition, a, b: np.where(np.not_equal(condition, 0), a, b),
}


def _corners(kind: str) -> Callable[[Interval, Interval], Interval]:
    """Of an operation that is monotone in each of its two terms."""

    def interval(a: Interval, b: Interval) -> Interval:
        found = [float(_applied(kind, [np.float64(x), np.float64(y)])) for x in a for y in b]
        return (min(found), max(found))

    return interval


def _each(kind: str) -> Callable[..., Interval]:
    """Of an operation that grows with each of its terms, or falls with its only one."""

    def interval(*parts: Interval) -> Interval:
        ends = [float(_applied(kind, [np.float64(part[at]) for part in parts])) for at in (0, 1)]
        return (min(ends), max(ends))

    return interval


def _divided(kind: str) -> Callable[[Interval, Interval], Interval]:
    def interval(a: Interval, b: Interval) -> Interval:
        return ANYTHING if b[0] <= 0 <= b[1] else _corners(kind)(a, b)

    return interval


def _remainder(a: Interval, b: Interval) -> Interval:
    """Has the sign of `b`; a small `a` is left as it is."""
    if a[0] >= 0 and a[1] < b[0]:
        return a
    return (min(b[0], 0.0), max(b[1], 0.0))


def _signed_remainder(a: Interval, b: Interval) -> Interval:
    most = max(abs(b[0]), abs(b[1]))
    return (-most if a[0] < 0 else 0.0, most if a[1] > 0 else 0.0)


def _magnitude(a: Interval) -> Interval:
    return (max(a[0], -a[1], 0.0), max(abs(a[0]), abs(a[1])))


def _truth(a: Interval, b: Interval) -> Interval:
    return (0.0, 1.0)


def _power(a: Interval, b: Interval) -> Interval:
    return _corners("pow")(a, b) if a[0] >= 1 else ANYTHING


_INTERVALS: dict[str, Callable[..., Interval]] = {
    **{kind: _corners(kind) for kind in ("add", "sub", "mul")},
    **{kind: _divided(kind) for kind in ("true_div", "div")},
    **{kind: _each(kind) for kind in ("floor", "ceil", "round", "trunc", "neg", "min", "max")},
    **dict.fromkeys(("equal", "less", "less_equal"), _truth),
    "mod": _remainder,
    "fmod": _signed_remainder,
    "pow": _power,
    "abs": _magnitude,
    "sqrt": lambda a: (math.sqrt(max(a[0], 0.0)), math.sqrt(max(a[1], 0.0))),
    "where": lambda _, a, b: (min(a[0], b[0]), max(a[1], b[1])),
}
