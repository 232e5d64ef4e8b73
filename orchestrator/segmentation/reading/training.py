"""Refuses a BatchNormalization that ONNX Runtime lets write over its own inputs.

In training it puts the running mean and variance where the old ones were, unless its graph gives
them as outputs: over weights, values that other nodes read, or an array of the caller's. Each
answer then depends on those before it, and on where the model is cut. Which operators exist is
`operators`' to say; those that draw random numbers are served, and `cutting.randomness` knows them.
"""

from __future__ import annotations

import onnx

from orchestrator.segmentation.reading.walk import all_graphs, bodies, domain_of
from wire.errors import InvalidModel

OVERWRITING_OPSET = 9  # before it ONNX Runtime gives the running statistics memory of their own


def check_training(model: onnx.ModelProto) -> None:
    """Raises `InvalidModel` that names the node."""
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)
    for graph in all_graphs(model):
        given = {value.name for value in graph.output}
        for node in graph.node:
            if trains(node) and _overwrites(node, given, opset):
                raise InvalidModel(
                    f"BatchNormalization {node.name or node.output[0]!r} is in training mode, and "
                    "ONNX Runtime then overwrites its running statistics, so that each answer "
                    "depends on those before it; export the model for inference "
                    "(in PyTorch: after model.eval())"
                )


def trains(node: onnx.NodeProto) -> bool:
    """Whether the node, or one in its bodies, is a BatchNormalization in training mode."""
    if node.op_type == "BatchNormalization" and domain_of(node) == "" and len(node.output) > 1:
        return True
    return any(trains(inner) for body in bodies(node) for inner in body.node)


def _overwrites(node: onnx.NodeProto, given: set[str], opset: int) -> bool:
    """Without a name for each of its statistics, ONNX Runtime even ends with a memory fault."""
    if node.op_type != "BatchNormalization":
        return False  # its bodies are graphs of their own
    statistics = set(node.output[1:3])
    return "" in statistics or (opset >= OVERWRITING_OPSET and not statistics <= given)
