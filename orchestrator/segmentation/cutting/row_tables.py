"""Which tables a segment reads by row, so that a device may fetch rows instead of the table."""

from __future__ import annotations

import math

import onnx

from orchestrator.segmentation.cutting.live_sets import Stretch
from orchestrator.segmentation.reading.tensors import stays_inline
from orchestrator.segmentation.reading.walk import Dataflow, Node
from orchestrator.segmentation.typing.types import Types
from wire.elements import bits_of, element

MIN_TABLE_ROWS_PER_INDEX = 4  # fewer rows than that are not worth reading one by one


def row_tables(flow: Dataflow, types: Types, stretch: Stretch) -> tuple[str, ...]:
    """Tables that nothing in the segment uses but Gathers at the top level, along axis 0, whose
    indices come into the segment: what a device need not map."""
    names: dict[str, None] = {}
    whole: set[str] = set()
    for index in stretch.nodes:
        node = flow.nodes[index]
        table = _table_of(node, flow, types, stretch)
        if table is not None:
            names[table] = None
        whole.update(name for name in node.inputs if name != table)
    return tuple(name for name in names if name not in whole)


def _table_of(node: Node, flow: Dataflow, types: Types, stretch: Stretch) -> str | None:
    proto = node.proto
    if not _reads_rows(proto) or proto.input[1] not in stretch.inputs:
        return None
    tensor = flow.initializers.get(proto.input[0])
    large = tensor is not None and _is_large_table(tensor, types.count(proto.input[1]))
    return str(proto.input[0]) if large else None


def _reads_rows(node: onnx.NodeProto) -> bool:
    standard = node.op_type == "Gather" and node.domain in ("", "ai.onnx")
    return standard and not any(a.name == "axis" and a.i for a in node.attribute)


def _is_large_table(tensor: onnx.TensorProto, indices: int) -> bool:
    bits = bits_of(element(tensor.data_type))
    whole_bytes = bits >= 8 and math.prod(tensor.dims[1:]) > 0
    return (
        whole_bytes
        and len(tensor.dims) > 1
        and not stays_inline(tensor)
        and (tensor.dims[0] >= MIN_TABLE_ROWS_PER_INDEX * indices)
    )
