"""String tensors as OrtValues, which ONNX Runtime's Python has no way to make.

Its run with OrtValues is the only one that carries bfloat16 and int4, and it offers no OrtValue of
strings. So a model that does nothing but hold the strings is written here, byte by byte (the
device has no onnx package), and run once: its output is the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wire.elements import Element
from wire.protobuf import put_bytes, put_number

_IR_VERSION = 8
_OPSET = 13
_NAME = b"strings"
_OUT = b"value"


def string_value(shape: Sequence[int], strings: Sequence[bytes]) -> Any:
    """An OrtValue of `shape` with these elements in row-major order."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        _model(shape, strings), options, providers=["CPUExecutionProvider"]
    )
    return session.run_with_ort_values([_OUT.decode()], {})[0]


def _model(shape: Sequence[int], strings: Sequence[bytes]) -> bytes:
    """ModelProto: ir_version 1, graph 7, opset_import 8 (onnx.proto's field numbers)."""
    opset = put_number(2, _OPSET)
    return put_number(1, _IR_VERSION) + put_bytes(7, _graph(shape, strings)) + put_bytes(8, opset)


def _graph(shape: Sequence[int], strings: Sequence[bytes]) -> bytes:
    """GraphProto: node 1, name 2, initializer 5, output 12."""
    node = put_bytes(1, _NAME) + put_bytes(2, _OUT) + put_bytes(4, b"Identity")
    tensor_type = put_number(1, Element.STRING)
    output = put_bytes(1, _OUT) + put_bytes(2, put_bytes(1, tensor_type))
    tensor = _tensor(shape, strings)
    return put_bytes(1, node) + put_bytes(2, b"g") + put_bytes(5, tensor) + put_bytes(12, output)


def _tensor(shape: Sequence[int], strings: Sequence[bytes]) -> bytes:
    """TensorProto: dims 1, data_type 2, string_data 6, name 8."""
    dims = b"".join(put_number(1, size) for size in shape)
    data = b"".join(put_bytes(6, string) for string in strings)
    return dims + put_number(2, Element.STRING) + data + put_bytes(8, _NAME)
