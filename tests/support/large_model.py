"""A model of any size with its weights beside it, written without holding them in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

CHUNK = 1 << 20


def write_large_model(folder: Path, nbytes: int, width: int = 1024) -> Path:
    """Layers of MatMul and Tanh, `width` by `width`, of about `nbytes` bytes together. Each
    weight is another stretch of noise, so that no two are equal and stored once."""
    layers = max(2, nbytes // (width * width * 4))
    nodes, weights = [], []
    for layer in range(layers):
        weight = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[width, width])
        size = width * width * 4
        for key, number in (("offset", layer * size), ("length", size)):
            weight.external_data.add(key=key, value=str(number))
        weight.external_data.add(key="location", value="weights.bin")
        weight.data_location = TensorProto.EXTERNAL
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [f"h{layer}", f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Tanh", [f"m{layer}"], [f"h{layer + 1}"]))
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])]
        for name in ("h0", f"h{layers}")
    ]
    graph = helper.make_graph(nodes, "large", *ports, weights)
    opsets = [helper.make_opsetid("", 17)]
    path = folder / "model.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    _write_noise(folder / "weights.bin", layers * width * width)
    return path


def _write_noise(path: Path, count: int) -> None:
    rng = np.random.default_rng(5)
    with path.open("wb") as file:
        while count:
            part = min(count, CHUNK)
            noise = rng.standard_normal(part, np.float32) * np.float32(0.03)
            file.write(noise.tobytes())
            count -= part
