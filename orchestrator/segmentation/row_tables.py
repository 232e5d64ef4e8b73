"""Which tables a segment reads by row, so that a device may fetch rows instead of the table."""

from __future__ import annotations

import math

import onnx

from orchestrator.segmentation.liveness import Stretch
from orchestrator.segmentation.types import Types
from orchestrator.segmentation.walk import Dataflow
from wire.elements import bits_of, element

MIN_TABLE_ROWS_PER_INDEX = 4  # fewer rows than that are not worth reading one by one


def row_tables(flow: Dataflow, types: Types, stretch: Stretch) -> tuple[str, ...]:
    """Tables of Gathers at the top level, along axis 0, whose indices come into the segment."""
    names: dict[str, None] = {}
    for index in stretch.nodes:
        proto = flow.nodes[index].proto
        if _reads_rows(proto) and proto.input[1] in stretch.inputs:
            tensor = flow.initializers.get(proto.input[0])
            if tensor is not None and _is_large_table(tensor, types.count(proto.input[1])):
                names[tensor.name] = None
    return tuple(names)


def _reads_rows(node: onnx.NodeProto) -> bool:
    standard = node.op_type == "Gather" and node.domain in ("", "ai.onnx")
    return standard and not any(a.name == "axis" and a.i for a in node.attribute)


def _is_large_table(tensor: onnx.TensorProto, indices: int) -> bool:
    bits = bits_of(element(tensor.data_type))
    whole_bytes = bits >= 8 and math.prod(tensor.dims[1:]) > 0
    return (
        whole_bytes
        and len(tensor.dims) > 1
        and (tensor.dims[0] >= MIN_TABLE_ROWS_PER_INDEX * indices)
    )
