"""Which models let items be computed together: by their types, and by running them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from orchestrator.segmentation.checking.check import check
from orchestrator.segmentation.checking.comparing import compared
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import floats, mlp, model_of, row_feeds, save, value
from wire.manifest import Batching
from wire.record import decode, encode

BOUND = 4


def batching(model: onnx.ModelProto, folder: Path, bound: int = BOUND, *cut_after: str) -> Batching:
    """What adding the model finds, with at most `bound` rows where it leaves that open."""
    path = save(model, folder / "model.onnx")
    bounds = {"batch": bound} if bound else {}
    options = SegmentOptions(max_shape=bounds, cut_after=cut_after or None)
    blobs = folder / "blobs"
    manifest = segment(path, "test", FolderSink(blobs), options=options)
    reference = compared(path, manifest, blobs, options).manifest.reference
    assert reference is not None
    assert reference.batching is not None
    return reference.batching


def rows_model(*nodes: Any, shape: tuple[Any, ...] = ("batch", 6)) -> onnx.ModelProto:
    """x: float [batch, 6] to y of `shape`; the first node makes h of x."""
    first = helper.make_node("Tanh", ["x"], ["h"])
    return model_of(
        [first, *nodes],
        [value("x", ["batch", 6])],
        [value("y", list(shape))],
        {"w": floats(np.random.default_rng(1), 6, 6)},
    )


def node(kind: str, *inputs: str, made: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, list(inputs), [made], **attributes)


def test_a_model_whose_rows_stand_alone_lets_items_go_together(tmp_path: Path) -> None:
    found = batching(rows_model(node("MatMul", "h", "w")), tmp_path, BOUND, "h")
    assert (found.symbol, found.cuts, found.refused) == ("batch", (0, 1, 2), "")
    assert found.difference < 1e-5
    assert decode(Batching, encode(found)) == found


@pytest.mark.parametrize(
    "mixing",
    [
        (node("ReduceMean", "h", made="m", axes=[0]), node("Sub", "h", "m")),
        (node("Softmax", "h", axis=0),),
        (node("CumSum", "h", "axis"),),
    ],
    ids=["a mean over rows", "a softmax over rows", "a sum that goes on from row to row"],
)
def test_a_model_that_mixes_rows_computes_each_item_alone(
    mixing: tuple[onnx.NodeProto, ...], tmp_path: Path
) -> None:
    model = rows_model(*mixing)
    if mixing[0].op_type == "CumSum":
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0), "axis"))
    found = batching(model, tmp_path)
    assert found.cuts == ()
    assert found.refused == "together, items gave other outputs than alone"


def test_one_scale_for_all_rows_is_refused_by_its_operator(tmp_path: Path) -> None:
    quantise = helper.make_node("DynamicQuantizeLinear", ["h"], ["q", "scale", "zero"])
    model = rows_model(quantise, node("DequantizeLinear", "q", "scale", "zero"))
    assert "DynamicQuantizeLinear" in batching(model, tmp_path).refused


def test_a_reshape_that_folds_rows_into_another_axis_is_refused(tmp_path: Path) -> None:
    model = rows_model(
        node("Reshape", "h", "one", made="folded"),
        node("Softmax", "folded", made="soft", axis=1),
        node("Reshape", "soft", "rows"),
    )
    for name, shape in (("one", [1, -1]), ("rows", [-1, 6])):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape), name))
    assert batching(model, tmp_path).refused


def test_a_bound_of_one_row_says_what_to_add_the_model_with(tmp_path: Path) -> None:
    assert "--max-shape batch=8" in batching(mlp(), tmp_path, 1).refused


def test_a_first_dimension_of_fixed_size_is_no_axis_to_join_along(tmp_path: Path) -> None:
    model = model_of([node("Tanh", "x")], [value("x", [1, 6])], [value("y", [1, 6])])
    assert "open size" in batching(model, tmp_path, 0).refused


def test_what_was_made_without_the_axis_may_cross_no_cut(tmp_path: Path) -> None:
    """Nobody can see from how many rows it was made."""
    nodes = [node("Tanh", "by", made="c"), node("Tanh", "x", made="h"), node("Mul", "h", "c")]
    inputs = [value("x", ["batch", 6]), value("by", [6])]
    model = model_of(nodes, inputs, [value("y", ["batch", 6])])
    assert batching(model, tmp_path, BOUND, "h").cuts == (0, 2)


def test_an_input_without_the_axis_is_shared(tmp_path: Path) -> None:
    model = rows_model(node("Mul", "h", "by"))
    model.graph.input.append(value("by", [6]))
    path = save(model, tmp_path / "model.onnx")
    options = SegmentOptions(max_shape={"batch": BOUND}, cut_after=("h",))
    manifest = segment(path, "test", FolderSink(tmp_path / "blobs"), options=options)
    found = compared(path, manifest, tmp_path / "blobs", options).manifest
    assert found.batching.cuts == (0, 1, 2)
    assert (found.shared_inputs(), found.batch_limit) == (("by",), BOUND)


def test_a_check_measures_items_together_on_real_ones_where_two_are_alike(tmp_path: Path) -> None:
    path = save(mlp(), tmp_path / "model.onnx")
    options = SegmentOptions(max_shape={"batch": BOUND})
    items = [row_feeds(), row_feeds()]
    reference = check(path, "test", tmp_path / "blobs", options=options, items=items).reference
    assert reference.batching is not None
    assert reference.batching.cuts


def test_integers_count_to_the_last_one(tmp_path: Path) -> None:
    """The place of the largest over all rows is not that of a row."""
    model = model_of(
        [
            node("ReduceMax", "x", made="top", keepdims=1, axes=[0]),
            node("Sub", "x", "top", made="d"),
            node("ArgMax", "d", axis=1, keepdims=0),
        ],
        [value("x", ["batch", 6])],
        [value("y", ["batch"], TensorProto.INT64)],
    )
    assert batching(model, tmp_path).refused
