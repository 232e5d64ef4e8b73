"""Small ONNX models for tests: each shows one thing that a cut must get right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WIDTH = 24  # [24, 24] float32 is 2304 bytes: such weights leave the graph
Feeds = dict[str, NDArray[Any]]


def floats(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return (rng.normal(size=shape) / 4).astype(np.float32)


def tensor(name: str, array: NDArray[Any]) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def value(
    name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: dict[str, NDArray[Any]] | None = None,
    *,
    opset: int = 17,
    ir_version: int = 9,
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    made = [tensor(name, array) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, made)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=ir_version, functions=functions
    )


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def mlp(layers: int = 3, seed: int = 0) -> onnx.ModelProto:
    """[batch, 24] through `layers` of MatMul, Add and Relu, with a skip from the first layer."""
    rng = np.random.default_rng(seed)
    nodes, weights, last = [], {}, "x"
    for index in range(layers):
        weights[f"w{index}"] = floats(rng, WIDTH, WIDTH)
        weights[f"b{index}"] = floats(rng, WIDTH)
        nodes += [
            helper.make_node("MatMul", [last, f"w{index}"], [f"m{index}"]),
            helper.make_node("Add", [f"m{index}", f"b{index}"], [f"a{index}"]),
            helper.make_node("Relu", [f"a{index}"], [f"r{index}"]),
        ]
        last = f"r{index}"
    nodes.append(helper.make_node("Add", [last, "m0"], ["y"]))
    x, y = value("x", ["batch", WIDTH]), value("y", ["batch", WIDTH])
    return model_of(nodes, [x], [y], weights)


def body(
    name: str,
    nodes: list[onnx.NodeProto],
    outputs: list[onnx.ValueInfoProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    weights: dict[str, NDArray[Any]] | None = None,
) -> onnx.GraphProto:
    made = [tensor(key, array) for key, array in (weights or {}).items()]
    return helper.make_graph(nodes, name, list(inputs), outputs, made)


def conditional(seed: int = 0) -> onnx.ModelProto:
    """An If whose branches capture a value and a weight from outside and hold weights of their
    own; both name their weight `w`."""
    rng = np.random.default_rng(seed)
    then = body(
        "yes",
        [
            helper.make_node("MatMul", ["r", "w"], ["then_m"]),
            helper.make_node("Add", ["then_m", "x"], ["then_y"]),
        ],
        [value("then_y", ["batch", WIDTH])],
        weights={"w": floats(rng, WIDTH, WIDTH)},
    )
    other = body(
        "no",
        [
            helper.make_node("Constant", [], ["big"], value=tensor("", floats(rng, WIDTH, WIDTH))),
            helper.make_node("MatMul", ["r", "big"], ["else_m"]),
            helper.make_node("MatMul", ["else_m", "outer"], ["else_y"]),
        ],
        [value("else_y", ["batch", WIDTH])],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "outer"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("Mul", ["chosen", "r"], ["y"]),
    ]
    weights = {"outer": floats(rng, WIDTH, WIDTH), "zero": np.array(0, np.float32)}
    x, y = value("x", ["batch", WIDTH]), value("y", ["batch", WIDTH])
    return model_of(nodes, [x], [y], weights)


def loop(seed: int = 0) -> onnx.ModelProto:
    """A Loop of three steps that captures a value made outside and has a weight inside."""
    rng = np.random.default_rng(seed)
    inside = body(
        "step",
        [
            helper.make_node("MatMul", ["state_in", "inner"], ["moved"]),
            helper.make_node("Add", ["moved", "m"], ["state_out"]),
            helper.make_node("Identity", ["going_in"], ["going_out"]),
        ],
        [value("going_out", [], TensorProto.BOOL), value("state_out", None)],
        [
            value("step", [], TensorProto.INT64),
            value("going_in", [], TensorProto.BOOL),
            value("state_in", None),
        ],
        {"inner": floats(rng, WIDTH, WIDTH)},
    )
    nodes = [
        helper.make_node("MatMul", ["x", "outer"], ["m"]),
        helper.make_node("Loop", ["trips", "", "m"], ["looped"], body=inside),
        helper.make_node("Relu", ["looped"], ["y"]),
    ]
    weights = {"outer": floats(rng, WIDTH, WIDTH), "trips": np.array(3, np.int64)}
    x, y = value("x", ["batch", WIDTH]), value("y", ["batch", WIDTH])
    return model_of(nodes, [x], [y], weights)


def scan(seed: int = 0) -> onnx.ModelProto:
    """A Scan over the rows of [steps, 24] that captures a weight."""
    rng = np.random.default_rng(seed)
    inside = body(
        "row",
        [
            helper.make_node("MatMul", ["sum_in", "outer"], ["turned"]),
            helper.make_node("Add", ["turned", "row_in"], ["sum_out"]),
            helper.make_node("Identity", ["sum_out"], ["row_out"]),
        ],
        [value("sum_out", [WIDTH]), value("row_out", [WIDTH])],
        [value("sum_in", [WIDTH]), value("row_in", [WIDTH])],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Scan", ["start", "r"], ["end", "rows"], body=inside, num_scan_inputs=1),
        helper.make_node("Mul", ["rows", "x"], ["y"]),
    ]
    weights = {"outer": floats(rng, WIDTH, WIDTH), "start": np.zeros(WIDTH, np.float32)}
    outputs = [value("y", ["steps", WIDTH]), value("end", [WIDTH])]
    return model_of(nodes, [value("x", ["steps", WIDTH])], outputs, weights)


def tied(seed: int = 0) -> onnx.ModelProto:
    """One weight at both ends, and another stored twice under two names."""
    rng = np.random.default_rng(seed)
    twin = floats(rng, WIDTH, WIDTH)
    names = ["table", "left", "table", "right"]
    nodes, last = [], "x"
    for index, name in enumerate(names):
        nodes.append(helper.make_node("MatMul", [last, name], [f"m{index}"]))
        nodes.append(helper.make_node("Relu", [f"m{index}"], [f"r{index}"]))
        last = f"r{index}"
    weights = {"table": floats(rng, WIDTH, WIDTH), "left": twin, "right": twin.copy()}
    x, y = value("x", ["batch", WIDTH]), value(last, ["batch", WIDTH])
    return model_of(nodes, [x], [y], weights)


def with_function(seed: int = 0) -> onnx.ModelProto:
    """A model-local function that calls another, used twice, once inside an If."""
    rng = np.random.default_rng(seed)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    inner = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], opsets
    )
    outer = helper.make_function(
        "local",
        "Layer",
        ["a", "w"],
        ["b"],
        [
            helper.make_node("MatMul", ["a", "w"], ["m"]),
            helper.make_node("Twice", ["m"], ["t"], domain="local"),
            helper.make_node("Relu", ["t"], ["b"]),
        ],
        opsets,
    )
    call = helper.make_node("Layer", ["one", "w"], ["called"], domain="local")
    keep = helper.make_node("Identity", ["one"], ["kept"])
    nodes = [
        helper.make_node("Layer", ["x", "w"], ["one"], domain="local"),
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["positive"]),
        helper.make_node(
            "If",
            ["positive"],
            ["y"],
            then_branch=body("yes", [call], [value("called", None)]),
            else_branch=body("no", [keep], [value("kept", None)]),
        ),
    ]
    weights = {"w": floats(rng, WIDTH, WIDTH), "zero": np.array(0, np.float32)}
    x, y = value("x", ["batch", WIDTH]), value("y", ["batch", WIDTH])
    return model_of(nodes, [x], [y], weights, functions=[inner, outer], domains=["local"])


def shape_arithmetic(seed: int = 0) -> onnx.ModelProto:
    """[batch, sequence, 24] folded and unfolded by shapes that are computed on the way."""
    rng = np.random.default_rng(seed)
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch_size"], axis=0),
        helper.make_node("Gather", ["shape", "one"], ["length"], axis=0),
        helper.make_node("Mul", ["batch_size", "length"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "axis"], ["rows_1"]),
        helper.make_node("Concat", ["rows_1", "width"], ["flat_shape"], axis=0),
        helper.make_node("Reshape", ["x", "flat_shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w0"], ["m0"]),
        helper.make_node("Relu", ["m0"], ["r0"]),
        helper.make_node("MatMul", ["r0", "w1"], ["m1"]),
        helper.make_node("Reshape", ["m1", "shape"], ["y"]),
    ]
    weights = {
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "axis": np.array([0], np.int64),
        "width": np.array([WIDTH], np.int64),
        "w0": floats(rng, WIDTH, WIDTH),
        "w1": floats(rng, WIDTH, WIDTH),
    }
    dims = ["batch", "sequence", WIDTH]
    return model_of(nodes, [value("x", dims)], [value("y", dims)], weights)


def convolutions(seed: int = 0) -> onnx.ModelProto:
    """Two branches of convolutions over an image, joined, pooled and classified."""
    rng = np.random.default_rng(seed)
    nodes = [
        helper.make_node("Conv", ["image", "stem"], ["s"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["s"], ["sr"]),
        helper.make_node("Conv", ["sr", "left"], ["l"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["sr", "right"], ["r"]),
        helper.make_node("Concat", ["l", "r"], ["both"], axis=1),
        helper.make_node("BatchNormalization", ["both", "g", "b", "mu", "var"], ["n"]),
        helper.make_node("GlobalAveragePool", ["n"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "head", "head_bias"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["classes"]),
    ]
    weights = {
        "stem": floats(rng, 8, 3, 3, 3),
        "left": floats(rng, 8, 8, 3, 3),
        "right": floats(rng, 8, 8, 1, 1),
        "g": floats(rng, 16) + 1,
        "b": floats(rng, 16),
        "mu": floats(rng, 16),
        "var": np.abs(floats(rng, 16)) + np.float32(0.5),
        "head": floats(rng, 20, 16),
        "head_bias": floats(rng, 20),
    }
    image = value("image", ["batch", 3, 12, 10])
    return model_of(nodes, [image], [value("classes", ["batch", 20])], weights)


def image_feeds(seed: int = 1) -> Feeds:
    return {"image": floats(np.random.default_rng(seed), 2, 3, 12, 10)}


def row_feeds(rows: int = 3, seed: int = 1) -> Feeds:
    """`x` for the models that take [rows, 24]."""
    return {"x": floats(np.random.default_rng(seed), rows, WIDTH)}


def plane_feeds(seed: int = 1) -> Feeds:
    """`x` for the models that take [batch, sequence, 24]."""
    return {"x": floats(np.random.default_rng(seed), 2, 5, WIDTH)}


MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], Callable[[], Feeds]]] = {
    "mlp": (mlp, row_feeds),
    "conditional": (conditional, row_feeds),
    "loop": (loop, row_feeds),
    "scan": (scan, row_feeds),
    "tied": (tied, row_feeds),
    "with_function": (with_function, row_feeds),
    "shape_arithmetic": (shape_arithmetic, plane_feeds),
    "convolutions": (convolutions, image_feeds),
}
