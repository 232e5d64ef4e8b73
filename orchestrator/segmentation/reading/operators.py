"""Which operators ONNX Runtime knows. A model with another cannot run on any device, and one that
was optimised for one processor not on others."""

from __future__ import annotations

import functools

import onnx
import onnxruntime

from orchestrator.segmentation.reading.walk import all_nodes, domain_of
from wire.errors import InvalidModel

# Weights are in blocks as wide as the vectors of the processor that optimised the model. Others
# take blocks of another width for theirs, and give wrong numbers without a word.
FOR_ONE_PROCESSOR = "com.microsoft.nchwc"


def check_operators(model: onnx.ModelProto) -> None:
    """Raises `InvalidModel` that names an operator which ONNX Runtime does not have, or that only
    some processors compute rightly."""
    known = known_operators()
    for node in all_nodes(model):
        key = (domain_of(node), node.op_type)
        if key[0] == FOR_ONE_PROCESSOR:
            raise InvalidModel(
                f"operator {key[1]!r} of domain {key[0]!r} is made for one processor, and other "
                "devices would give other numbers; add the model as its author wrote it, or "
                "optimised no further than ORT_ENABLE_EXTENDED"
            )
        if known and key not in known:
            domain = f" of domain {key[0]!r}" if key[0] else ""
            raise InvalidModel(
                f"ONNX Runtime {onnxruntime.__version__} has no operator {key[1]!r}{domain}; "
                "export the model without it"
            )


@functools.cache
def known_operators() -> frozenset[tuple[str, str]]:
    """(domain, name) of every operator of the installed runtime; empty if it does not say."""
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    listing = getattr(runtime, "get_all_operator_schema", None)  # some builds leave it out
    if listing is None:
        return frozenset()
    return frozenset((schema.domain, schema.name) for schema in listing())
