"""With graph optimisation on, a segment is fused as the whole model is, or less.

Models whose weights are quantised, with everything that a DequantizeLinear can share with another
user: in the whole, ONNX Runtime leaves those apart, and in a segment the other user is missing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from orchestrator.segmentation.checking.comparing import compared
from orchestrator.segmentation.checking.verify import compare, identical, run_chain, run_whole
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing import writer
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import floats, model_of, save, value
from wire.manifest import Manifest

WIDTH, BLOCK = 64, 32
LIMIT = 1.01e-5  # 84 times the smallest step of float32 at 1
RNG = np.random.default_rng(11)
KINDS = {
    "int4": (TensorProto.INT4, -8, 8),
    "uint4": (TensorProto.UINT4, 0, 16),
    "int8": (TensorProto.INT8, -127, 128),
    "uint8": (TensorProto.UINT8, 0, 256),
}
FUSED = "MatMulNBits"  # what rounds activations


@dataclass(frozen=True)
class Quantised:
    """Two products with weights of `kind`, which share `shared`: everything from the
    DequantizeLinear on, or one of what it takes, or nothing. One scale for each `block` of rows
    and each column, or (0) for each column."""

    kind: str
    shared: str
    block: int
    product: str = "MatMul"
    zero_points: bool = True

    def __str__(self) -> str:
        return f"{self.kind}, {self.shared} shared, blocks of {self.block}, {self.product}"


def two_products(case: Quantised) -> onnx.ModelProto:
    """x -> product -> Tanh -> product -> y, all [batch, WIDTH]."""
    weights: dict[str, onnx.TensorProto] = {}

    def named(what: str, at: int, made: onnx.TensorProto) -> str:
        name = what if case.shared == what else f"{what}{at}"
        made.name = name
        weights.setdefault(name, made)
        return name

    def dequantise(at: int) -> onnx.NodeProto:
        taken = [named("weights", at, _integers(case)), named("scale", at, _scales(case))]
        if case.zero_points:
            taken.append(named("zero_point", at, _zeros(case)))
        how = {"axis": 0, "block_size": case.block} if case.block else {"axis": 1}
        return helper.make_node("DequantizeLinear", taken, [f"d{at}"], **how)

    second = "d0" if case.shared == "everything" else "d1"
    nodes = [
        dequantise(0),
        helper.make_node(case.product, ["x", "d0"], ["m"]),
        helper.make_node("Tanh", ["m"], ["t"]),
        *([] if second == "d0" else [dequantise(1)]),
        helper.make_node(case.product, ["t", second], ["y"]),
    ]
    rows = ["batch", WIDTH]
    made = model_of(nodes, [value("x", rows)], [value("y", rows)], {}, opset=21)
    made.graph.initializer.extend(weights.values())
    return made


def _integers(case: Quantised) -> onnx.TensorProto:
    element, low, high = KINDS[case.kind]
    numbers = RNG.integers(low, high, WIDTH * WIDTH).tolist()
    return helper.make_tensor("", element, [WIDTH, WIDTH], numbers)


def _scale_dims(case: Quantised) -> list[int]:
    return [WIDTH // case.block, WIDTH] if case.block else [WIDTH]


def _scales(case: Quantised) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(
        RNG.uniform(0.002, 0.02, _scale_dims(case)).astype(np.float32)
    )


def _zeros(case: Quantised) -> onnx.TensorProto:
    dims = _scale_dims(case)
    return helper.make_tensor("", KINDS[case.kind][0], dims, [0] * int(np.prod(dims)))


def cut(path: Path, *after: str) -> tuple[Path, Manifest]:
    folder = path.parent / "-".join(("blobs", *after))
    folder.mkdir()
    return folder, segment(
        path, "model", FolderSink(folder), options=SegmentOptions(cut_after=after)
    )


def operators(path: Path, scratch: Path) -> Counter[str]:
    """Of what ONNX Runtime makes of a graph with everything on."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(scratch)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    made = onnx.load(scratch, load_external_data=False)
    return Counter(node.op_type for node in made.graph.node)


def fused_counts(path: Path, folder: Path, manifest: Manifest) -> tuple[int, int]:
    """How many products round activations, in the whole and in the segments."""
    scratch = path.parent / "optimised.onnx"
    graphs = [folder / one.graph.digest for one in manifest.segments]
    parts = sum(operators(graph, scratch)[FUSED] for graph in graphs)
    return operators(path, scratch)[FUSED], parts


CASES = [
    Quantised(kind, shared, block, product_)
    for kind, shared, block, product_ in product(
        KINDS, ("everything", "weights", "scale", "nothing"), (0, BLOCK), ("MatMul", "Gemm")
    )
    if block or kind in ("int8", "uint8")
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_segment_rounds_activations_only_where_the_whole_model_does(
    case: Quantised, tmp_path: Path
) -> None:
    path = save(two_products(case), tmp_path / "model.onnx")
    folder, manifest = cut(path, "t")
    feeds = {"x": floats(RNG, 3, WIDTH)}
    whole, parts = fused_counts(path, folder, manifest)
    assert parts <= whole
    assert identical(
        run_chain(folder, manifest, feeds, exact=True), run_whole(path, feeds, exact=True)
    )
    fast = run_whole(path, feeds, exact=False)
    assert compare(run_chain(folder, manifest, feeds, exact=False), fast) <= LIMIT


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_share_nothing_or_a_zero_point_are_fused_as_in_the_whole(
    kind: str, tmp_path: Path
) -> None:
    for shared in ("nothing", "zero_point"):
        folder = tmp_path / shared
        folder.mkdir()
        path = save(two_products(Quantised(kind, shared, BLOCK)), folder / "model.onnx")
        blobs, manifest = cut(path, "t")
        assert fused_counts(path, blobs, manifest) == (2, 2)


def test_a_table_that_is_also_the_last_layer_is_fused_no_further(tmp_path: Path) -> None:
    """Tied embeddings of 4 bits: rows of the table at first, and its transpose at last."""
    case = Quantised("uint4", "everything", BLOCK)
    table = _integers(case)
    table.name = "table"
    scale = _scales(Quantised("uint4", "everything", BLOCK))
    scale = onnx.numpy_helper.from_array(
        np.ascontiguousarray(onnx.numpy_helper.to_array(scale).T), "scale"
    )
    nodes = [
        helper.make_node("DequantizeLinear", ["table", "scale"], ["words"], axis=1, block_size=32),
        helper.make_node("Gather", ["words", "ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "w"], ["m"]),
        helper.make_node("Tanh", ["m"], ["t"]),
        helper.make_node("Transpose", ["words"], ["head"]),
        helper.make_node("MatMul", ["t", "head"], ["y"]),
    ]
    ids = value("ids", ["n"], TensorProto.INT64)
    out = value("y", ["n", WIDTH])
    made = model_of(nodes, [ids], [out], {"w": floats(RNG, WIDTH, WIDTH)}, opset=21)
    made.graph.initializer.extend([table, scale])
    path = save(made, tmp_path / "model.onnx")
    feeds = {"ids": np.arange(7)}
    for after in ("m", "t"):
        folder, manifest = cut(path, after)
        whole, parts = fused_counts(path, folder, manifest)
        assert parts <= whole
        fast = run_whole(path, feeds, exact=False)
        assert compare(run_chain(folder, manifest, feeds, exact=False), fast) <= LIMIT


def quantised_on_both_sides() -> onnx.ModelProto:
    """x and the product are rounded to int8, as ONNX Runtime's own tool writes it; the weights
    have a scale for each column."""
    case = Quantised("int8", "nothing", 0)
    weights, scale, zero = _integers(case), _scales(case), _zeros(case)
    weights.name, scale.name, zero.name = "w", "ws", "wz"
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1),
        helper.make_node("MatMul", ["xd", "wd"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["mq"]),
        helper.make_node("DequantizeLinear", ["mq", "s", "z"], ["y"]),
    ]
    rows = ["batch", WIDTH]
    constants = {"s": np.array(0.02, np.float32), "z": np.array(3, np.int8)}
    made = model_of(nodes, [value("x", rows)], [value("y", rows)], constants, opset=21)
    made.graph.initializer.extend([weights, scale, zero])
    return made


@pytest.mark.parametrize("after", [("xq",), ("xd",), ("m",), ("mq",), ("xd", "m"), ("xq", "m")])
def test_a_product_that_is_cut_from_what_rounds_around_it_rounds_nothing_else(
    after: tuple[str, ...], tmp_path: Path
) -> None:
    path = save(quantised_on_both_sides(), tmp_path / "model.onnx")
    folder, manifest = cut(path, *after)
    assert fused_counts(path, folder, manifest) == (0, 0)


def test_a_model_whose_segments_are_fused_otherwise_is_served_exactly_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As segments were before scales were kept open: off by a hundredth."""
    monkeypatch.setattr(writer, "open_scales", lambda flow, stretch: ())
    path = save(two_products(Quantised("int4", "scale", BLOCK)), tmp_path / "model.onnx")
    folder, manifest = cut(path, "t")
    found = compared(path, manifest, folder, SegmentOptions())
    assert found.difference > 1e-3
    assert found.limit <= LIMIT
    assert found.manifest.exact_only
    assert found.manifest.notes[-1].startswith("served exactly only: with graph optimisation on")


def test_a_model_whose_segments_are_fused_alike_is_served_in_both_modes(tmp_path: Path) -> None:
    path = save(two_products(Quantised("int4", "scale", BLOCK)), tmp_path / "model.onnx")
    folder, manifest = cut(path, "t")
    found = compared(path, manifest, folder, SegmentOptions())
    assert found.difference <= found.limit <= LIMIT
    assert not found.manifest.exact_only
    assert found.manifest.reference is not None
