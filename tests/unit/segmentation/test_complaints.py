"""What ONNX Runtime says of a model reaches people without the paths of its own source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from orchestrator.segmentation.checking.check import check
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.complaints import LONGEST, telling_part
from tests.support.models import model_of, save, value
from wire.errors import InvalidInput

SOURCE = "/onnxruntime_src/onnxruntime/core"
RUNNING = "Non-zero status code returned while running"
SIGNATURE = (
    f"{SOURCE}/providers/cpu/tensor/reshape_helper.h:84 onnxruntime::ReshapeHelper::ReshapeHelper"
    "(const onnxruntime::TensorShape&, onnxruntime::TensorShapeVector&, bool) "
)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            f"[ONNXRuntimeError] : 1 : FAIL : {RUNNING} Reshape node. Name:'r' Status Message: "
            f"{SIGNATURE}size != 0 && (a % size) == 0 was false. It cannot be reshaped: {{1,3}}",
            "Reshape 'r': It cannot be reshaped: {1,3}",
        ),
        (
            f"[ONNXRuntimeError] : 1 : FAIL : {RUNNING} If node. Name:'' Status Message: {RUNNING} "
            "MatMul node. Name:'' Status Message: matmul_helper.h:59 Compute sizes differ",
            "If: MatMul: sizes differ",
        ),
        (
            "[ONNXRuntimeError] : 1 : FAIL : Load model from /tmp/m.onnx failed:Node () Op (Add) "
            "[ShapeInferenceError] Incompatible dimensions",
            "Node () Op (Add) [ShapeInferenceError] Incompatible dimensions",
        ),
        (
            "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization: "
            f"{SOURCE}/framework/allocator.cc:64 void* onnxruntime::Arena::Alloc(size_t, "
            "std::function<void(int)>) const [with T = float] enough was false. Out of memory",
            "Out of memory",
        ),
        (f"{SIGNATURE}x >= 0 was false. ", "x >= 0 was false."),
        ("plain words", "plain words"),
        ("", "ValueError"),
    ],
)
def test_codes_paths_and_signatures_are_left_out(said: str, told: str) -> None:
    assert telling_part(ValueError(said)) == told


def test_what_is_told_stays_short_whatever_names_are_quoted() -> None:
    long = f"{RUNNING} Add node. Name:'{'n' * (1 << 20)}' Status Message: wrong"
    assert len(telling_part(ValueError(long))) <= LONGEST


def in_pairs() -> onnx.ModelProto:
    """Takes an even number of rows only."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="pairs")]
    weights = {"shape": np.array([2, -1, 3])}
    return model_of(nodes, [value("x", ["batch", 3])], [value("y", None)], weights)


def test_a_model_that_takes_no_single_row_says_which_bound_to_raise(tmp_path: Path) -> None:
    path = save(in_pairs(), tmp_path / "model.onnx")
    with pytest.raises(InvalidInput) as caught:
        check(path, "test", tmp_path / "blobs")
    told = str(caught.value)
    assert "Reshape 'pairs': The input tensor cannot be reshaped" in told
    assert "only 1 is allowed for 'batch': allow more with --max-shape batch=8" in told
    raised = SegmentOptions(max_shape={"batch": 8})
    assert check(path, "test", tmp_path / "blobs", options=raised).exact_holds


def test_a_model_without_open_dimensions_is_told_of_no_bound(tmp_path: Path) -> None:
    nodes = [helper.make_node("Gather", ["x", "place"], ["y"])]
    weights = {"place": np.array([5])}
    model = model_of(nodes, [value("x", [2, 3])], [value("y", None)], weights)
    with pytest.raises(InvalidInput, match=r"idx=5 must be .*\); give real ones in an \.npz"):
        check(save(model, tmp_path / "model.onnx"), "test", tmp_path / "blobs")


def test_an_item_that_is_not_taken_is_told_why(tmp_path: Path) -> None:
    path = save(in_pairs(), tmp_path / "model.onnx")
    with pytest.raises(InvalidInput, match="item 0: Reshape 'pairs': The input tensor cannot"):
        check(path, "test", tmp_path / "blobs", items=[{"x": np.ones((1, 3), np.float32)}])
