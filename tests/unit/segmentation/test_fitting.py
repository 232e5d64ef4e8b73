"""Default bounds are lowered to what the model can take, and no further."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.typing.bounds_fit import largest_fitting
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import body, model_of, save, value
from wire.manifest import Manifest

sizes = st.integers(1, 600)


def with_position_table(rows: int) -> onnx.ModelProto:
    """scores [batch, sequence, sequence] plus a table [1, rows, rows] sliced to the sequence."""
    table = np.zeros((1, rows, rows), np.float32)
    constants = {"table": table, "zeros": np.zeros(2, np.int64), "axes": np.array([1, 2])}
    constants["one"] = np.array([1])
    nodes = [
        helper.make_node("Shape", ["scores"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Concat", ["length", "length"], ["ends"], axis=0),
        helper.make_node("Slice", ["table", "zeros", "ends", "axes"], ["bias"]),
        helper.make_node("Add", ["scores", "bias"], ["biased"]),
        helper.make_node("Tanh", ["biased"], ["inner"]),
        helper.make_node("Softmax", ["inner"], ["weights"]),
    ]
    dims = ["batch", "sequence", "sequence"]
    graph = helper.make_graph(
        nodes,
        "scored",
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("weights", TensorProto.FLOAT, dims)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def cut(model: onnx.ModelProto, folder: Path, **max_shape: int) -> Manifest:
    path = save(model, folder / "model.onnx")
    options = SegmentOptions(segments=2, max_shape=max_shape)
    return segment(path, "scored", FolderSink(folder / "blobs"), options=options)


def test_a_table_for_96_positions_bounds_the_sequence(tmp_path: Path) -> None:
    manifest = cut(with_position_table(96), tmp_path)
    assert manifest.symbols["sequence"] == 96
    assert max(cut.bound_nbytes for cut in manifest.cuts) == 96 * 96 * 4
    assert any("'sequence' is bounded at 96" in note for note in manifest.notes)


def test_a_table_for_more_positions_than_the_default_changes_nothing(tmp_path: Path) -> None:
    manifest = cut(with_position_table(600), tmp_path)
    assert manifest.symbols["sequence"] == 512
    assert manifest.notes == ()


def with_a_branch_for_256() -> onnx.ModelProto:
    """[batch, samples]: the branch that `fast` leaves out convolves rows only if there are 256 of
    them, as ONNX Runtime sees once it has folded the shape's arithmetic."""
    rows = body("rows", [helper.make_node("Unsqueeze", ["x", "axis"], ["r"])], [value("r", None)])
    flat = body("flat", [helper.make_node("Identity", ["x"], ["f"])], [value("f", None)])
    slow = body(
        "slow",
        [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "last"], ["samples"]),
            helper.make_node("Equal", ["samples", "wanted"], ["is_wanted"]),
            helper.make_node("If", ["is_wanted"], ["z"], then_branch=rows, else_branch=flat),
            helper.make_node("Conv", ["z", "kernel"], ["c"]),
            helper.make_node("ReduceSum", ["c"], ["slow_y"], keepdims=0),
        ],
        [value("slow_y", None)],
    )
    fast = body(
        "fast",
        [helper.make_node("ReduceSum", ["x"], ["fast_y"], keepdims=0)],
        [value("fast_y", None)],
    )
    nodes = [
        helper.make_node("If", ["fast"], ["s"], then_branch=fast, else_branch=slow),
        helper.make_node("Add", ["s", "x"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    constants = {
        "axis": np.array([1]),
        "last": np.array(1),
        "wanted": np.array(256),
        "kernel": np.ones((2, 1, 3), np.float32),
    }
    inputs = [value("x", ["batch", "samples"]), value("fast", [], TensorProto.BOOL)]
    return model_of(nodes, inputs, [value("y", None)], constants)


def test_sizes_that_only_one_branch_refuses_are_allowed(tmp_path: Path) -> None:
    manifest = cut(with_a_branch_for_256(), tmp_path)
    assert manifest.symbols["samples"] == 512
    assert not any("contradict" in note for note in manifest.notes)


def test_a_wished_bound_is_never_lowered(tmp_path: Path) -> None:
    manifest = cut(with_position_table(96), tmp_path, sequence=100)
    assert manifest.symbols["sequence"] == 100


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(sizes, sizes), min_size=1))
def test_each_default_is_lowered_to_what_fits(cases: dict[str, tuple[int, int]]) -> None:
    bounds = {name: bound for name, (bound, _) in cases.items()}
    most = {name: limit for name, (_, limit) in cases.items()}

    def fits(tried: dict[str, int]) -> bool:
        return all(tried[name] <= most[name] for name in tried)

    found = largest_fitting(bounds, (), fits)
    assert fits(found)
    assert found == {name: min(bounds[name], most[name]) for name in bounds}


@given(st.dictionaries(st.sampled_from("abc"), sizes), sizes)
def test_bounds_stay_when_nothing_fits(bounds: dict[str, int], wish: int) -> None:
    assert largest_fitting(bounds | {"w": wish}, {"w"}, lambda _: False) == bounds | {"w": wish}
