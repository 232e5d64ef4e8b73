"""Constructs that are refused, each with the words of the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import TensorProto, helper

from tests.support.constructs import FLOAT, ROWS, chain, node, training
from tests.support.models import (
    WIDTH,
    convolutions,
    mlp,
    model_of,
    save,
    value,
)


@dataclass(frozen=True)
class RefusedModel:
    """A construct that is refused before anything starts. `write` puts the file into a folder."""

    what: str
    write: Callable[[Path], Path]
    words: str


def _saved(make: Callable[[], onnx.ModelProto]) -> Callable[[Path], Path]:
    return lambda folder: save(make(), folder / "model.onnx")


def _changed(change: Callable[[onnx.ModelProto], Any]) -> Callable[[Path], Path]:
    def make() -> onnx.ModelProto:
        model = mlp()
        change(model)
        return model

    return _saved(make)


def _external(location: str, offset: int = 0) -> Callable[[Path], Path]:
    """A weight of `mlp` that is said to lie in `location`, where there are too few bytes."""

    def write(folder: Path) -> Path:
        inside = folder / "inside"
        inside.mkdir()
        (folder / "outside.bin").write_bytes(bytes(WIDTH * WIDTH * 4))
        (inside / "weights.bin").write_bytes(bytes(WIDTH * WIDTH * 4))
        (inside / "link.bin").symlink_to(folder / "outside.bin")
        model = mlp()
        weight = model.graph.initializer[0]
        weight.ClearField("raw_data")
        for key, text in (("location", location), ("offset", str(offset))):
            weight.external_data.add(key=key, value=text)
        weight.data_location = TensorProto.EXTERNAL
        return save(model, inside / "model.onnx")

    return write


def _sequence_input() -> onnx.ModelProto:
    element = helper.make_tensor_type_proto(FLOAT, ROWS)
    whole = helper.make_value_info("x", helper.make_sequence_type_proto(element))
    call = node("ConcatFromSequence", ["x"], ["y"], axis=0)
    return model_of([call], [whole], [value("y", None)])


def _sequence_output() -> onnx.ModelProto:
    element = helper.make_tensor_type_proto(FLOAT, ROWS)
    made = helper.make_value_info("y", helper.make_sequence_type_proto(element))
    return model_of([node("SequenceConstruct", ["x"], ["y"])], [value("x", ROWS)], [made])


def _kernelless() -> onnx.ModelProto:
    nodes = [
        node("Cast", ["x"], ["f"], to=TensorProto.BFLOAT16),
        node("Tanh", ["f"], ["t"]),
        node("Cast", ["t"], ["y"], to=FLOAT),
    ]
    return chain(nodes)


def _endless() -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    calls = [
        helper.make_function(
            "local", a, ["a"], ["b"], [node(b, ["a"], ["b"], domain="local")], opsets
        )
        for a, b in (("Ping", "Pong"), ("Pong", "Ping"))
    ]
    call = node("Ping", ["x"], ["y"], domain="local")
    return chain([call], functions=calls, domains=["local"])


def _bomb() -> onnx.ModelProto:
    """Functions of ten calls each, nine deep: a thousand million nodes."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    functions = []
    for level in range(9):
        kind, domain = (f"L{level - 1}", "local") if level else ("Relu", "")
        names = ["a", *(f"v{index}" for index in range(9)), "b"]
        calls = [node(kind, [names[i]], [names[i + 1]], domain=domain) for i in range(10)]
        functions.append(helper.make_function("local", f"L{level}", ["a"], ["b"], calls, opsets))
    call = node("L8", ["x"], ["y"], domain="local")
    return chain([call], functions=functions, domains=["local"])


def keeping(opset: int = 15) -> onnx.ModelProto:
    """Its running statistics are no outputs: ONNX Runtime keeps them from call to call."""
    model = training(opset)
    del model.graph.output[1:]
    return model


def _optimised(model: onnx.ModelProto, path: Path) -> Path:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3  # it warns that the result is for this processor alone
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return path


def _for_one_processor(folder: Path) -> Path:
    return _optimised(convolutions(), folder / "model.onnx")


def _runtime_format(folder: Path) -> Path:
    return _optimised(mlp(), folder / "model.ort")


def _text(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_text("This is not a model at all.\n" * 10)
    return path


def _pointer(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'ab' * 32}\nsize 90868376\n"
    )
    return path


def _truncated(folder: Path) -> Path:
    path = save(mlp(), folder / "model.onnx")
    path.write_bytes(path.read_bytes()[:-200])
    return path


def _unheard(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type, model.graph.node[0].domain = "Unheard", "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))


def _newer(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 99


def _cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = model.graph.node[-2].output[0]


def _claims(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 1 << 50


REFUSED = (
    RefusedModel("a file that is not ONNX", _text, "not an ONNX file"),
    RefusedModel("a truncated file", _truncated, "truncated"),
    RefusedModel("what Git LFS leaves in place of a file", _pointer, "git lfs pull"),
    RefusedModel(
        "an input that is a sequence, map or optional", _saved(_sequence_input), "no tensor"
    ),
    RefusedModel("an output that is one", _saved(_sequence_output), "no tensor"),
    RefusedModel("an operator that ONNX Runtime does not have", _changed(_unheard), "no operator"),
    RefusedModel("a model optimised for one processor", _for_one_processor, "one processor"),
    RefusedModel("ONNX Runtime's own format", _runtime_format, "made from"),
    RefusedModel("an opset that ONNX Runtime does not take yet", _changed(_newer), "opset 99"),
    RefusedModel("a type that an operator has no kernel for", _saved(_kernelless), "no kernel"),
    RefusedModel("statistics that change from call to call", _saved(keeping), "training mode"),
    RefusedModel("weights outside the model's folder", _external("../outside.bin"), "own folder"),
    RefusedModel("weights at an absolute path", _external("/etc/passwd"), "own folder"),
    RefusedModel("weights behind a link that leaves", _external("link.bin"), "link that leaves"),
    RefusedModel("weights in a file that is missing", _external("gone.bin"), "missing"),
    RefusedModel("an offset beyond the file's end", _external("weights.bin", 64), "beyond the end"),
    RefusedModel("a shape that claims petabytes", _changed(_claims), "cannot be true"),
    RefusedModel("a cyclic graph", _changed(_cycle), "cycle"),
    RefusedModel("functions that call each other", _saved(_endless), "calls itself|checker"),
    RefusedModel("functions that expand to a thousand million nodes", _saved(_bomb), "inlining"),
)
