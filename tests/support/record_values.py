"""Values of any record's type for hypothesis, and all record types that messages are made of."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import types
import typing
from typing import Any

from hypothesis import strategies as st

from wire import messages
from wire.elements import Element
from wire.frame_head import TensorHead
from wire.ids import PartitionId, digest_of
from wire.manifest import BlobRef, TensorSpec
from wire.messages.assignment import PartitionAssignment, SegmentRef
from wire.messages.requests import Collected, Submit
from wire.record_readers import MAX_INT
from wire.spans import Spans

NUMBERS = st.integers(-MAX_INT, MAX_INT)
NAMES = st.from_regex(r"[a-z0-9-]{5}", fullmatch=True)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: NUMBERS,
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=8),
    bool: st.booleans(),
}
SHAPES = st.lists(st.integers(0, MAX_INT), max_size=3).map(tuple)
TEXTS = st.lists(SCALARS[str], max_size=3).map(tuple)


def message_types() -> list[type]:
    """Every dataclass that a module of `wire.messages` defines."""
    modules = [
        importlib.import_module(f"{messages.__name__}.{module.name}")
        for module in pkgutil.iter_modules(messages.__path__)
    ]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
    ]


@functools.cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Valid values of a field's type or of a record."""
    if kind in BY_RULE:
        return BY_RULE[kind]
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values_of, inside))
    if origin is typing.Literal:
        return st.sampled_from(inside)
    if origin is tuple and inside[-1] is Ellipsis:
        return st.lists(values_of(inside[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, inside))
    if origin is dict:
        return st.dictionaries(SCALARS[str], values_of(inside[1]), max_size=3)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        fields = [field.name for field in dataclasses.fields(kind)]
        return st.builds(kind, **{name: values_of(hints[name]) for name in fields})
    return st.none() if kind is type(None) else SCALARS[kind]


def _partition_with_its_segments(first: int, count: int) -> st.SearchStrategy[Any]:
    blob = BlobRef(digest_of(b"blob"), 3)
    segments = tuple(
        SegmentRef(first + index, blob, (blob,), ("x",), ("y",), 8, 0.5) for index in range(count)
    )
    return st.builds(
        PartitionAssignment,
        partition=st.just(PartitionId(digest_of(b"model"), False, first, first + count - 1)),
        model_name=SCALARS[str],
        tier=NUMBERS,
        segments=st.just(segments),
        accepts_nbytes=NUMBERS,
        emits=TEXTS,
        emits_nbytes=NUMBERS,
    )


# Records with rules of their own, beyond the types of their fields.
BY_RULE: dict[Any, st.SearchStrategy[Any]] = {
    TensorHead: st.builds(TensorHead, SCALARS[str], NUMBERS, SHAPES),
    BlobRef: st.builds(BlobRef, st.binary(max_size=4).map(digest_of), st.integers(0, MAX_INT)),
    TensorSpec: st.builds(
        TensorSpec,
        name=SCALARS[str],
        element=st.sampled_from(sorted(map(int, Element))),
        dims=TEXTS,
        bound_nbytes=st.integers(0, MAX_INT),
        passing=st.booleans(),
        rank_known=st.booleans(),
    ),
    Collected: st.builds(
        Collected,
        run=SCALARS[str],
        items=st.lists(st.integers(0, 99), unique=True).map(lambda items: Spans(items).ranges()),
    ),
    Submit: st.builds(Submit, run=NAMES, model=SCALARS[str], count=st.none() | NUMBERS),
    PartitionAssignment: st.tuples(st.integers(0, 9), st.integers(1, 3)).flatmap(
        lambda span: _partition_with_its_segments(*span)
    ),
}
