"""Where weights lie: beside the graph, shared, packed, inline, and never whole in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.cutting import RNG, ROWS, check, cut, relu
from tests.support.models import (
    WIDTH,
    body,
    conditional,
    floats,
    mlp,
    model_of,
    row_feeds,
    save,
    tensor,
    tied,
    value,
)
from wire.manifest import BlobRef


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
