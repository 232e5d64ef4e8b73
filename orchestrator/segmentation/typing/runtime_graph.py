"""What ONNX Runtime would compute with graph optimisation off, asked without reading a weight.

Refuses a model for a node of which it has no kernel. And writes out what it does with float16:
where it has no float16 kernels it computes in float32 and hands that on from node to node,
unrounded. Cut as its author wrote it, such a model would round at every cut; with the Casts
written out it is the same whole or in parts. Asked of the runtime installed here: one on another
processor may have other kernels, and would not compute the same bits from the whole model either.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

from orchestrator.segmentation.reading.tensors import is_external
from orchestrator.segmentation.reading.walk import copied
from orchestrator.segmentation.typing.runtime_types import weightless
from wire.errors import InvalidModel

UNROUNDED = "InsertedPrecisionFreeCast_"  # how ONNX Runtime names the float32 twin of a value
_OPERATOR = re.compile(r"(?:implementation|kernel) for (\w+)\((\d+)\)")


@dataclass(frozen=True, slots=True)
class Computed:
    """The model to cut. `rounds` says that float16 values may be rounded at cuts that the whole
    model does not round, since ONNX Runtime could not tell without the weights."""

    model: onnx.ModelProto
    rounds: bool = False


def computed(model: onnx.ModelProto, has_float16: bool) -> Computed:
    """`model`, with Casts written out where ONNX Runtime widens float16.

    Raises `InvalidModel` with the operator for which it has no kernel.
    """
    data = weightless(model).SerializeToString()
    if not has_float16:
        _load(data, None)
        return Computed(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "computed.onnx"
        if not _load(data, path):
            return Computed(model, rounds=True)
        graph = onnx.load(path)
    names = {name for node in graph.graph.node for name in (*node.input, *node.output)}
    if not any(name.startswith(UNROUNDED) for name in names):
        return Computed(model)
    return Computed(_with_weights(graph, model))


def _load(data: bytes, save: Path | None) -> bool:
    """Whether the model loads; raises `InvalidModel` if a kernel is missing at all levels: what
    optimisation folds away needs none."""
    levels = onnxruntime.GraphOptimizationLevel
    try:
        return _loads(data, levels.ORT_DISABLE_ALL, save)
    except NoKernel:
        pass
    try:
        _loads(data, levels.ORT_ENABLE_ALL, None)
    except NoKernel as error:
        raise InvalidModel(_told(str(error))) from None
    return False


def _loads(data: bytes, level: onnxruntime.GraphOptimizationLevel, save: Path | None) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    if save is not None:
        options.optimized_model_filepath = str(save)
    try:
        onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except NoKernel:
        raise
    except Exception:
        # ONNX Runtime raises classes of its own, without a common base. Some operators only load
        # with their weights as constants, which this copy has not: nothing is known then.
        return False
    return True


def _told(message: str) -> str:
    found = _OPERATOR.search(message)
    what = f"{found.group(1)} (opset {found.group(2)})" if found else message[:200]
    return (
        f"ONNX Runtime {onnxruntime.__version__} has no kernel for {what} with the element types "
        "used here; export the model with another opset or other types"
    )


def _with_weights(found: onnx.ModelProto, model: onnx.ModelProto) -> onnx.ModelProto:
    """The nodes of `found` in the frame of `model`: its inputs, outputs and large weights."""
    made = copied(model)
    for field in ("node", "initializer", "value_info"):
        made.graph.ClearField(field)
    made.graph.node.extend(found.graph.node)
    made.graph.initializer.extend(found.graph.initializer)
    made.graph.initializer.extend(filter(is_external, model.graph.initializer))
    known = {opset.domain for opset in made.opset_import}
    made.opset_import.extend(o for o in found.opset_import if o.domain not in known)
    return made
