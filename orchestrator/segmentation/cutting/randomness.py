"""Which nodes compute something else each time: their outputs cannot be computed twice."""

from __future__ import annotations

import onnx

from orchestrator.segmentation.reading.walk import bodies

RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


def is_random(node: onnx.NodeProto) -> bool:
    """Whether the node, or one in its bodies, draws random numbers. Seeded ones count too: ONNX
    Runtime goes on drawing from call to call. A Dropout counts when it may be training."""
    if node.op_type in RANDOM or _may_train(node):
        return True
    return any(is_random(inner) for body in bodies(node) for inner in body.node)


def _may_train(node: onnx.NodeProto) -> bool:
    return node.op_type == "Dropout" and len(node.input) > 2 and bool(node.input[2])
