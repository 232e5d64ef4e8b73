"""Which values need not cross a cut because any segment can compute them again.

Constant values follow from initializers and Constant nodes alone: they are cloned into each
segment that uses them. Light values follow, by cheap operators, from the shapes of other values
and from integer inputs of the model (token ids, masks): they are computed again where that makes
fewer bytes cross than sending them. What is computed again is bit for bit the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.segmentation.cutting.randomness import is_random
from orchestrator.segmentation.reading.tensors import INTEGERS, tensor_nbytes
from orchestrator.segmentation.reading.training import trains
from orchestrator.segmentation.reading.walk import Dataflow, Node
from orchestrator.segmentation.typing.types import Types

_STANDARD = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
_SHAPES = frozenset({"Shape", "Size"})
_CHEAP = frozenset(
    {
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Concat",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Expand",
        "Floor",
        "Gather",
        "GatherElements",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Range",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Round",
        "ScatterND",
        "Slice",
        "Split",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Tile",
        "Transpose",
        "Trilu",
        "Unsqueeze",
        "Where",
    }
)
_LARGE_NBYTES = 4 << 20  # tables for positions and masks are smaller; weights are not cloned


@dataclass(frozen=True, slots=True)
class Roles:
    """The nodes of a dataflow by how a cut treats them; what is in neither set is the trunk.

    `roots` gives for each light value the values that it follows from. `place` says where a
    light node counts as computed first: beside the maker of its last root, wherever the
    author wrote it, so that a cut in between takes along the shape and not the root.
    """

    constant: frozenset[int]
    light: frozenset[int]
    roots: dict[str, frozenset[str]]
    place: dict[int, int]


def roles_of(flow: Dataflow, types: Types) -> Roles:
    constant: set[int] = set()
    known = set(flow.initializers)
    large = {n for n, t in flow.initializers.items() if tensor_nbytes(t) >= _LARGE_NBYTES}
    light: set[int] = set()
    roots = {n: frozenset({n}) for n in flow.inputs if types[n].kind in INTEGERS}
    place: dict[int, int] = {}
    for node in flow.nodes:
        if _is_constant(node, known):
            constant.add(node.index)
            known.update(node.outputs)
            if not large.isdisjoint(node.inputs):
                large.update(node.outputs)
            continue
        found = _roots_of(node, roots, known, large)
        if found is not None:
            light.add(node.index)
            place[node.index] = max((flow.producer.get(name, 0) for name in found), default=0)
            roots.update(dict.fromkeys(node.outputs, found))
    return Roles(frozenset(constant), frozenset(light), roots, place)


def _is_constant(node: Node, known: set[str]) -> bool:
    once = is_random(node.proto) or trains(node.proto)  # a clone in training would overwrite
    standard = node.proto.domain in _STANDARD
    return standard and not once and all(name in known for name in node.inputs)


def _roots_of(
    node: Node, roots: dict[str, frozenset[str]], known: set[str], large: set[str]
) -> frozenset[str] | None:
    """The roots of a node's outputs if they are light values, else None."""
    if node.proto.domain not in ("", "ai.onnx"):
        return None
    if node.proto.op_type in _SHAPES and node.inputs:
        name = node.inputs[0]
        return roots.get(name, frozenset({name}))
    if node.proto.op_type not in _CHEAP or not large.isdisjoint(node.inputs):
        return None
    if any(name not in roots and name not in known for name in node.inputs):
        return None
    return frozenset().union(*(roots[name] for name in node.inputs if name in roots))
