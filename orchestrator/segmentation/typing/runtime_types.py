"""What ONNX Runtime infers of a model's values, asked without reading a weight.

Large weights become inputs of the same type and shape, so loading is quick and nothing runs.
"""

from __future__ import annotations

import onnx
import onnxruntime
from onnx import helper

from orchestrator.segmentation.reading.tensors import is_external
from orchestrator.segmentation.reading.walk import Dataflow, copied
from orchestrator.segmentation.typing.value_type import Dim, ValueType, sizes_of, symbol_of
from wire.elements import Element

_Level = onnxruntime.GraphOptimizationLevel
_RUNTIME_TYPES = {
    "float": Element.FLOAT,
    "double": Element.DOUBLE,
    "float16": Element.FLOAT16,
    "bfloat16": Element.BFLOAT16,
    "int8": Element.INT8,
    "int16": Element.INT16,
    "int32": Element.INT32,
    "int64": Element.INT64,
    "uint8": Element.UINT8,
    "uint16": Element.UINT16,
    "uint32": Element.UINT32,
    "uint64": Element.UINT64,
    "bool": Element.BOOL,
    "string": Element.STRING,
    "complex64": Element.COMPLEX64,
    "complex128": Element.COMPLEX128,
    "float8e4m3fn": Element.FLOAT8E4M3FN,
    "float8e4m3fnuz": Element.FLOAT8E4M3FNUZ,
    "float8e5m2": Element.FLOAT8E5M2,
    "float8e5m2fnuz": Element.FLOAT8E5M2FNUZ,
    "int4": Element.INT4,
    "uint4": Element.UINT4,
    "float4e2m1": Element.FLOAT4E2M1,
}


def ask_runtime(model: onnx.ModelProto, flow: Dataflow) -> dict[str, ValueType]:
    """What ONNX Runtime says of every value that a node makes; nothing if it cannot load the
    graph at these sizes or without its weights' values."""
    copy = weightless(model)
    have = {value.name for value in copy.graph.output}
    copy.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in flow.producer if name not in have
    )
    data = copy.SerializeToString()
    session = _session(data, _Level.ORT_ENABLE_BASIC)
    if session is None and any(node.op_type == "If" for node in model.graph.node):
        # With constants folded it looks into both branches, and refuses sizes that only the one
        # takes which will not run: a voice detector has a branch for each sampling rate.
        session = _session(data, _Level.ORT_DISABLE_ALL)
    if session is None:
        return {}
    return {output.name: _answer(output.type, output.shape) for output in session.get_outputs()}


def _session(data: bytes, level: _Level) -> onnxruntime.InferenceSession | None:
    """None if it does not load. ONNX Runtime raises classes of its own, without a common base. Why
    does not matter: its answers are a supplement, and what is then still unknown is refused by
    whoever needs it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception:
        return None


def weightless(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose external weights are inputs of the same type and shape."""
    copy = copied(model)
    copy.ir_version = max(4, min(copy.ir_version, 10))
    kept = [tensor for tensor in copy.graph.initializer if not is_external(tensor)]
    for tensor in filter(is_external, model.graph.initializer):
        copy.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    own = [copied(tensor) for tensor in kept]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(own)
    return copy


def _answer(text: str, shape: list[Dim]) -> ValueType:
    """ONNX Runtime reports an unknown rank and a scalar alike as []: then no shape."""
    if not text.startswith("tensor("):
        return ValueType()
    kind = _RUNTIME_TYPES.get(text[len("tensor(") : -1])
    dims: tuple[Dim, ...] | None = None
    if shape:
        dims = tuple((symbol_of(dim) or None) if isinstance(dim, str) else dim for dim in shape)
    return ValueType(kind, dims, sizes_of(dims, dims))
