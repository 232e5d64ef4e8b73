"""A model of some kilobytes, for what an item costs beside its compute: six times Mul and Tanh.

[batch, 576] float32 all the way, so 2,304 bytes cross every cut.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.work import Work

WIDTH = 576
LAYERS = 6
ENDS = ("t1", "t3")  # a third each


def tiny_work(folder: Path, count: int) -> Work:
    """`folder` is given the model's file."""
    path = folder / "tiny.onnx"
    path.write_bytes(_model().SerializeToString())
    rng = np.random.default_rng(7)
    items = tuple({"x": rng.normal(size=(1, WIDTH)).astype(np.float32)} for _ in range(count))
    return Work("tiny", path, items, {"batch": 1}, ENDS)


def _model() -> onnx.ModelProto:
    rng = np.random.default_rng(8)
    nodes, weights, last = [], [], "x"
    for layer in range(LAYERS):
        scale = rng.normal(size=WIDTH).astype(np.float32)
        weights.append(numpy_helper.from_array(scale, f"w{layer}"))
        nodes.append(helper.make_node("Mul", [last, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Tanh", [f"m{layer}"], [f"t{layer}"]))
        last = f"t{layer}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH])
    y = helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch", WIDTH])
    graph = helper.make_graph(nodes, "tiny", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
