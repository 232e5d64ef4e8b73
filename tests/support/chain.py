"""A small model as segments with external weights, and as one: what the agent is tested with.

Handmade, so that these tests need no segmentation; layer k turns `h<k>` into `h<k+1>`.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from wire.ids import PartitionId, digest_of
from wire.manifest import BlobRef
from wire.messages.assignment import PartitionAssignment, SegmentRef

BOUND_NBYTES = 1 << 20


class Chain:
    """`layers` matrices of `width` by `width`, each followed by tanh. `blobs` is what a store
    would hold."""

    def __init__(self, layers: int, width: int = 64, seed: int = 7) -> None:
        self.width = width
        self.blobs: dict[str, bytes] = {}
        rng = np.random.default_rng(seed)
        self.weights = [
            (rng.standard_normal((width, width)) / math.sqrt(width)).astype(np.float32)
            for _ in range(layers)
        ]
        self.refs = tuple(self._segment(index) for index in range(layers))
        self.digest = digest_of(f"chain {layers} {width} {seed}".encode())

    def _segment(self, index: int) -> SegmentRef:
        weights = self._put(self.weights[index].tobytes())
        tensor = TensorProto(
            name=f"w{index}",
            data_type=TensorProto.FLOAT,
            dims=[self.width, self.width],
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (("location", weights.digest), ("length", str(weights.nbytes))):
            tensor.external_data.add(key=key, value=value)
        model = self._model(self._nodes(index), [tensor], f"h{index}", f"h{index + 1}")
        graph = self._put(model.SerializeToString())
        names = ((f"h{index}",), (f"h{index + 1}",))
        return SegmentRef(index, graph, (weights,), *names, peak_activation_nbytes=4096, cost=1.0)

    def _nodes(self, index: int) -> list[onnx.NodeProto]:
        return [
            helper.make_node("MatMul", [f"h{index}", f"w{index}"], [f"m{index}"]),
            helper.make_node("Tanh", [f"m{index}"], [f"h{index + 1}"]),
        ]

    def _model(
        self,
        nodes: list[onnx.NodeProto],
        weights: list[TensorProto],
        before: str,
        after: str,
    ) -> onnx.ModelProto:
        ports = [
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", self.width])]
            for name in (before, after)
        ]
        graph = helper.make_graph(nodes, "g", *ports, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _put(self, data: bytes) -> BlobRef:
        digest = digest_of(data)
        self.blobs[digest] = data
        return BlobRef(digest, len(data))

    def assigned(
        self, exact: bool = False, first: int = 0, last: int | None = None
    ) -> PartitionAssignment:
        last = len(self.refs) - 1 if last is None else last
        return PartitionAssignment(
            partition=PartitionId(self.digest, exact, first, last),
            model_name="chain",
            tier=3,
            segments=self.refs[first : last + 1],
            accepts_nbytes=BOUND_NBYTES,
            emits=(f"h{last + 1}",),
            emits_nbytes=BOUND_NBYTES,
        )

    def whole(self, x: np.ndarray, exact: bool) -> np.ndarray:
        """What ONNX Runtime makes of the whole model in one session of one thread."""
        nodes = [node for index in range(len(self.refs)) for node in self._nodes(index)]
        weights = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(self.weights)]
        model = self._model(nodes, weights, "h0", f"h{len(self.refs)}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        if exact:
            level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        result: np.ndarray = session.run(None, {"h0": x})[0]
        return result
