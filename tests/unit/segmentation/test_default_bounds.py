"""Which dimensions are batches, by their names and by the axes that they are on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from orchestrator.segmentation.options import DEFAULT_BATCH, DEFAULT_DIM
from orchestrator.segmentation.typing.dimensions import default_bound
from tests.support.cutting import RNG, check, relu
from tests.support.models import floats, model_of, value

BATCH, LENGTH = DEFAULT_BATCH, DEFAULT_DIM
PIXELS = ("", "", "")


@pytest.mark.parametrize(
    ("name", "shapes", "bound"),
    [
        ("batch", [("batch", "sequence")], BATCH),
        ("batch_size", [("batch_size", *PIXELS)], BATCH),
        ("Batch", [("Batch", "")], BATCH),
        ("batch", [("time", "batch", "")], BATCH),
        ("batch", [("batch",)], BATCH),
        ("bs", [("seq", "bs", "")], BATCH),
        ("N", [("N", *PIXELS)], BATCH),
        ("n", [("n", "")], BATCH),
        ("b", [("b", "n", "")], BATCH),
        ("n", [("b", "n", "")], LENGTH),
        ("N", [("", "N", "")], LENGTH),
        ("N", [("", "", "N")], LENGTH),
        ("n", [("n",)], LENGTH),
        ("b", [("b",)], LENGTH),
        ("n", [("n",), ("n", "")], BATCH),
        ("n", [("n",), ("m", "")], LENGTH),
        ("n", [("n", "n")], LENGTH),
        ("n", [("n", ""), ("", "n")], LENGTH),
        ("unk__12", [("unk__12", "")], BATCH),
        ("unk__13", [("unk__12", "unk__13")], LENGTH),
        ("unk__12", [("unk__12",)], LENGTH),
        ("dim_0", [("dim_0", "dim_1")], BATCH),
        ("dim_1", [("dim_0", "dim_1")], LENGTH),
        ("DynamicDimension.0", [("DynamicDimension.0", "", "DynamicDimension.1")], BATCH),
        ("?", [("?", "", "?", "?")], LENGTH),
        ("x.0", [("x.0", "x.1")], BATCH),
        ("x.1", [("x.0", "x.1")], LENGTH),
        ("x.0", [("x.0",)], LENGTH),
        ("lengths.0", [("x.0", "x.1"), ("lengths.0",)], BATCH),
        ("lengths.0", [("batch", "x.1"), ("lengths.0",)], BATCH),
        ("rate.0", [("", "x.1"), ("rate.0",)], LENGTH),
        ("sequence", [("sequence", "")], LENGTH),
        ("num_samples", [("num_samples",)], LENGTH),
    ],
)
def test_a_batch_is_told_by_its_name_and_its_axis(
    name: str, shapes: list[tuple[str, ...]], bound: int
) -> None:
    assert default_bound(name, shapes) == bound


@pytest.mark.parametrize("unknown", ["?", "-1", "None", "unknown", "dynamic"])
def test_a_name_that_says_nothing_ties_no_dimensions_together(tmp_path: Path, unknown: str) -> None:
    nodes = [helper.make_node("Tanh", ["x"], ["t"]), relu("t", "y")]
    images = [unknown, 3, unknown, unknown]
    model = model_of(nodes, [value("x", images)], [value("y", images)])
    manifest = check(model, tmp_path, {"x": floats(RNG, 1, 3, 48, 192)}, segments=2)
    assert manifest.symbols == {"x.0": 1, "x.2": 512, "x.3": 512}
    assert manifest.inputs[0].dims == ("x.0", "3", "x.2", "x.3")


def test_a_transform_over_n_points_takes_many(tmp_path: Path) -> None:
    nodes = [helper.make_node("DFT", ["x"], ["waves"], axis=1), relu("waves", "y")]
    model = model_of(nodes, [value("x", ["b", "n", 1])], [value("y", None)], opset=17)
    manifest = check(model, tmp_path, {"x": floats(RNG, 1, 64, 1)}, segments=2)
    assert manifest.symbols == {"b": 1, "n": 512}


def test_a_cloud_of_n_points_takes_many(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), relu("m", "y")]
    weights = {"w": floats(RNG, 3, 24)}
    model = model_of(nodes, [value("x", [1, "N", 3])], [value("y", None)], weights)
    manifest = check(model, tmp_path, {"x": floats(RNG, 1, 100, 3)}, segments=2)
    assert manifest.symbols == {"N": 512}
    assert np.prod([1, 512, 24]) * 4 == manifest.outputs[0].bound_nbytes
