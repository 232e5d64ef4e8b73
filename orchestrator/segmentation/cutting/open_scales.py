"""Which scales a segment must not take for constants, so that it fuses no more than the whole.

ONNX Runtime turns a DequantizeLinear of weights and the MatMul or Gemm behind it into one
MatMulNBits, which also rounds the activations: coarser by far (0.012 relative, where a cut may
cost 1e-5). It does so only where nobody else uses the weights, the scale or the result (the zero
point may be anybody's), and not where the other operand was quantised too. A segment has fewer
users and fewer neighbours than the whole, so the same node could be fused in it alone. A scale
that is listed among the graph's inputs, with its value as a default, is no constant to ONNX
Runtime, and the node stays as its author wrote it; nothing is copied or computed for it.

Measured with ONNX Runtime 1.32. Other fusions that a cut could add were looked for and not found;
whoever adds a model compares all the same (`checking`).
"""

from __future__ import annotations

from orchestrator.segmentation.cutting.live_sets import Stretch
from orchestrator.segmentation.reading.walk import Dataflow, Node

_DEQUANTIZE = "DequantizeLinear"
_SCALE_FIRST = (1, 2, 0)  # places of scale, zero point and weights: the smallest first


def open_scales(flow: Dataflow, stretch: Stretch) -> tuple[str, ...]:
    """Initializers, one for each DequantizeLinear that the segment might fuse and the whole does
    not."""
    own = frozenset(stretch.nodes)
    found = (_opened(flow, flow.nodes[index], own) for index in stretch.nodes)
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _opened(flow: Dataflow, node: Node, own: frozenset[int]) -> str | None:
    if not _dequantises(node) or not _is_of_weights(flow, node):
        return None
    users = [flow.nodes[i] for name in node.outputs for i in flow.users.get(name, ()) if i in own]
    if not any(_may_fuse(flow, node, user, own) for user in users):
        return None
    if not (_is_shared(flow, node) or any(_is_quantised(flow, node, user) for user in users)):
        return None
    places = [node.proto.input[at] for at in _SCALE_FIRST if at < len(node.proto.input)]
    return next((name for name in places if name in flow.initializers), None)


def _is_of_weights(flow: Dataflow, node: Node) -> bool:
    """Whether all that a DequantizeLinear takes is constant."""
    return all(name in flow.initializers or _is_constant(flow, name) for name in node.inputs)


def _is_constant(flow: Dataflow, name: str) -> bool:
    maker = flow.producer.get(name)
    return maker is not None and flow.nodes[maker].proto.op_type == "Constant"


def _is_shared(flow: Dataflow, node: Node) -> bool:
    """Whether the whole model has another user of the node's weights, scale or result."""
    names = (*node.proto.input[:2], *node.outputs)
    return any(len(flow.users.get(name, ())) > 1 for name in names)


def _may_fuse(flow: Dataflow, node: Node, user: Node, own: frozenset[int]) -> bool:
    """Whether `user` could be fused with `node` alone: it takes no other dequantised value here.

    Rows that a Gather takes of weights are the same numbers fused or not, at much less cost.
    """
    if user.proto.op_type == "Gather":
        return False
    return not any(maker in own for maker in _other_dequantised(flow, node, user))


def _is_quantised(flow: Dataflow, node: Node, user: Node) -> bool:
    """Whether the other operand of `user` is dequantised, wherever that is computed."""
    return bool(_other_dequantised(flow, node, user))


def _other_dequantised(flow: Dataflow, node: Node, user: Node) -> list[int]:
    makers = {flow.producer.get(name) for name in user.inputs} - {None, node.index}
    return [at for at in makers if at is not None and _dequantises(flow.nodes[at])]


def _dequantises(node: Node) -> bool:
    return bool(node.proto.op_type == _DEQUANTIZE)
