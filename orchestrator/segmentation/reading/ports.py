"""Refuses inputs and outputs that are no tensors, from what the file itself says of them.

Before anything heavy is done: a model of hundreds of megabytes may end in a sequence of maps. Where
the file declares no type of an output, the operator that makes it may allow no tensor. What only
inference finds out is refused by `typing`.
"""

from __future__ import annotations

import onnx

from orchestrator.segmentation.reading.walk import domain_of
from wire.errors import InvalidModel

_KINDS = {
    "sequence_type": "a sequence",
    "map_type": "a map",
    "optional_type": "an optional",
    "sparse_tensor_type": "a sparse tensor",
    "opaque_type": "opaque",
}
_ZIPMAP = " (scikit-learn's converter leaves the maps out with options={'zipmap': False})"


def check_ports(model: onnx.ModelProto) -> None:
    """Raises `InvalidModel` that names the input or output."""
    for value in model.graph.input:
        what = _declared(value)
        if what:
            raise InvalidModel(
                f"input {value.name!r} is no tensor but {what}; "
                "only tensors can be sent to a device"
            )
    makers = {name: node for node in model.graph.node for name in node.output}
    for value in model.graph.output:
        maker = makers.get(value.name)
        what = _declared(value) or (_made(model, maker, value.name) if maker else "")
        if what:
            raise InvalidModel(
                f"output {value.name!r} is no tensor but {what}; only tensors can be sent from a "
                "device: export the model without it"
                + (_ZIPMAP if maker and maker.op_type == "ZipMap" else "")
            )


def _declared(value: onnx.ValueInfoProto) -> str:
    """What a value is declared as; empty if a tensor, or nothing."""
    return _KINDS.get(value.type.WhichOneof("value") or "", "")


def _made(model: onnx.ModelProto, node: onnx.NodeProto, name: str) -> str:
    """What an operator always makes there; empty if it may be a tensor."""
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    local = any(f.name == node.op_type and f.domain == node.domain for f in model.functions)
    version = opsets.get(domain_of(node))
    if local or version is None:
        return ""
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain_of(node))
    except onnx.defs.SchemaError:
        return ""  # an operator of ONNX Runtime's own, or none at all
    place = min(list(node.output).index(name), len(schema.outputs) - 1)
    return _common(schema.outputs[place].types)


def _common(types: set[str]) -> str:
    """What all these types are, as a schema writes them: `seq(map(int64,tensor(float)))`."""
    words = {"seq": "a sequence", "map": "a map", "optional": "an optional"}
    kinds = {words.get(text.partition("(")[0], "") for text in types}
    return kinds.pop() if len(kinds) == 1 else ""
