"""Collects nodes and weights into an ONNX model, naming each node after its one output."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper


class GraphBuilder:
    """A graph in the making. Every method returns the name of the value that it adds."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}

    def weight(self, name: str, array: NDArray[Any]) -> str:
        """An initializer; adding the same name again replaces it."""
        self._weights[name] = numpy_helper.from_array(np.require(array, requirements="C"), name)
        return name

    def ints(self, name: str, *values: int) -> str:
        """An int64 initializer of shape [len(values)]."""
        return self.weight(name, np.array(values, np.int64))

    def scalar(self, name: str, value: float) -> str:
        """A float32 initializer of rank 0."""
        return self.weight(name, np.array(value, np.float32))

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        made = helper.make_node(operator, inputs, [output], name=output, **attributes)
        self._nodes.append(made)
        return output

    def split(self, value: str, lengths: str, outputs: list[str], axis: int) -> None:
        """Cuts `value` along `axis` into pieces of these lengths."""
        made = helper.make_node("Split", [value, lengths], outputs, name=outputs[0], axis=axis)
        self._nodes.append(made)

    def model(
        self,
        name: str,
        inputs: list[onnx.ValueInfoProto],
        outputs: list[onnx.ValueInfoProto],
        opset: int,
    ) -> onnx.ModelProto:
        """The checked model, IR version 8."""
        graph = helper.make_graph(self._nodes, name, inputs, outputs, list(self._weights.values()))
        opsets = [helper.make_opsetid("", opset)]
        model = helper.make_model(
            graph, opset_imports=opsets, ir_version=8, producer_name="crowdpipe examples"
        )
        onnx.checker.check_model(model)
        return model
