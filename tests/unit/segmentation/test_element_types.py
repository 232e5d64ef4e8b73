"""Element types at a cut, one model each: halves, eight bits, packed integers, strings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.support.cutting import RNG, ROWS, check, cut
from tests.support.models import (
    WIDTH,
    floats,
    model_of,
    row_feeds,
    value,
)
from wire.errors import InvalidModel


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
