"""Refuses opsets that ONNX Runtime does not take, and says which is the highest.

Asked of the runtime installed here, with a graph of one node: onnx itself accepts any number, and
a device would fail only when it loads the first segment. Domains that the runtime does not know
are for whoever looks for their operators.
"""

from __future__ import annotations

import re

import onnx
import onnxruntime
from onnx import helper

from wire.errors import InvalidModel

_HIGHEST = re.compile(r"support for domain (\S+) is till opset (\d+)")
PLAIN_OPSET = 17  # any that each runtime takes, beside the domain that is asked about


def check_opsets(model: onnx.ModelProto) -> None:
    """Raises `InvalidModel` with the highest opset that works."""
    for opset in model.opset_import:
        found = _HIGHEST.search(_refusal(opset.domain, opset.version))
        if found is not None:
            domain, highest = found.groups()
            where = "" if domain == "ai.onnx" else f" of {domain}"
            raise InvalidModel(
                f"the model uses opset {opset.version}{where}, and the highest that ONNX Runtime "
                f"{onnxruntime.__version__} takes is {highest}; export it with opset {highest} "
                "or lower"
            )


def _refusal(domain: str, version: int) -> str:
    """What ONNX Runtime says against this opset; empty if nothing."""
    opsets = {"": PLAIN_OPSET, "" if domain == "ai.onnx" else domain: version}
    port = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "ask", [port], [result])
    imports = [helper.make_opsetid(name, number) for name, number in opsets.items()]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    asked = helper.make_model(graph, opset_imports=imports, ir_version=10)
    try:
        onnxruntime.InferenceSession(
            asked.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        # ONNX Runtime raises classes of its own, without a common base.
        return str(error)
    return ""
