"""Formulas of dimensions: what they give, and that no bound of them is below the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.segmentation.typing import size_range
from orchestrator.segmentation.typing.formulas import (
    Formula,
    FormulaBook,
    Term,
    integer_at,
    interval_of,
)
from orchestrator.segmentation.typing.relations import Relations, relations_of
from orchestrator.segmentation.typing.size_range import SizeRange

SYMBOLS = {"a": 9, "b": 7}
TWO = ("add", "sub", "mul", "div", "true_div", "mod", "fmod", "min", "max", "less", "equal")
ONE = ("floor", "ceil", "round", "trunc", "abs", "neg")
Tree = Any  # a name, a number, or an operation with its parts

trees: st.SearchStrategy[Tree] = st.recursive(
    st.one_of(st.sampled_from(sorted(SYMBOLS)), st.integers(-5, 60)),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(TWO), inner, inner),
        st.tuples(st.sampled_from(ONE), inner),
        st.tuples(st.just("where"), inner, inner, inner),
    ),
    max_leaves=8,
)


def term_of(tree: Tree, book: FormulaBook) -> Term | None:
    if not isinstance(tree, tuple):
        return tree
    return book.make(tree[0], *[term_of(part, book) for part in tree[1:]])


def greatest(term: Term) -> int | None:
    """Over all sizes, one by one."""
    pairs = [(a, b) for a in range(1, 10) for b in range(1, 8)]
    sizes = [integer_at(term, {"a": a, "b": b}) for a, b in pairs]
    return max((size for size in sizes if size is not None), default=None)


@given(trees)
def test_the_most_of_a_formula_is_that_of_all_sizes(tree: Tree) -> None:
    term = term_of(tree, FormulaBook(SYMBOLS))
    if isinstance(term, str | Formula):
        assert SizeRange(SYMBOLS, Relations(), {}).most(term) == greatest(term)


@given(trees)
def test_an_interval_is_never_below_the_truth(tree: Tree) -> None:
    term = term_of(tree, FormulaBook(SYMBOLS))
    if term is None:
        return
    ranges = {name: (1.0, float(bound)) for name, bound in SYMBOLS.items()}
    most = greatest(term)
    assert most is None or interval_of(term, ranges)[1] >= most


def test_what_gives_the_same_everywhere_is_one_term() -> None:
    book = FormulaBook({"past": 512, "sequence": 512})
    assert book.make("add", "past", "sequence") is book.make("add", "sequence", "past")
    twice = book.make("mul", "past", 2)
    assert book.make("div", twice, 2) == "past"
    assert book.make("min", "past", 512) == "past"
    assert book.make("sub", twice, twice) == 0
    assert book.make("min", "past", 500) != "past"


def test_a_range_too_large_to_try_is_bounded_by_intervals() -> None:
    bounds = dict.fromkeys("abc", 3000)
    assert math.prod(bounds.values()) > size_range.MAX_POINTS
    book = FormulaBook(bounds)
    reach = SizeRange(bounds, Relations(), {})
    assert reach.most(book.chain("mul", ["a", "b", "c"]) or 0) == 3000**3
    falling = book.chain("div", [3000**3, "a", "b", "c"])
    assert reach.most(falling or 0) == 3000**3


def test_a_size_that_is_none_anywhere_has_no_bound() -> None:
    book = FormulaBook({"a": 9})
    below = book.make("sub", "a", 10)
    assert SizeRange({"a": 9}, Relations(), {}).most(below or 0) is None


def test_of_two_equal_dimensions_the_wished_one_is_free() -> None:
    book = FormulaBook({"a": 9, "b": 9})
    assert relations_of([("a", "b")], book, ()).following == {"b": "a"}
    assert relations_of([("a", "b")], book, {"b"}).following == {"a": "b"}


def test_a_formula_of_a_dimension_that_follows_is_one_of_free_dimensions() -> None:
    book = FormulaBook(dict.fromkeys(("total", "past", "now", "more"), 20))
    total, more = book.make("add", "past", "now"), book.make("add", "total", "now")
    assert total is not None
    assert more is not None
    found = relations_of([("more", more), ("total", total)], book, ())
    sizes = found.completed({"past": 3, "now": 2})
    assert sizes == {"past": 3, "now": 2, "total": 5, "more": 7}


def test_a_shared_formula_is_written_out_only_in_part() -> None:
    book = FormulaBook({"a": 2})
    term: Term | None = "a"
    for at in range(60):
        term = book.make("mul", term, book.make("add", term, at))
    assert len(str(term)) < 10_000


def test_formulas_follow_arrays_as_numbers() -> None:
    book = FormulaBook({"a": 9})
    term = book.make("mod", book.make("neg", "a"), 4)
    assert term is not None
    values = [integer_at(term, {"a": a}) for a in range(1, 10)]
    assert values == list(np.mod(-np.arange(1, 10), 4))
