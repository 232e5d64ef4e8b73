"""What an ONNX file may contain, one small model for each: what is served and what is refused.

`docs/models.md` is written from this list, and the tests run it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from orchestrator.segmentation.checking.verify import Feeds
from tests.support import classical_models as classical
from tests.support.models import (
    MODELS,
    WIDTH,
    floats,
    mlp,
    model_of,
    row_feeds,
    tensor,
    value,
)

ROWS = ["batch", WIDTH]
FLOAT = TensorProto.FLOAT


@dataclass(frozen=True)
class Served:
    """A construct that is cut at every place and stays exact."""

    what: str
    make: Callable[[], onnx.ModelProto]
    feeds: Callable[[], Feeds] = row_feeds


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, outputs, **attributes)


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def chain(
    nodes: list[onnx.NodeProto], weights: dict[str, NDArray[Any]] | None = None, **more: Any
) -> onnx.ModelProto:
    """A model from `x` [batch, 24] to `y`."""
    return model_of(nodes, [value("x", ROWS)], [value("y", None)], weights, **more)


def through(kind: int, opset: int = 21) -> Callable[[], onnx.ModelProto]:
    """`x` as another type across a cut, and back."""

    def make() -> onnx.ModelProto:
        nodes = [
            node("Relu", ["x"], ["r"]),
            node("Cast", ["r"], ["other"], to=kind),
            node("Cast", ["other"], ["back"], to=FLOAT),
            node("Neg", ["back"], ["y"]),
        ]
        return chain(nodes, opset=opset, ir_version=10)

    return make


def half() -> onnx.ModelProto:
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        node("MatMul", ["h", "w"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("Relu", ["a"], ["r"]),
        node("MatMul", ["r", "w"], ["n"]),
        node("Cast", ["n"], ["y"], to=FLOAT),
    ]
    w, b = floats(rng(), WIDTH, WIDTH).astype(np.float16), floats(rng(), WIDTH).astype(np.float16)
    return chain(nodes, {"w": w, "b": b})


def qdq() -> onnx.ModelProto:
    weights: dict[str, NDArray[Any]] = {
        "s": np.array(0.05, np.float32),
        "z": np.array(0, np.int8),
        "w": rng().integers(-90, 90, (WIDTH, WIDTH)).astype(np.int8),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "s", "z"], ["dw"]),
        node("MatMul", ["d", "dw"], ["m"]),
        node("Relu", ["m"], ["y"]),
    ]
    return chain(nodes, weights)


def dynamic() -> onnx.ModelProto:
    weights: dict[str, NDArray[Any]] = {
        "w": rng().integers(0, 200, (WIDTH, WIDTH)).astype(np.uint8),
        "wz": np.array(100, np.uint8),
    }
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        node("MatMulInteger", ["q", "w", "zero", "wz"], ["i"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["f", "scale"], ["y"]),
    ]
    return chain(nodes, weights)


def words() -> onnx.ModelProto:
    nodes = [
        node("StringConcat", ["s", "end"], ["ended"]),
        node("StringConcat", ["ended", "end"], ["y"]),
    ]
    ends = {"end": np.array(["!"], object)}
    kind = TensorProto.STRING
    return model_of(nodes, [value("s", ["n"], kind)], [value("y", ["n"], kind)], ends, opset=20)


def contributed() -> onnx.ModelProto:
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("FastGelu", ["m"], ["g"], domain="com.microsoft"),
        node("QuickGelu", ["g"], ["y"], domain="com.microsoft"),
    ]
    return chain(nodes, {"w": floats(rng(), WIDTH, WIDTH)}, domains=["com.microsoft"])


def several_outputs() -> onnx.ModelProto:
    nodes = [
        node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        node("TopK", ["a", "k"], ["top", "places"], axis=1),
        node("Concat", ["b", "top"], ["y"], axis=1),
    ]
    return chain(nodes, {"k": np.array([3], np.int64)}, opset=18)


def empty_names() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["r"]), node("Clip", ["r", "", "most"], ["y"])]
    return chain(nodes, {"most": np.array(0.2, np.float32)})


def zero_sized() -> onnx.ModelProto:
    nodes = [
        node("Slice", ["x", "none", "none"], ["nothing"]),
        node("Concat", ["nothing", "x"], ["c"], axis=0),
        node("ReduceSum", ["c"], ["total"], keepdims=0),
        node("Mul", ["x", "total"], ["y"]),
    ]
    return chain(nodes, {"none": np.array([0], np.int64)})


def passed_through() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Abs", ["b"], ["y"])]
    outputs = [value(name, ROWS) for name in ("x", "a", "y")]
    return model_of(nodes, [value("x", ROWS)], outputs)


def defaulted() -> onnx.ModelProto:
    model = mlp()
    model.graph.input.append(value("w1", [WIDTH, WIDTH]))
    return model


def unused_input() -> onnx.ModelProto:
    model = mlp()
    model.graph.input.append(value("unused", ROWS))
    return model


def two_rows_feeds() -> Feeds:
    return {**row_feeds(), "unused": row_feeds()["x"]}


def large_constant() -> onnx.ModelProto:
    held = tensor("", floats(rng(), WIDTH, WIDTH))
    nodes = [
        node("Constant", [], ["big"], value=held),
        node("MatMul", ["x", "big"], ["m"]),
        node("Relu", ["m"], ["y"]),
    ]
    return chain(nodes)


def sequence() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("SequenceConstruct", ["a", "x"], ["pair"]),
        node("ConcatFromSequence", ["pair"], ["b"], axis=0),
        node("Neg", ["b"], ["y"]),
    ]
    return chain(nodes)


def optional() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Optional", ["a"], ["wrapped"]),
        node("OptionalGetElement", ["wrapped"], ["b"]),
        node("Neg", ["b"], ["y"]),
    ]
    return chain(nodes, opset=18)


def data_dependent() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("NonZero", ["r"], ["places"]),
        node("Cast", ["places"], ["f"], to=FLOAT),
        node("Neg", ["f"], ["y"]),
    ]
    return chain(nodes)


def attention() -> onnx.ModelProto:
    """As PyTorch's exporter writes a layer from opset 23 on: no attention in small pieces."""
    heads = {"q_num_heads": 4, "kv_num_heads": 4}
    weights = {name: floats(rng(), WIDTH, WIDTH) for name in ("wq", "wk", "wv", "wo")}
    weights["scale"] = np.abs(floats(rng(), WIDTH))
    nodes = [
        node("RMSNormalization", ["x", "scale"], ["n"], axis=-1),
        node("MatMul", ["n", "wq"], ["q"]),
        node("MatMul", ["n", "wk"], ["k"]),
        node("MatMul", ["n", "wv"], ["v"]),
        node("Attention", ["q", "k", "v"], ["a"], is_causal=1, **heads),
        node("MatMul", ["a", "wo"], ["o"]),
        node("Add", ["o", "x"], ["y"]),
    ]
    x = value("x", ["batch", "words", WIDTH])
    return model_of(nodes, [x], [value("y", None)], weights, opset=24, ir_version=11)


def words_feeds() -> Feeds:
    return {"x": floats(rng(), 1, 7, WIDTH)}


def sparse() -> onnx.ModelProto:
    """A weight stored as its few values and their places."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    model = chain(nodes)
    places = rng().choice(WIDTH * WIDTH, 60, replace=False)
    places.sort()
    values = helper.make_tensor("w", FLOAT, [60], floats(rng(), 60))
    indices = helper.make_tensor("places", TensorProto.INT64, [60], places)
    made = helper.make_sparse_tensor(values, indices, [WIDTH, WIDTH])
    model.graph.sparse_initializer.append(made)
    return model


def training(opset: int = 15) -> onnx.ModelProto:
    """Normalises by the batch, and gives the running statistics that follow from it."""
    names = ["scale", "shift", "mean", "variance"]
    weights = {name: np.abs(floats(rng(), WIDTH)) for name in names}
    mode = {"training_mode": 1} if opset >= 14 else {}
    made = ["n", "mean.after", "variance.after", *([] if opset >= 14 else ["m", "v"])]
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("BatchNormalization", ["r", *names], made, **mode),
        node("Add", ["n", "mean.after"], ["a"]),
        node("Mul", ["a", "mean"], ["y"]),
    ]
    outputs = [value(name, None) for name in ("y", "mean.after", "variance.after")]
    return model_of(nodes, [value("x", ROWS)], outputs, weights, opset=opset)


def string_feeds() -> Feeds:
    return {"s": np.array(["one", "zwei", ""], object)}


def _known(name: str) -> tuple[Callable[[], onnx.ModelProto], Callable[[], Feeds]]:
    return MODELS[name]


SERVED = (
    Served("skip connections: a tensor needed several segments later", *_known("mlp")),
    Served("branches over images: Conv, BatchNormalization, pooling", *_known("convolutions")),
    Served("If, with captured values and weights in its bodies", *_known("conditional")),
    Served("Loop, with captured values and weights in its body", *_known("loop")),
    Served("Scan, with captured weights", *_known("scan")),
    Served("model-local functions, nested, and used in a body only", *_known("with_function")),
    Served("tied weights, and equal weights under two names", *_known("tied")),
    Served("shape arithmetic on symbolic dimensions", *_known("shape_arithmetic")),
    Served("ONNX Runtime's own operators (`com.microsoft`)", contributed),
    Served("several outputs of one node", several_outputs),
    Served("optional inputs that are left out", empty_names),
    Served("tensors of rank 0 and of size zero", zero_sized),
    Served("inputs and intermediate values that are outputs", passed_through),
    Served("initializers that are also inputs (fixed to their value)", defaulted),
    Served("an input that nothing uses", unused_input, two_rows_feeds),
    Served("large Constant nodes", large_constant),
    Served("sparse initializers (stored dense)", sparse),
    Served("dimensions that depend on data", data_dependent),
    Served("BatchNormalization in training, if its statistics are outputs", training),
    Served("quantised: QuantizeLinear and DequantizeLinear", qdq),
    Served("quantised: as it comes (DynamicQuantizeLinear)", dynamic),
    Served("float16, also where ONNX Runtime computes it in float32", half),
    Served("bfloat16 at a cut", through(TensorProto.BFLOAT16)),
    Served("float8 (E4M3FN) at a cut", through(TensorProto.FLOAT8E4M3FN)),
    Served("float8 (E5M2) at a cut", through(TensorProto.FLOAT8E5M2)),
    Served("int4 at a cut", through(TensorProto.INT4)),
    Served("uint4 at a cut", through(TensorProto.UINT4)),
    Served("double at a cut", through(TensorProto.DOUBLE)),
    Served("strings, as inputs, at a cut and as outputs", words, string_feeds),
    Served("attention and normalisation in one node each (opset 24)", attention, words_feeds),
    Served("a forest of trees that gives a number", classical.regression, classical.features),
    Served("a forest that gives labels of text", classical.classification, classical.features),
    Served("support vectors", classical.support_vectors, classical.features),
    Served("words as numbers", classical.encoded_words, classical.table_of_words),
    Served("words counted", classical.cleaned_words, classical.sentence),
    Served("text split and matched", classical.split_words, classical.lines),
    Served("sequences inside (never cut there)", sequence),
    Served("optionals inside (never cut there)", optional),
)
