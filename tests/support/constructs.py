"""What an ONNX file may contain, one small model for each: what is served and what is refused.

`docs/models.md` is written from this list, and the tests run it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from orchestrator.segmentation.verify import Feeds
from tests.support.models import (
    MODELS,
    WIDTH,
    floats,
    mlp,
    model_of,
    row_feeds,
    save,
    tensor,
    value,
)

ROWS = ["batch", WIDTH]
FLOAT = TensorProto.FLOAT


@dataclass(frozen=True)
class Served:
    """A construct that is cut at every place and stays exact."""

    what: str
    make: Callable[[], onnx.ModelProto]
    feeds: Callable[[], Feeds] = row_feeds


@dataclass(frozen=True)
class RefusedModel:
    """A construct that is refused before anything starts. `write` puts the file into a folder."""

    what: str
    write: Callable[[Path], Path]
    words: str


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, outputs, **attributes)


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def chain(
    nodes: list[onnx.NodeProto], weights: dict[str, NDArray[Any]] | None = None, **more: Any
) -> onnx.ModelProto:
    """A model from `x` [batch, 24] to `y`."""
    return model_of(nodes, [value("x", ROWS)], [value("y", None)], weights, **more)


def through(kind: int, opset: int = 21) -> Callable[[], onnx.ModelProto]:
    """`x` as another type across a cut, and back."""

    def make() -> onnx.ModelProto:
        nodes = [
            node("Relu", ["x"], ["r"]),
            node("Cast", ["r"], ["other"], to=kind),
            node("Cast", ["other"], ["back"], to=FLOAT),
            node("Neg", ["back"], ["y"]),
        ]
        return chain(nodes, opset=opset, ir_version=10)

    return make


def half() -> onnx.ModelProto:
    nodes = [
        node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        node("MatMul", ["h", "w"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("Relu", ["a"], ["r"]),
        node("MatMul", ["r", "w"], ["n"]),
        node("Cast", ["n"], ["y"], to=FLOAT),
    ]
    w, b = floats(rng(), WIDTH, WIDTH).astype(np.float16), floats(rng(), WIDTH).astype(np.float16)
    return chain(nodes, {"w": w, "b": b})


def qdq() -> onnx.ModelProto:
    weights: dict[str, NDArray[Any]] = {
        "s": np.array(0.05, np.float32),
        "z": np.array(0, np.int8),
        "w": rng().integers(-90, 90, (WIDTH, WIDTH)).astype(np.int8),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "s", "z"], ["dw"]),
        node("MatMul", ["d", "dw"], ["m"]),
        node("Relu", ["m"], ["y"]),
    ]
    return chain(nodes, weights)


def dynamic() -> onnx.ModelProto:
    weights: dict[str, NDArray[Any]] = {
        "w": rng().integers(0, 200, (WIDTH, WIDTH)).astype(np.uint8),
        "wz": np.array(100, np.uint8),
    }
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        node("MatMulInteger", ["q", "w", "zero", "wz"], ["i"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["f", "scale"], ["y"]),
    ]
    return chain(nodes, weights)


def words() -> onnx.ModelProto:
    nodes = [
        node("StringConcat", ["s", "end"], ["ended"]),
        node("StringConcat", ["ended", "end"], ["y"]),
    ]
    ends = {"end": np.array(["!"], object)}
    kind = TensorProto.STRING
    return model_of(nodes, [value("s", ["n"], kind)], [value("y", ["n"], kind)], ends, opset=20)


def contributed() -> onnx.ModelProto:
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("FastGelu", ["m"], ["g"], domain="com.microsoft"),
        node("QuickGelu", ["g"], ["y"], domain="com.microsoft"),
    ]
    return chain(nodes, {"w": floats(rng(), WIDTH, WIDTH)}, domains=["com.microsoft"])


def several_outputs() -> onnx.ModelProto:
    nodes = [
        node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        node("TopK", ["a", "k"], ["top", "places"], axis=1),
        node("Concat", ["b", "top"], ["y"], axis=1),
    ]
    return chain(nodes, {"k": np.array([3], np.int64)}, opset=18)


def empty_names() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["r"]), node("Clip", ["r", "", "most"], ["y"])]
    return chain(nodes, {"most": np.array(0.2, np.float32)})


def zero_sized() -> onnx.ModelProto:
    nodes = [
        node("Slice", ["x", "none", "none"], ["nothing"]),
        node("Concat", ["nothing", "x"], ["c"], axis=0),
        node("ReduceSum", ["c"], ["total"], keepdims=0),
        node("Mul", ["x", "total"], ["y"]),
    ]
    return chain(nodes, {"none": np.array([0], np.int64)})


def passed_through() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["a"]), node("Neg", ["a"], ["b"]), node("Abs", ["b"], ["y"])]
    outputs = [value(name, ROWS) for name in ("x", "a", "y")]
    return model_of(nodes, [value("x", ROWS)], outputs)


def defaulted() -> onnx.ModelProto:
    model = mlp()
    model.graph.input.append(value("w1", [WIDTH, WIDTH]))
    return model


def large_constant() -> onnx.ModelProto:
    held = tensor("", floats(rng(), WIDTH, WIDTH))
    nodes = [
        node("Constant", [], ["big"], value=held),
        node("MatMul", ["x", "big"], ["m"]),
        node("Relu", ["m"], ["y"]),
    ]
    return chain(nodes)


def sequence() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("SequenceConstruct", ["a", "x"], ["pair"]),
        node("ConcatFromSequence", ["pair"], ["b"], axis=0),
        node("Neg", ["b"], ["y"]),
    ]
    return chain(nodes)


def optional() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Optional", ["a"], ["wrapped"]),
        node("OptionalGetElement", ["wrapped"], ["b"]),
        node("Neg", ["b"], ["y"]),
    ]
    return chain(nodes, opset=18)


def data_dependent() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("NonZero", ["r"], ["places"]),
        node("Cast", ["places"], ["f"], to=FLOAT),
        node("Neg", ["f"], ["y"]),
    ]
    return chain(nodes)


def sparse() -> onnx.ModelProto:
    """A weight stored as its few values and their places."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    model = chain(nodes)
    places = rng().choice(WIDTH * WIDTH, 60, replace=False)
    places.sort()
    values = helper.make_tensor("w", FLOAT, [60], floats(rng(), 60))
    indices = helper.make_tensor("places", TensorProto.INT64, [60], places)
    made = helper.make_sparse_tensor(values, indices, [WIDTH, WIDTH])
    model.graph.sparse_initializer.append(made)
    return model


def string_feeds() -> Feeds:
    return {"s": np.array(["one", "zwei", ""], object)}


def _known(name: str) -> tuple[Callable[[], onnx.ModelProto], Callable[[], Feeds]]:
    return MODELS[name]


SERVED = (
    Served("skip connections: a tensor needed several segments later", *_known("mlp")),
    Served("branches over images: Conv, BatchNormalization, pooling", *_known("convolutions")),
    Served("If, with captured values and weights in its bodies", *_known("conditional")),
    Served("Loop, with captured values and weights in its body", *_known("loop")),
    Served("Scan, with captured weights", *_known("scan")),
    Served("model-local functions, nested, and used in a body only", *_known("with_function")),
    Served("tied weights, and equal weights under two names", *_known("tied")),
    Served("shape arithmetic on symbolic dimensions", *_known("shape_arithmetic")),
    Served("ONNX Runtime's own operators (`com.microsoft`)", contributed),
    Served("several outputs of one node", several_outputs),
    Served("optional inputs that are left out", empty_names),
    Served("tensors of rank 0 and of size zero", zero_sized),
    Served("inputs and intermediate values that are outputs", passed_through),
    Served("initializers that are also inputs (fixed to their value)", defaulted),
    Served("large Constant nodes", large_constant),
    Served("sparse initializers (stored dense)", sparse),
    Served("dimensions that depend on data", data_dependent),
    Served("quantised: QuantizeLinear and DequantizeLinear", qdq),
    Served("quantised: as it comes (DynamicQuantizeLinear)", dynamic),
    Served("float16, also where ONNX Runtime computes it in float32", half),
    Served("bfloat16 at a cut", through(TensorProto.BFLOAT16)),
    Served("float8 (E4M3FN) at a cut", through(TensorProto.FLOAT8E4M3FN)),
    Served("float8 (E5M2) at a cut", through(TensorProto.FLOAT8E5M2)),
    Served("int4 at a cut", through(TensorProto.INT4)),
    Served("uint4 at a cut", through(TensorProto.UINT4)),
    Served("double at a cut", through(TensorProto.DOUBLE)),
    Served("strings, as inputs, at a cut and as outputs", words, string_feeds),
    Served("sequences inside (never cut there)", sequence),
    Served("optionals inside (never cut there)", optional),
)


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
    RefusedModel("an opset that ONNX Runtime does not take yet", _changed(_newer), "opset 99"),
    RefusedModel("a type that an operator has no kernel for", _saved(_kernelless), "no kernel"),
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
