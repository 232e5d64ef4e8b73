"""Dimensions: names, bounds, and sizes that follow from others or from data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from tests.support.cutting import RNG, ROWS, check, cut, relu
from tests.support.models import (
    WIDTH,
    floats,
    mlp,
    model_of,
    row_feeds,
    value,
)


def test_unnamed_dimensions_get_names_and_bounds(tmp_path: Path) -> None:
    model = model_of(
        [relu("x", "a"), relu("a", "y")], [value("x", [None, None, 8])], [value("y", None)]
    )
    manifest = check(model, tmp_path, {"x": floats(RNG, 2, 3, 8)}, segments=2)
    assert manifest.inputs[0].dims == ("x.0", "x.1", "8")
    assert manifest.symbols == {"x.0": 1, "x.1": 512}
    assert manifest.cuts[1].bound_nbytes == 1 * 512 * 8 * 4


def test_wished_bounds_reach_every_tensor(tmp_path: Path) -> None:
    manifest = cut(mlp(), tmp_path, segments=2, max_shape={"batch": 7})
    assert manifest.symbols["batch"] == 7
    assert manifest.outputs[0].bound_nbytes == 7 * WIDTH * 4
    assert manifest.segments[0].peak_activation_nbytes >= 2 * 7 * WIDTH * 4


def test_sizes_that_follow_from_a_dimension_are_bounded_by_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["x", "x", "start"], ["a"], axis=0),
        relu("a", "y"),
    ]
    weights = {"start": floats(RNG, 1, WIDTH)}
    model = model_of(nodes, [value("x", ROWS)], [value("y", None)], weights)
    manifest = check(model, tmp_path, row_feeds(), segments=2, max_shape={"batch": 10})
    assert manifest.cuts[1].bound_nbytes == 21 * WIDTH * 4


def test_as_many_places_as_elements_are_expected_of_nonzero(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", None)])
    manifest = check(model, tmp_path, row_feeds(), segments=2, max_shape={"batch": 50})
    assert manifest.cuts[1].bound_nbytes == 2 * (50 * WIDTH) * 8
    assert manifest.notes == ()


def test_a_dimension_that_depends_on_data_is_bounded_with_a_note(tmp_path: Path) -> None:
    dims = {"boxes": [1, "n", 4], "scores": [1, 1, "n"], "most": [1]}
    kinds = {"most": TensorProto.INT64}
    nodes = [
        helper.make_node("NonMaxSuppression", list(dims), ["picked"]),
        helper.make_node("Cast", ["picked"], ["y"], to=TensorProto.FLOAT),
    ]
    inputs = [value(k, d, kinds.get(k, TensorProto.FLOAT)) for k, d in dims.items()]
    model = model_of(nodes, inputs, [value("y", None)])
    feeds = {
        "boxes": floats(RNG, 1, 9, 4),
        "scores": floats(RNG, 1, 1, 9),
        "most": np.array([5]),
    }
    manifest = check(model, tmp_path, feeds, segments=2)
    assert any("depend on data" in note for note in manifest.notes)
    (guessed,) = (name for name in manifest.symbols if name != "n")
    assert manifest.cuts[1].bound_nbytes == 3 * 512 * 8
    again = cut(model, tmp_path, segments=2, max_shape={guessed: 9})
    assert again.cuts[1].bound_nbytes == 3 * 9 * 8
    assert not any("depend on data" in note for note in again.notes)


def test_an_input_without_a_shape_is_served(tmp_path: Path) -> None:
    model = model_of([relu("x", "a"), relu("a", "y")], [value("x", None)], [value("y", None)])
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert not manifest.cuts[1].tensors[0].rank_known
