"""String tensors as OrtValues, which ONNX Runtime's Python has no way to make.

Its run with OrtValues is the only one that carries bfloat16 and int4, and it offers no OrtValue of
strings. So a model that does nothing but hold the strings is written here, byte by byte (the
device has no onnx package), and run once: its output is the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wire.elements import Element

_IR_VERSION = 8
_OPSET = 13
_NAME = b"strings"
_OUT = b"value"
_LENGTH_DELIMITED = 2


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
    opset = _number(2, _OPSET)
    return _number(1, _IR_VERSION) + _field(7, _graph(shape, strings)) + _field(8, opset)


def _graph(shape: Sequence[int], strings: Sequence[bytes]) -> bytes:
    """GraphProto: node 1, name 2, initializer 5, output 12."""
    node = _field(1, _NAME) + _field(2, _OUT) + _field(4, b"Identity")
    tensor_type = _number(1, Element.STRING)
    output = _field(1, _OUT) + _field(2, _field(1, tensor_type))
    return (
        _field(1, node) + _field(2, b"g") + _field(5, _tensor(shape, strings)) + _field(12, output)
    )


def _tensor(shape: Sequence[int], strings: Sequence[bytes]) -> bytes:
    """TensorProto: dims 1, data_type 2, string_data 6, name 8."""
    dims = b"".join(_number(1, size) for size in shape)
    data = b"".join(_field(6, string) for string in strings)
    return dims + _number(2, Element.STRING) + data + _field(8, _NAME)


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(payload)) + payload


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
