"""The odd corners of ONNX that a cut must get right, one model each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from orchestrator.segmentation.checking.verify import run_chain
from tests.support.cutting import RNG, ROWS, check, cut, graph_of, relu
from tests.support.models import (
    WIDTH,
    body,
    floats,
    mlp,
    model_of,
    row_feeds,
    scan,
    shape_arithmetic,
    tensor,
    value,
)
from wire.errors import UserError


def test_an_input_that_is_an_output_passes_every_cut_and_enters_no_graph(tmp_path: Path) -> None:
    model = model_of(
        [relu("x", "a"), relu("a", "b")],
        [value("x", ROWS), value("z", ROWS)],
        [value("b", ROWS), value("z", ROWS)],
    )
    feeds = {**row_feeds(), "z": floats(RNG, 3, WIDTH)}
    manifest = check(model, tmp_path, feeds, segments=2)
    assert [cut.names for cut in manifest.cuts] == [("x", "z"), ("z", "a"), ("b", "z")]
    assert all("z" not in segment.inputs + segment.outputs for segment in manifest.segments)
    assert [t.passing for t in manifest.cuts[1].tensors] == [True, False]


def test_an_unused_input_is_named_but_never_sent(tmp_path: Path) -> None:
    model = model_of(
        [relu("x", "y")], [value("x", ROWS), value("unused", ["n"])], [value("y", ROWS)]
    )
    manifest = check(model, tmp_path, {**row_feeds(), "unused": floats(RNG, 2)})
    assert [tensor.name for tensor in manifest.inputs] == ["x", "unused"]
    assert manifest.cuts[0].names == ("x",)


def test_empty_optional_names_stay_empty(tmp_path: Path) -> None:
    clip = helper.make_node("Clip", ["a", "", "top"], ["y"])
    weights = {"top": np.array(0.2, np.float32)}
    model = model_of([relu("x", "a"), clip], [value("x", ROWS)], [value("y", ROWS)], weights)
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert list(graph_of(tmp_path, manifest, 1).node[0].input) == ["a", "", "top"]


def test_several_outputs_of_one_node_cross_a_cut(tmp_path: Path) -> None:
    parts = ["p0", "p1", "p2"]
    nodes = [
        helper.make_node("Split", ["x"], parts, axis=1, num_outputs=3),
        helper.make_node("Concat", ["p2", "p0"], ["y"], axis=1),
        relu("p1", "z"),
    ]
    outputs = [value("y", ["batch", 16]), value("z", ["batch", 8])]
    model = model_of(nodes, [value("x", ROWS)], outputs, opset=18)
    manifest = check(model, tmp_path, row_feeds(), cut_after=("p0",))
    assert manifest.cuts[1].names == ("p0", "p1", "p2")


def test_an_unused_output_of_a_node_does_not_cross(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["x"], ["p0", "p1"], axis=1, num_outputs=2),
        relu("p0", "y"),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", ["batch", 12])], opset=18)
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert manifest.cuts[1].names == ("p0",)


def test_zero_sized_tensors_are_carried(tmp_path: Path) -> None:
    nodes = [relu("x", "a"), helper.make_node("Concat", ["a", "none"], ["y"], axis=0)]
    weights = {"none": np.zeros((0, WIDTH), np.float32)}
    model = model_of(nodes, [value("x", ROWS)], [value("y", ["all", WIDTH])], weights)
    check(model, tmp_path, row_feeds(0), segments=2)


def test_constants_of_rank_zero_stay_of_rank_zero(tmp_path: Path) -> None:
    nodes = [
        relu("x", "a"),
        helper.make_node("Constant", [], ["half"], value=tensor("", np.array(0.5, np.float32))),
        helper.make_node("Mul", ["a", "half"], ["b"]),
        helper.make_node("Mul", ["b", "third"], ["y"]),
    ]
    weights = {"third": np.array(0.3, np.float32)}
    model = model_of(nodes, [value("x", ROWS)], [value("y", ROWS)], weights)
    manifest = check(model, tmp_path, row_feeds(), segments=3)
    assert list(graph_of(tmp_path, manifest, 2).initializer[0].dims) == []


def test_an_initializer_that_is_an_output_is_given(tmp_path: Path) -> None:
    weights = {"w": floats(RNG, WIDTH, WIDTH)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), relu("a", "y")]
    outputs = [value("y", ROWS), value("w", [WIDTH, WIDTH])]
    model = model_of(nodes, [value("x", ROWS)], outputs, weights)
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert manifest.cuts[1].names == ("a",)


def test_an_output_computed_from_constants_alone_crosses_no_cut(tmp_path: Path) -> None:
    weights = {"w": floats(RNG, WIDTH, WIDTH)}
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["a"]),
        relu("a", "y"),
    ]
    outputs = [value("t", [WIDTH, WIDTH]), value("y", ROWS)]
    model = model_of(nodes, [value("x", ROWS)], outputs, weights)
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert manifest.cuts[1].names == ("a",)


@pytest.mark.parametrize("ir_version", [3, 4])
def test_an_initializer_that_is_also_an_input_is_a_constant(
    ir_version: int, tmp_path: Path
) -> None:
    model = mlp()
    model.ir_version = ir_version
    for weight in model.graph.initializer:
        model.graph.input.append(value(weight.name, list(weight.dims)))
    manifest = check(model, tmp_path, row_feeds(), segments=3)
    assert [tensor.name for tensor in manifest.inputs] == ["x"]
    assert manifest.ir_version == 4
    assert any("fixed" in note for note in manifest.notes) == (ir_version == 4)


def test_nodes_in_any_order_are_sorted(tmp_path: Path) -> None:
    model = mlp()
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    manifest = cut(model, tmp_path, segments=4)
    straight = tmp_path / "straight"
    straight.mkdir()
    assert [s.graph for s in manifest.segments] == [
        s.graph for s in cut(mlp(), straight, segments=4).segments
    ]


def test_shapes_cross_a_cut_rather_than_what_they_are_the_shape_of(tmp_path: Path) -> None:
    manifest = cut(shape_arithmetic(), tmp_path, cut_after=("r0",))
    crossing = manifest.cuts[1]
    assert "x" not in crossing.names
    assert set(crossing.names) == {"shape", "r0"}


def test_a_mask_is_computed_again_where_that_makes_fewer_bytes_cross(tmp_path: Path) -> None:
    dims = ["batch", "sequence"]
    nodes = [
        helper.make_node("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m", "axis"], ["column"]),
        helper.make_node("Mul", ["column", "m"], ["square"]),
        helper.make_node("MatMul", ["square", "x"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("MatMul", ["square", "b"], ["y"]),
    ]
    cube = ["batch", "sequence", WIDTH]
    model = model_of(
        nodes,
        [value("x", cube), value("mask", dims, TensorProto.INT64)],
        [value("y", cube)],
        {"axis": np.array([2], np.int64)},
    )
    feeds = {"x": floats(RNG, 1, 5, WIDTH), "mask": np.array([[1, 1, 1, 0, 0]])}
    manifest = check(model, tmp_path, feeds, cut_after=("b",))
    assert manifest.cuts[1].names == ("mask", "b")


def test_a_random_operator_is_noted_and_not_computed_twice(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomNormal", [], ["noise"], shape=[1, WIDTH]),
        helper.make_node("Add", ["x", "noise"], ["a"]),
        helper.make_node("Sub", ["a", "noise"], ["y"]),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", ROWS)])
    manifest = cut(model, tmp_path, segments=3)
    assert any("not reproducible" in note and "RandomNormal" in note for note in manifest.notes)
    makers = [s for s in manifest.segments if "RandomNormal" in s.operators]
    assert len(makers) == 1
    feeds = row_feeds()
    made = run_chain(tmp_path / "blobs", manifest, feeds, exact=True)["y"]
    assert np.allclose(made, feeds["x"], atol=1e-6)


def test_sequences_never_cross_a_cut(tmp_path: Path) -> None:
    nodes = [
        relu("x", "a"),
        helper.make_node("SequenceConstruct", ["a", "x"], ["sequence"]),
        helper.make_node("ConcatFromSequence", ["sequence"], ["b"], axis=0),
        relu("b", "y"),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", ["all", WIDTH])])
    manifest = check(model, tmp_path, row_feeds(), segments=3)
    crossing = [cut.names for cut in manifest.cuts]
    assert crossing == [("x",), ("x", "a"), ("b",), ("y",)]


def test_contributed_operators_have_types_behind_them(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("FastGelu", ["m"], ["g"], domain="com.microsoft"),
        helper.make_node("MatMul", ["g", "w"], ["n"]),
        helper.make_node("QuickGelu", ["n"], ["y"], domain="com.microsoft"),
    ]
    weights = {"w": floats(RNG, WIDTH, WIDTH)}
    model = model_of(
        nodes, [value("x", ROWS)], [value("y", ROWS)], weights, domains=["com.microsoft"]
    )
    manifest = check(model, tmp_path, row_feeds(), segments=4)
    assert [cut.tensors[0].dims[-1] for cut in manifest.cuts] == [str(WIDTH)] * 5
    assert manifest.segments[1].operators == ("com.microsoft:FastGelu",)
    assert manifest.segments[1].opsets["com.microsoft"] == 1


def test_optionals_never_cross_a_cut(tmp_path: Path) -> None:
    nodes = [
        relu("x", "a"),
        helper.make_node("Optional", ["a"], ["wrapped"]),
        helper.make_node("OptionalGetElement", ["wrapped"], ["b"]),
        relu("b", "y"),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", ROWS)], opset=18)
    manifest = check(model, tmp_path, row_feeds(), segments=3)
    assert [cut.names for cut in manifest.cuts] == [("x",), ("a",), ("b",), ("y",)]
    assert any("wrapped" in note for note in manifest.notes)
    with pytest.raises(UserError, match="optional"):
        cut(model, tmp_path, cut_after=("wrapped",))


def test_a_function_that_only_a_body_uses_is_kept(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    function = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], opsets
    )
    arms = {
        key: body(key, [helper.make_node(*call, [key], domain=domain)], [value(key, None)])
        for key, call, domain in (
            ("then_branch", ("Twice", ["m"]), "local"),
            ("else_branch", ("Neg", ["m"]), ""),
        )
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("ReduceSum", ["m"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["chosen"], **arms),
        relu("chosen", "y"),
    ]
    weights = {"w": floats(RNG, WIDTH, WIDTH), "zero": np.array(0, np.float32)}
    model = model_of(
        nodes,
        [value("x", ROWS)],
        [value("y", ROWS)],
        weights,
        functions=[function],
        domains=["local"],
    )
    for seed in range(4):
        check(model, tmp_path, row_feeds(seed=seed), segments=5)


def test_tables_read_by_row_are_named(tmp_path: Path) -> None:
    weights = {"words": floats(RNG, 3000, 8), "places": floats(RNG, 600, 8)}
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["w"], axis=0),
        helper.make_node("Gather", ["places", "ids"], ["p"], axis=0),
        helper.make_node("Add", ["w", "p"], ["y"]),
    ]
    dims = ["batch", "sequence"]
    model = model_of(
        nodes, [value("ids", dims, TensorProto.INT64)], [value("y", [*dims, 8])], weights
    )
    manifest = check(model, tmp_path, {"ids": np.array([[5, -1, 7]])})
    assert manifest.segments[0].row_tables == ("words",)


def test_a_tiny_model_is_one_segment(tmp_path: Path) -> None:
    assert len(cut(scan(), tmp_path).segments) == 1


def test_a_classifier_is_cut_behind_the_row_that_it_takes(tmp_path: Path) -> None:
    wide, cube = 256, ["batch", "sequence", 256]
    nodes, weights = [], {"first": np.array(0, np.int64)}
    last = "x"
    for index in range(4):
        weights[f"w{index}"] = floats(RNG, wide, wide)
        nodes.append(helper.make_node("MatMul", [last, f"w{index}"], [f"m{index}"]))
        last = f"m{index}"
    weights["head"] = floats(RNG, wide, 9 * wide)
    nodes.append(helper.make_node("Gather", [last, "first"], ["row"], axis=1))
    nodes.append(helper.make_node("MatMul", ["row", "head"], ["y"]))
    model = model_of(nodes, [value("x", cube)], [value("y", ["batch", 9 * wide])], weights)
    feeds = {"x": floats(RNG, 1, 4, wide)}
    manifest = check(model, tmp_path, feeds, max_segment_nbytes=9 * wide * wide * 4)
    assert manifest.cuts[-2].names == ("row",)


def test_documentation_does_not_travel(tmp_path: Path) -> None:
    model = mlp()
    for node in model.graph.node:
        node.doc_string = "where this came from " * 100
    assert all(segment.graph.nbytes < 2000 for segment in cut(model, tmp_path).segments)


def test_a_model_for_a_later_format_is_written_as_ir_10(tmp_path: Path) -> None:
    model = mlp()
    model.ir_version = 11
    manifest = cut(model, tmp_path)
    data = (tmp_path / "blobs" / manifest.segments[0].graph.digest).read_bytes()
    assert onnx.ModelProto.FromString(data).ir_version == manifest.ir_version == 10
