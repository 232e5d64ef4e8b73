"""What cannot be served is refused with `InvalidModel` and a sentence that says why."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from orchestrator.segmentation.checking.verify import identical, run_chain, run_whole
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.skeleton import read_skeleton
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import WIDTH, floats, mlp, model_of, row_feeds, save, value
from wire.errors import InvalidModel, InvalidName, UserError
from wire.manifest import Manifest


def cut(path: Path, options: SegmentOptions | None = None) -> Manifest:
    return segment(path, "test", FolderSink(path.parent / "blobs"), options=options)


def external(path: Path, location: str, offset: str = "0", length: str | None = None) -> Path:
    """The MLP with its first weight external, as these entries say."""
    model = mlp()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": offset, "length": length}
    for key, text in entries.items():
        if text is not None:
            weight.external_data.add(key=key, value=text)
    return save(model, path)


def skeleton_of(data: bytes) -> bytes:
    return read_skeleton(io.BytesIO(data), len(data), "model.onnx")


def weights_file(folder: Path) -> Path:
    array = floats(np.random.default_rng(0), WIDTH, WIDTH)
    file = folder / "weights.bin"
    file.write_bytes(array.tobytes())
    return file


def refuses(path: Path, words: str) -> None:
    with pytest.raises(InvalidModel, match=words):
        cut(path)
    blobs = path.parent / "blobs"
    assert not list(blobs.iterdir())


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x00" * 64, b"PK\x03\x04" * 300])
def test_a_file_that_is_not_onnx_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    refuses(path, "not an ONNX|not a file")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    refuses(tmp_path / "nothing.onnx", "cannot read")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    refuses(tmp_path, "cannot read|not a file")


@settings(max_examples=60, deadline=None)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_a_truncated_model_never_passes(fraction: float) -> None:
    data = mlp().SerializeToString(deterministic=True)
    part = data[: int(len(data) * fraction)]
    try:
        model = onnx.ModelProto.FromString(skeleton_of(part))
    except InvalidModel:
        return
    assert not model.graph.output or not model.opset_import


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=400))
def test_random_bytes_are_copied_or_refused(data: bytes) -> None:
    try:
        assert skeleton_of(data) == data
    except InvalidModel:
        return


@pytest.mark.parametrize(
    "location",
    [
        "/etc/hostname",
        "../weights.bin",
        "sub/../../weights.bin",
        "C:\\weights.bin",
        "..\\weights.bin",
        "//host/share",
        "",
        "a\0b",
    ],
)
def test_weights_outside_the_folder_are_refused(location: str, tmp_path: Path) -> None:
    refuses(external(tmp_path / "model.onnx", location), "inside the model's own folder")


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "weights.bin").symlink_to(weights_file(tmp_path))
    refuses(external(inside / "model.onnx", "weights.bin"), "link that leaves")


def test_a_linked_folder_that_leaves_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    weights_file(tmp_path)
    (inside / "out").symlink_to(tmp_path)
    refuses(external(inside / "model.onnx", "out/weights.bin"), "link that leaves")


def test_missing_external_weights_are_refused(tmp_path: Path) -> None:
    refuses(external(tmp_path / "model.onnx", "weights.bin"), "missing beside the model")


@pytest.mark.parametrize(
    ("offset", "length", "words"),
    [
        ("1", None, "beyond the end"),
        ("99999999", None, "beyond the end"),
        ("-1", None, "whole number"),
        ("0", "12", "its shape needs"),
        ("0", "-5", "whole number"),
        ("zero", None, "whole number"),
        ("9" * 40, None, "whole number"),
    ],
)
def test_lying_offsets_and_lengths_are_refused(
    offset: str, length: str | None, words: str, tmp_path: Path
) -> None:
    weights_file(tmp_path)
    refuses(external(tmp_path / "model.onnx", "weights.bin", offset, length), words)


def test_external_weights_in_the_folder_are_served(tmp_path: Path) -> None:
    weights_file(tmp_path)
    path = external(tmp_path / "model.onnx", "weights.bin")
    manifest = cut(path, SegmentOptions(segments=3))
    whole = run_whole(path, row_feeds(), exact=True)
    assert identical(run_chain(tmp_path / "blobs", manifest, row_feeds(), exact=True), whole)


def test_other_external_weights_make_another_model(tmp_path: Path) -> None:
    file = weights_file(tmp_path)
    path = external(tmp_path / "model.onnx", "weights.bin")
    before = open_model(path).blob
    file.write_bytes(bytes(len(file.read_bytes())))
    assert open_model(path).blob.digest != before.digest


def broken(change: Callable[[onnx.ModelProto], None]) -> onnx.ModelProto:
    model = mlp()
    change(model)
    return model


def _cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "y"


def _dangling(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "nowhere"


def _twice(model: onnx.ModelProto) -> None:
    model.graph.node[3].output[0] = "m0"


def _short(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].raw_data = b"1234"


def _negative(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = -1


def _enormous(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 1 << 60


def _unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "Matmul"


def _foreign_operator(model: onnx.ModelProto) -> None:
    model.graph.node[2].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))


def _no_outputs(model: onnx.ModelProto) -> None:
    del model.graph.output[:]


def _no_opset(model: onnx.ModelProto) -> None:
    del model.opset_import[:]


def _unknown_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = "nothing"


def _unknown_type(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].data_type = 99


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_cycle, "cycle"),
        (_dangling, "nothing in it makes"),
        (_twice, "twice"),
        (_short, "its shape needs"),
        (_negative, "negative"),
        (_enormous, "cannot be true"),
        (_unknown_operator, "Matmul"),
        (_foreign_operator, "com.example"),
        (_no_outputs, "no outputs"),
        (_no_opset, "no opset"),
        (_unknown_output, "nothing"),
        (_unknown_type, "unknown"),
    ],
)
def test_a_broken_model_is_refused(
    change: Callable[[onnx.ModelProto], None], words: str, tmp_path: Path
) -> None:
    refuses(save(broken(change), tmp_path / "model.onnx"), words)


@pytest.mark.parametrize(
    ("dims", "places", "values", "words"),
    [
        ([WIDTH], [WIDTH], [2.0], "outside the tensor"),
        ([WIDTH], [-1], [2.0], "outside the tensor"),
        ([WIDTH], [0, 1], [2.0], "1 values, but 2 indices"),
        ([1 << 20, 1 << 20], [0], [2.0], "cannot be made dense"),
        ([-1], [0], [2.0], "cannot be made dense"),
    ],
)
def test_sparse_weights_that_lie_are_refused(
    dims: list[int], places: list[int], values: list[float], words: str, tmp_path: Path
) -> None:
    model = mlp()
    held = helper.make_tensor("sparse", TensorProto.FLOAT, [len(values)], values)
    indices = helper.make_tensor("places", TensorProto.INT64, [len(places)], places)
    model.graph.sparse_initializer.append(onnx.SparseTensorProto(values=held, indices=indices))
    model.graph.sparse_initializer[0].dims.extend(dims)
    refuses(save(model, tmp_path / "model.onnx"), words)


def test_sparse_weights_outside_the_model_are_refused(tmp_path: Path) -> None:
    model = mlp()
    held = onnx.TensorProto(name="sparse", data_type=1, dims=[1], data_location=1)
    held.external_data.add(key="location", value="../elsewhere")
    indices = helper.make_tensor("places", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(onnx.SparseTensorProto(values=held, indices=indices))
    model.graph.sparse_initializer[0].dims.append(3)
    refuses(save(model, tmp_path / "model.onnx"), "outside of the model file")


def test_an_input_that_is_a_sequence_is_refused(tmp_path: Path) -> None:
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", WIDTH])
    whole = helper.make_value_info("x", helper.make_sequence_type_proto(element))
    node = helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0)
    model = model_of([node], [whole], [value("y", None)])
    refuses(save(model, tmp_path / "model.onnx"), "no tensor")


def test_an_output_that_is_a_sequence_is_refused(tmp_path: Path) -> None:
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, ["batch", WIDTH])
    made = helper.make_value_info("y", helper.make_sequence_type_proto(element))
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["y"])
    model = model_of([node], [value("x", ["batch", WIDTH])], [made])
    refuses(save(model, tmp_path / "model.onnx"), "no tensor")


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    call = helper.make_node("Again", ["a"], ["b"], domain="local")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    function = helper.make_function("local", "Again", ["a"], ["b"], [call], opsets)
    model = model_of(
        [helper.make_node("Again", ["x"], ["y"], domain="local")],
        [value("x", [WIDTH])],
        [value("y", [WIDTH])],
        functions=[function],
        domains=["local"],
    )
    refuses(save(model, tmp_path / "model.onnx"), "calls itself|checker")


def test_functions_that_multiply_are_refused_before_they_do(tmp_path: Path) -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    functions = [_ten_calls(level, opsets) for level in range(9)]
    model = model_of(
        [helper.make_node("Level8", ["x"], ["y"], domain="local")],
        [value("x", [WIDTH])],
        [value("y", [WIDTH])],
        functions=functions,
        domains=["local"],
    )
    refuses(save(model, tmp_path / "model.onnx"), "inlining its functions gives over")


def _ten_calls(level: int, opsets: list[onnx.OperatorSetIdProto]) -> onnx.FunctionProto:
    kind, domain = (f"Level{level - 1}", "local") if level else ("Relu", "")
    names = ["a", *(f"v{index}" for index in range(9)), "b"]
    nodes = [
        helper.make_node(kind, [before], [after], domain=domain)
        for before, after in itertools.pairwise(names)
    ]
    return helper.make_function("local", f"Level{level}", ["a"], ["b"], nodes, opsets)


def test_a_name_that_cannot_stand_in_a_topic_is_refused(tmp_path: Path) -> None:
    path = save(mlp(), tmp_path / "model.onnx")
    with pytest.raises(InvalidName):
        segment(path, "No Such Name", FolderSink(tmp_path / "blobs"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (SegmentOptions(segments=99), "at most 10 segments"),
        (SegmentOptions(cut_after=("nothing",)), "cannot cut after 'nothing'"),
        (SegmentOptions(max_shape={"width": 3}), "its dimensions are: batch"),
    ],
)
def test_options_that_do_not_fit_the_model_are_refused(
    options: SegmentOptions, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        cut(save(mlp(), tmp_path / "model.onnx"), options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SegmentOptions(segments=0),
        lambda: SegmentOptions(max_segment_nbytes=0),
        lambda: SegmentOptions(segments=2, cut_after=("a",)),
        lambda: SegmentOptions(max_shape={"batch": 0}),
    ],
)
def test_options_that_contradict_are_refused(make: Callable[[], SegmentOptions]) -> None:
    with pytest.raises(UserError):
        make()


def test_a_few_bytes_that_ask_for_terabytes_are_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["bomb"]),
        helper.make_node("ReduceSum", ["bomb"], ["total"], keepdims=0),
        helper.make_node("Add", ["x", "total"], ["y"]),
    ]
    shape = {"shape": np.array([1 << 20, 1 << 20], np.int64)}
    model = model_of(nodes, [value("x", ["batch", WIDTH])], [value("y", None)], shape)
    refuses(save(model, tmp_path / "bomb.onnx"), "'bomb' would take 4096 GiB")


def test_bounds_that_multiply_are_no_reason_to_refuse(tmp_path: Path) -> None:
    model = model_of(
        [helper.make_node("Relu", ["x"], ["y"])], [value("x", list("cdef"))], [value("y", None)]
    )
    path = save(model, tmp_path / "wide.onnx")
    assert cut(path).outputs[0].bound_nbytes == 512**4 * 4
