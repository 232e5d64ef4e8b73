"""Which items are computed in one call, how their tensors are joined, and outputs parted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.adapters.runtime.batching import Form, form_of, grouped, joined, parted
from wire.elements import Element
from wire.errors import ComputeFailed
from wire.frame_head import FrameHead, TensorHead
from wire.ids import ActivationId


def head(*tensors: TensorHead, batch: int = 8) -> FrameHead:
    return FrameHead(
        "a" * 64,
        ActivationId("r", 0, 0),
        0,
        exact=False,
        barrier=False,
        nbytes=0,
        raw_nbytes=0,
        tensors=tensors,
        batch=batch,
    )


def ids(rows: int, length: int, kind: int = Element.INT64) -> TensorHead:
    return TensorHead("ids", kind, (rows, length))


def form(rows: int = 1, length: int = 5, batch: int = 8) -> Form | None:
    return form_of(head(ids(rows, length), batch=batch), {"ids"}, {})


def value(array: Any) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def spans(forms: list[Form | None], rows: int = 64) -> list[tuple[int, int]]:
    return [(group.start, group.stop) for group in grouped(forms, rows)]


def test_items_of_one_length_go_together_and_others_do_not() -> None:
    assert spans([form(), form(), form(length=6), form(length=6), form()]) == [
        (0, 2),
        (2, 4),
        (4, 5),
    ]


def test_not_more_than_were_asked_for_and_not_more_rows_than_are_planned_for() -> None:
    assert spans([form(batch=2)] * 5) == [(0, 2), (2, 4), (4, 5)]
    assert spans([form(), form(), form()], rows=2) == [(0, 2), (2, 3)]
    assert spans([form(rows=3), form(), form()], rows=2) == [(0, 1), (1, 3)]
    assert spans([form(batch=1)] * 2) == [(0, 1), (1, 2)]
    assert spans([form(batch=4), form(batch=2)]) == [(0, 1), (1, 2)]
    assert spans([]) == []


def test_what_is_shared_must_be_the_same_in_every_bit() -> None:
    rate = TensorHead("rate", Element.FLOAT, ())
    one, other = (
        form_of(head(ids(1, 5), rate), {"ids", "rate"}, {"rate": bits})
        for bits in (b"\0\0\0\0", b"\0\0\0\x80")
    )
    assert one is not None
    assert spans([one, one, other]) == [(0, 2), (2, 3)]


@pytest.mark.parametrize(
    "tensors",
    [
        (TensorHead("ids", Element.STRING, (1, 2)),),
        (TensorHead("ids", Element.INT4, (1, 3)),),
        (TensorHead("ids", Element.FLOAT, ()),),
        (ids(0, 2),),
        (ids(1, 2), TensorHead("mask", Element.INT64, (2, 2))),
    ],
    ids=["strings", "packed", "no axis", "no rows", "rows that differ"],
)
def test_what_has_no_rows_of_whole_bytes_is_computed_alone(tensors: tuple[TensorHead]) -> None:
    assert form_of(head(*tensors), {"ids", "mask"}, {}) is None
    assert spans([None, None]) == [(0, 1), (1, 2)]


def test_what_only_passes_through_need_not_fit() -> None:
    passing = TensorHead("text", Element.STRING, (1,))
    assert form_of(head(ids(1, 5), passing), {"ids"}, {}) == form()


@given(st.lists(st.one_of(st.none(), st.builds(form, st.integers(1, 4), st.integers(1, 2)))))
def test_every_item_is_in_one_group_in_order(forms: list[Form | None]) -> None:
    found = spans(forms, rows=6)
    assert [start for start, _ in found[:1]] == [0] * bool(forms)
    assert all(before[1] == after[0] for before, after in pairwise(found))
    assert sum(stop - start for start, stop in found) == len(forms)


def test_joined_rows_come_apart_as_they_were() -> None:
    items = [np.arange(n * 3, dtype=np.float32).reshape(n, 3) + n for n in (1, 2, 1)]
    shared = value(np.float32([7]))
    given_values = [{"x": value(array), "by": shared} for array in items]
    together = joined(given_values, ("by",))
    assert together["by"] is shared
    np.testing.assert_array_equal(together["x"].numpy(), np.concatenate(items))
    parts = parted({"y": together["x"]}, ("y", "passing"), (1, 2, 1))
    for part, array in zip(parts, items, strict=True):
        assert list(part) == ["y"]
        np.testing.assert_array_equal(part["y"].numpy(), array)


def test_an_output_without_all_rows_is_nobodys() -> None:
    with pytest.raises(ComputeFailed, match="cannot be parted"):
        parted({"y": value(np.zeros((3, 2), np.float32))}, ("y",), (1, 1))
