"""Compute of a node in multiply-adds at the symbols' bounds: a ranking, not a promise.

Matrix products, convolutions and recurrences are counted by their shapes; everything else costs
one per element that it makes. Where shapes are unknown, the elements that are known decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx

from orchestrator.segmentation.reading.walk import bodies
from orchestrator.segmentation.typing.types import Types

_WEIGHT_BITS_OPERATORS = frozenset({"MatMulNBits", "MatMulBnb4", "MatMulFpQ4"})


def cost_of(node: onnx.NodeProto, types: Types) -> float:
    """Multiply-adds of one node, at least the number of elements that it makes."""
    rule = _RULES.get(node.op_type)
    made = _made(node, types)
    inner = sum(cost_of(one, types) for body in bodies(node) for one in body.node)
    return max(rule(node, types) if rule else 0.0, float(made)) + inner


def _made(node: onnx.NodeProto, types: Types) -> int:
    return sum(types.count(name) for name in node.output if name in types.values)


def _sizes(node: onnx.NodeProto, place: int, types: Types) -> tuple[int, ...]:
    name = node.input[place] if place < len(node.input) else ""
    return types.sizes(name) or ()


def _matmul(node: onnx.NodeProto, types: Types) -> float:
    """Output elements times the length of the inner dimension."""
    left = _sizes(node, 0, types)
    return float(_made(node, types) * left[-1]) if left else 0.0


def _gemm(node: onnx.NodeProto, types: Types) -> float:
    left = _sizes(node, 0, types)
    turned = any(a.name == "transA" and a.i for a in node.attribute)
    return float(_made(node, types) * left[0 if turned else -1]) if left else 0.0


def _conv(place: int) -> Callable[[onnx.NodeProto, Types], float]:
    """The weight is at input `place`: [out, in / groups, kernel...]."""

    def rule(node: onnx.NodeProto, types: Types) -> float:
        return float(_made(node, types) * math.prod(_sizes(node, place, types)[1:]))

    return rule


def _conv_transpose(node: onnx.NodeProto, types: Types) -> float:
    """Each input element meets the weight [in, out / groups, kernel...] once."""
    elements = math.prod(_sizes(node, 0, types))
    return float(elements * math.prod(_sizes(node, 1, types)[1:]))


def _recurrent(node: onnx.NodeProto, types: Types) -> float:
    """[steps, batch, width] through W [directions, gates, width] and R, step by step."""
    steps = math.prod(_sizes(node, 0, types)[:2])
    weights = math.prod(_sizes(node, 1, types)) + math.prod(_sizes(node, 2, types))
    return float(steps * weights)


def _attention(node: onnx.NodeProto, types: Types) -> float:
    """Projection by the packed weight plus two products over the sequence."""
    hidden, weight = _sizes(node, 0, types), _sizes(node, 1, types)
    if len(hidden) != 3:
        return 0.0
    batch, length, width = hidden
    projected = batch * length * math.prod(weight) if len(weight) == 2 else 0
    return float(projected + 2 * batch * length * length * width)


_RULES: dict[str, Callable[[onnx.NodeProto, Types], float]] = {
    "MatMul": _matmul,
    "FusedMatMul": _matmul,
    "MatMulInteger": _matmul,
    "MatMulIntegerToFloat": _matmul,
    "DynamicQuantizeMatMul": _matmul,
    "QLinearMatMul": _matmul,
    **dict.fromkeys(_WEIGHT_BITS_OPERATORS, _matmul),
    "Gemm": _gemm,
    "FusedGemm": _gemm,
    "QGemm": _gemm,
    "Conv": _conv(1),
    "FusedConv": _conv(1),
    "ConvInteger": _conv(1),
    "QLinearConv": _conv(3),
    "ConvTranspose": _conv_transpose,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "DynamicQuantizeLSTM": _recurrent,
    "Attention": _attention,
    "QAttention": _attention,
    "MultiHeadAttention": _attention,
    "GroupQueryAttention": _attention,
}
