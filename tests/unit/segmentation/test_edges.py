"""The odd corners of ONNX that a cut must get right, one model each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from orchestrator.segmentation.checking.verify import Feeds, identical, run_chain, run_whole
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import (
    WIDTH,
    body,
    conditional,
    floats,
    mlp,
    model_of,
    row_feeds,
    save,
    scan,
    shape_arithmetic,
    tensor,
    tied,
    value,
)
from wire.errors import InvalidModel, UserError
from wire.manifest import BlobRef, Manifest
from wire.record import decode, encode

RNG = np.random.default_rng(7)
ROWS = ["batch", WIDTH]


def cut(model: onnx.ModelProto, folder: Path, **wishes: Any) -> Manifest:
    path = save(model, folder / "model.onnx")
    return segment(path, "test", FolderSink(folder / "blobs"), options=SegmentOptions(**wishes))


def check(model: onnx.ModelProto, folder: Path, feeds: Feeds, **wishes: Any) -> Manifest:
    """The manifest of `model`, whose chain gives the bits of the whole."""
    manifest = cut(model, folder, **wishes)
    whole = run_whole(folder / "model.onnx", feeds, exact=True)
    assert identical(run_chain(folder / "blobs", manifest, feeds, exact=True), whole)
    assert decode(Manifest, encode(manifest)) == manifest
    return manifest


def graph_of(folder: Path, manifest: Manifest, index: int) -> onnx.GraphProto:
    data = (folder / "blobs" / manifest.segments[index].graph.digest).read_bytes()
    return onnx.ModelProto.FromString(data).graph


def relu(source: str, target: str) -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [target])


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


def test_a_weight_that_segments_share_is_stored_once(tmp_path: Path) -> None:
    manifest = cut(tied(), tmp_path, cut_after=("r0", "r1", "r2"))
    blobs = [segment.weights for segment in manifest.segments]
    assert blobs[0] == blobs[2]
    assert blobs[1] == blobs[3]
    assert sum(blob.nbytes for blob in {b for refs in blobs for b in refs}) == 2 * WIDTH**2 * 4


def test_equal_weights_in_one_segment_share_their_bytes(tmp_path: Path) -> None:
    (only,) = cut(tied(), tmp_path, segments=1).segments
    offsets = {spec.name: spec.offset for spec in only.weight_specs}
    assert offsets["left"] == offsets["right"] != offsets["table"]
    assert only.weight_nbytes == 2 * WIDTH**2 * 4


def test_weights_lie_at_multiples_of_64_and_hold_the_true_bytes(tmp_path: Path) -> None:
    weights = {"a": floats(RNG, 263, 3), "b": floats(RNG, 3, 401), "c": floats(RNG, 401, 5)}
    names = ["x", "m0", "m1", "y"]
    nodes = [
        helper.make_node("MatMul", [names[i], w], [names[i + 1]]) for i, w in enumerate(weights)
    ]
    model = model_of(nodes, [value("x", ["n", 263])], [value("y", ["n", 5])], weights)
    (only,) = check(model, tmp_path, {"x": floats(RNG, 2, 263)}).segments
    blob = (tmp_path / "blobs" / only.weights[0].digest).read_bytes()
    assert len(only.weight_specs) == 3
    for spec in only.weight_specs:
        assert spec.offset % 64 == 0
        assert blob[spec.offset : spec.offset + spec.nbytes] == weights[spec.name].tobytes()


def test_small_tensors_and_integer_lists_stay_in_the_graph(tmp_path: Path) -> None:
    weights = {
        "indices": np.arange(400, dtype=np.int64) % WIDTH,
        "table": floats(RNG, WIDTH, WIDTH),
        "bias": floats(RNG, WIDTH),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "table"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["a"]),
        helper.make_node("Gather", ["a", "indices"], ["y"], axis=1),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", ["batch", 400])], weights)
    manifest = check(model, tmp_path, row_feeds())
    assert [spec.name for spec in manifest.segments[0].weight_specs] == ["table"]


def test_large_weights_never_reach_the_sink_in_one_piece(tmp_path: Path) -> None:
    wide = 1100
    weights = {"w": floats(RNG, wide, wide)}
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = model_of([node], [value("x", ["n", wide])], [value("y", ["n", wide])], weights)
    store, largest = FolderSink(tmp_path / "blobs"), []

    def sink(chunks: Iterator[bytes]) -> BlobRef:
        def watched() -> Iterator[bytes]:
            for chunk in chunks:
                largest.append(len(chunk))
                yield chunk

        return store(watched())

    heard: list[tuple[int, int]] = []
    segment(
        save(model, tmp_path / "model.onnx"),
        "test",
        sink,
        progress=lambda done, total: heard.append((done, total)),
    )
    assert max(largest) <= 1 << 20
    assert heard[-1] == (wide * wide * 4, wide * wide * 4)


def test_weights_inside_bodies_leave_the_graph(tmp_path: Path) -> None:
    manifest = check(conditional(), tmp_path, row_feeds())
    names = {spec.name for spec in manifest.segments[0].weight_specs}
    assert len(names) == 3
    assert max(segment.graph.nbytes for segment in manifest.segments) < 2000


@pytest.mark.parametrize(("weight", "use"), [(w, u) for u in range(4) for w in range(u + 1)])
def test_weights_deep_inside_bodies_are_packed_as_in_the_whole(
    weight: int, use: int, tmp_path: Path
) -> None:
    x = {"x": floats(RNG, 1, WIDTH)}  # one row: there packing shows in the last bits
    manifest = check(nested(weight, use), tmp_path, x)
    stays = weight > 0 and use > 1 and use - weight < 2
    assert bool(manifest.segments[0].weight_nbytes) != stays


def nested(weight: int, use: int) -> onnx.ModelProto:
    """Ifs inside each other: a weight that lies `weight` deep is used `use` deep."""
    nodes: list[onnx.NodeProto] = []
    inner: dict[str, NDArray[Any]] = {}  # the weights of the graph one level further in
    for level in range(use, -1, -1):
        output = f"o{level}"
        if level == use:
            nodes = [helper.make_node("MatMul", ["x", "w"], [output])]
        else:
            other = [helper.make_node("Identity", ["x"], [f"i{level}"])]
            nodes = [
                helper.make_node(
                    "If",
                    ["p"],
                    [output],
                    then_branch=body(f"b{level}", nodes, [value(f"o{level + 1}", None)], (), inner),
                    else_branch=body(f"e{level}", other, [value(f"i{level}", None)]),
                )
            ]
        inner = {"w": floats(RNG, WIDTH, WIDTH)} if level == weight else {}
    first = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Less", ["s", "big"], ["p"]),
    ]
    weights = {**inner, "big": np.array(1e9, np.float32)}
    return model_of([*first, *nodes], [value("x", ROWS)], [value("o0", ROWS)], weights)


def test_a_large_weight_that_a_body_returns_is_handed_over(tmp_path: Path) -> None:
    def branch(name: str) -> onnx.GraphProto:
        weight = tensor("w", floats(RNG, WIDTH, WIDTH))
        return helper.make_graph([], name, [], [value("w", [WIDTH, WIDTH])], [weight])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["p"]),
        helper.make_node("If", ["p"], ["w"], then_branch=branch("a"), else_branch=branch("b")),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    for index, key in ((0, "w_a"), (1, "w_b")):
        arm = nodes[2].attribute[index].g
        arm.initializer[0].name = arm.output[0].name = key
    weights = {"zero": np.array(0, np.float32)}
    model = model_of(nodes, [value("x", ROWS)], [value("y", ROWS)], weights)
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert manifest.segments[0].weight_nbytes >= 2 * WIDTH**2 * 4


def test_a_large_constant_node_becomes_a_weight(tmp_path: Path) -> None:
    constant = tensor("", floats(RNG, WIDTH, WIDTH))
    nodes = [
        helper.make_node("Constant", [], ["w"], value=constant),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", ROWS)])
    manifest = check(model, tmp_path, row_feeds())
    assert manifest.segments[0].weight_nbytes == WIDTH**2 * 4


def test_weights_in_typed_fields_are_stored_raw(tmp_path: Path) -> None:
    model = mlp()
    array = floats(RNG, WIDTH, WIDTH)
    model.graph.initializer[0].CopyFrom(
        helper.make_tensor("w0", TensorProto.FLOAT, array.shape, array.ravel().tolist())
    )
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert sum(len(s.weight_specs) for s in manifest.segments) == 3


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


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(TensorProto.BFLOAT16, ml_dtypes.bfloat16), (TensorProto.FLOAT16, np.float16)],
)
def test_half_precision_crosses_cuts(kind: int, dtype: Any, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=kind),
        helper.make_node("Concat", ["a", "w"], ["b"], axis=0),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    weights: dict[str, NDArray[Any]] = {"w": floats(RNG, 30, WIDTH).astype(dtype)}
    model = model_of(nodes, [value("x", ROWS)], [value("y", ["all", WIDTH])], weights)
    manifest = check(model, tmp_path, row_feeds(), segments=3)
    assert manifest.cuts[1].tensors[0].element == kind
    assert manifest.segments[1].weight_nbytes == 30 * WIDTH * 2
    assert manifest.notes == ()


def halves() -> onnx.ModelProto:
    """Sums of float16 that a runtime without kernels for them computes as float32 in one go, and
    a Concat in between, which every runtime does on float16."""
    nodes = [helper.make_node("Cast", ["x"], ["h0"], to=TensorProto.FLOAT16)]
    nodes += [helper.make_node("Add", [f"h{i}", "w"], [f"h{i + 1}"]) for i in range(4)]
    nodes += [
        helper.make_node("Concat", ["h4", "h4"], ["joined"], axis=0),
        helper.make_node("Add", ["joined", "w"], ["sum"]),
        helper.make_node("Mul", ["sum", "w"], ["product"]),
        helper.make_node("Cast", ["product"], ["y"], to=TensorProto.FLOAT),
    ]
    weights: dict[str, NDArray[Any]] = {"w": floats(RNG, WIDTH).astype(np.float16)}
    return model_of(nodes, [value("x", ROWS)], [value("y", ["all", WIDTH])], weights)


def test_float16_that_the_runtime_never_rounds_crosses_as_float32(tmp_path: Path) -> None:
    names = ("h1", "h2", "h4", "joined", "sum")
    for after in [*((name,) for name in names), names]:
        manifest = check(halves(), tmp_path, row_feeds(), cut_after=after)
        assert len(manifest.segments) == len(after) + 1
    assert [cut.tensors[0].kind.name for cut in manifest.cuts[1:-1]] == ["FLOAT"] * 5
    assert manifest.notes == ()


def test_a_model_whose_kernels_are_missing_is_refused_by_name(tmp_path: Path) -> None:
    kind = TensorProto.UINT8
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.BFLOAT16),
        helper.make_node("Tanh", ["f"], ["y"]),
    ]
    model = model_of(nodes, [value("x", ROWS, kind)], [value("y", ROWS, TensorProto.BFLOAT16)])
    with pytest.raises(InvalidModel, match="no kernel for Tanh"):
        cut(model, tmp_path)


EIGHT_BITS = {
    TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
}


@pytest.mark.parametrize("kind", EIGHT_BITS)
def test_float8_crosses_cuts(kind: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=kind),
        helper.make_node("Cast", ["a"], ["y"], to=TensorProto.FLOAT),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", ROWS)], opset=19, ir_version=9)
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert manifest.cuts[1].tensors[0].element == kind
    assert manifest.cuts[1].bound_nbytes == WIDTH


def test_quantised_layers_are_exact_at_every_cut(tmp_path: Path) -> None:
    """QDQ around a product, and a product that quantises its input as it comes."""
    weights: dict[str, NDArray[Any]] = {
        "scale": np.array(0.05, np.float32),
        "zero": np.array(3, np.int8),
        "w": RNG.integers(-100, 100, (WIDTH, WIDTH)).astype(np.int8),
        "w_zero": np.array(0, np.int8),
        "v": RNG.integers(0, 200, (WIDTH, WIDTH)).astype(np.uint8),
        "v_zero": np.array(100, np.uint8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "scale", "w_zero"], ["dw"]),
        helper.make_node("MatMul", ["d", "dw"], ["m"]),
        helper.make_node("DynamicQuantizeLinear", ["m"], ["mq", "m_scale", "m_zero"]),
        helper.make_node("MatMulInteger", ["mq", "v", "m_zero", "v_zero"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "m_scale"], ["y"]),
    ]
    model = model_of(nodes, [value("x", ROWS)], [value("y", ROWS)], weights)
    for after in [("q",), ("d",), ("m",), ("mq",), ("i",), ("f",), ("q", "d", "m", "mq", "i", "f")]:
        manifest = check(model, tmp_path, row_feeds(), cut_after=after)
        assert len(manifest.segments) == len(after) + 1


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


def test_packed_integers_cross_cuts(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    zero = helper.make_tensor("zero", TensorProto.INT4, [], [1])
    model = model_of(
        nodes,
        [value("x", ROWS)],
        [value("y", ROWS)],
        {"scale": np.array(0.1, np.float32)},
        opset=21,
        ir_version=10,
    )
    model.graph.initializer.append(zero)
    manifest = check(model, tmp_path, row_feeds(), segments=2)
    assert manifest.cuts[1].tensors[0].element == TensorProto.INT4
    assert manifest.cuts[1].tensors[0].bound_nbytes == WIDTH // 2


def test_strings_cross_cuts_and_stay_inline(tmp_path: Path) -> None:
    words = np.array([f"word number {n}" for n in range(200)], object)
    nodes = [
        helper.make_node("Gather", ["words", "i"], ["picked"], axis=0),
        helper.make_node("StringConcat", ["picked", "end"], ["ended"]),
        helper.make_node("StringConcat", ["ended", "end"], ["y"]),
    ]
    weights = {"words": words, "end": np.array(["!"], object)}
    model = model_of(
        nodes,
        [value("i", ["n"], TensorProto.INT64)],
        [value("y", ["n"], TensorProto.STRING)],
        weights,
        opset=20,
    )
    manifest = check(model, tmp_path, {"i": np.array([3, 0, 199])}, segments=2)
    assert manifest.cuts[1].names == ("ended",)
    assert all(not segment.weights for segment in manifest.segments)


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


def test_a_transposed_weight_is_turned_by_the_runtime_as_in_the_whole(tmp_path: Path) -> None:
    # Storing it turned would make it a constant of the MatMul, which ONNX Runtime packs and
    # then multiplies in another order: other last bits than the whole model's.
    table = floats(RNG, 1000, 300)
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Tanh", ["rows"], ["tanh"]),
        helper.make_node("Transpose", ["table"], ["head"], perm=[1, 0]),
        helper.make_node("MatMul", ["tanh", "head"], ["y"]),
    ]
    ids = value("ids", ["n"], TensorProto.INT64)
    model = model_of(nodes, [ids], [value("y", ["n", 1000])], {"table": table})
    manifest = check(model, tmp_path, {"ids": np.array([1, 0, 999])}, cut_after=("tanh",))
    assert manifest.segments[0].weights == manifest.segments[1].weights


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize("typed", [True, False])
def test_packed_weights_leave_the_graph_as_they_are(kind: int, typed: bool, tmp_path: Path) -> None:
    numbers = RNG.integers(0, 8, 64 * 64)
    weight = helper.make_tensor("w", kind, [64, 64], numbers)
    if not typed:
        packed = (numbers[0::2] | numbers[1::2] << 4).astype(np.uint8).tobytes()
        weight = helper.make_tensor("w", kind, [64, 64], packed, raw=True)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["m"]),
        relu("m", "y"),
    ]
    weights = {"scale": np.array(0.1, np.float32)}
    model = model_of(
        nodes, [value("x", ["n", 64])], [value("y", ["n", 64])], weights, opset=21, ir_version=10
    )
    model.graph.initializer.append(weight)
    manifest = check(model, tmp_path, {"x": floats(RNG, 2, 64)}, segments=2)
    assert manifest.segments[0].weight_nbytes == 64 * 64 // 2


def test_weights_beside_the_model_give_the_same_segments(tmp_path: Path) -> None:
    inside = cut(conditional(), tmp_path, segments=3)
    beside = tmp_path / "beside"
    beside.mkdir()
    onnx.save_model(
        conditional(),
        beside / "model.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    outside = segment(
        beside / "model.onnx",
        "test",
        FolderSink(beside / "blobs"),
        options=SegmentOptions(segments=3),
    )
    assert (beside / "weights.bin").stat().st_size > WIDTH**2 * 4
    assert outside.segments == inside.segments
    assert outside.source != inside.source


def test_a_model_for_a_later_format_is_written_as_ir_10(tmp_path: Path) -> None:
    model = mlp()
    model.ir_version = 11
    manifest = cut(model, tmp_path)
    data = (tmp_path / "blobs" / manifest.segments[0].graph.digest).read_bytes()
    assert onnx.ModelProto.FromString(data).ir_version == manifest.ir_version == 10
