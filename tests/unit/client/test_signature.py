"""What a model takes, in ONNX Runtime's words, and what is said when feeds are not that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from crowdpipe.client.arrays import decode_array
from crowdpipe.client.signature import node_arg, output_names_of, tensors_of
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support import models
from wire.elements import Element
from wire.errors import InvalidInput
from wire.manifest import TensorSpec
from wire.messages.model import ModelSummary

IDS = TensorSpec("ids", Element.INT64, ("batch", "sequence"), 8 * 4 * 128)
MASK = TensorSpec("mask", Element.INT64, ("batch", "sequence"), 8 * 4 * 128)
SCALE = TensorSpec("scale", Element.FLOAT, (), 4)
ANY = TensorSpec("any", Element.STRING, (), 1 << 20, rank_known=False)
PIXELS = TensorSpec("pixels", Element.FLOAT16, ("1", "3", "side"), 2 * 3 * 64)


def model(*inputs: TensorSpec) -> ModelSummary:
    return ModelSummary(
        name="toy",
        digest="ab" * 32,
        nbytes=1,
        segments=1,
        inputs=inputs,
        outputs=(TensorSpec("y", Element.FLOAT, ("batch",), 16), SCALE),
        symbols={"batch": 4, "sequence": 128, "side": 64},
        input_limit_nbytes=1 << 20,
        output_limit_nbytes=1 << 20,
    )


def ids(rows: int = 2, length: int = 5) -> Any:
    return np.ones((rows, length), np.int64)


def refusal(feeds: Any, *inputs: TensorSpec) -> str:
    with pytest.raises(InvalidInput) as told:
        tensors_of(model(*inputs), feeds, "auto")
    return str(told.value)


def test_inputs_read_as_onnx_runtime_has_them():
    assert (node_arg(IDS).shape, node_arg(IDS).type) == (["batch", "sequence"], "tensor(int64)")
    assert (node_arg(PIXELS).shape, node_arg(PIXELS).type) == ([1, 3, "side"], "tensor(float16)")
    assert node_arg(SCALE).shape == []
    assert node_arg(ANY).type == "tensor(string)"


def test_feeds_become_tensors_in_the_models_order():
    tensors = tensors_of(
        model(IDS, SCALE), {"scale": np.float32(2), "ids": ids()}, transport="auto"
    )
    assert [tensor.name for tensor in tensors] == ["ids", "scale"]
    assert decode_array(tensors[1]) == 2
    assert tensors[1].shape == ()


def test_an_input_of_unknown_rank_takes_any_shape():
    for value in ("word", ["a", "b"], [["a"], ["b"]]):
        (tensor,) = tensors_of(model(ANY), {"any": value}, "auto")
        assert decode_array(tensor).tolist() == value


def test_a_missing_input_is_named_with_all_that_are_taken():
    said = refusal({"ids": ids()}, IDS, MASK)
    assert said == (
        "input 'mask' is missing: model 'toy' takes "
        "ids: tensor(int64) [batch, sequence], mask: tensor(int64) [batch, sequence]"
    )


def test_an_input_too_many_is_named():
    assert "there is no input 'q'" in refusal({"ids": ids(), "q": 1}, IDS)


def test_another_type_is_told_with_the_right_one():
    said = refusal({"ids": ids().astype(np.int32)}, IDS)
    assert said == (
        "input 'ids' has elements of type int32; the model takes tensor(int64); "
        "convert it with array.astype('int64')"
    )


@pytest.mark.parametrize(
    ("given", "spec", "converts"),
    [
        (np.float64, PIXELS, "array.astype('float16')"),
        (np.int64, PIXELS, "array.astype('float16')"),
        (np.float32, IDS, None),  # would cut fractions off
        (np.complex64, PIXELS, None),
        (np.str_, IDS, None),
    ],
)
def test_a_conversion_is_told_where_only_digits_are_lost(
    given: type, spec: TensorSpec, converts: str | None
):
    said = refusal({spec.name: np.zeros((1, 3, 8), given)}, spec)
    assert "has elements of type" in said
    assert ("convert it" in said) == (converts is not None)
    assert converts is None or converts in said


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((5,), "2 dimensions are needed, not 1"),
        ((5, 2), "'batch' may be at most 4; add the model again with --max-shape batch=5"),
    ],
)
def test_a_shape_that_does_not_fit_is_told(shape: tuple[int, ...], why: str):
    said = refusal({"ids": np.zeros(shape, np.int64)}, IDS)
    assert f"has shape {list(shape)}; the model takes [batch, sequence]" in said
    assert why in said


def test_a_fixed_dimension_is_told():
    said = refusal({"pixels": np.zeros((1, 4, 8), np.float16)}, PIXELS)
    assert "4 is given where 3 is needed" in said


def test_a_symbol_means_one_size():
    said = refusal({"ids": ids(2, 5), "mask": ids(2, 6)}, IDS, MASK)
    assert "'sequence' is 5 in 'ids' and 6 here" in said


def test_a_zero_sized_dimension_is_no_fault():
    (tensor,) = tensors_of(model(IDS), {"ids": ids(0, 5)}, "auto")
    assert tensor.shape == (0, 5)


def test_what_is_no_dict_or_no_array_is_told():
    assert "dict of arrays" in refusal([ids()], IDS)
    assert "is no array" in refusal({"ids": [[1], [1, 2]]}, IDS)


def test_outputs_are_all_or_those_named():
    assert output_names_of(model(IDS), None) == ("y", "scale")
    assert output_names_of(model(IDS), ["scale", "y"]) == ("scale", "y")
    with pytest.raises(InvalidInput, match="no output 'z'; it has y, scale"):
        output_names_of(model(IDS), ["z"])


def test_dimensions_without_a_name_read_as_in_onnx_runtime(tmp_path: Path) -> None:
    proto = models.model_of(
        [helper.make_node("Relu", ["x"], ["y"])],
        [models.value("x", [None, "width", 3])],
        [models.value("y", [None, "width", 3])],
    )
    path = models.save(proto, tmp_path / "model.onnx")
    manifest = segment(path, "model", FolderSink(tmp_path / "blobs"))
    session = onnxruntime.InferenceSession(path)
    mine, theirs = node_arg(manifest.inputs[0]), session.get_inputs()[0]
    assert (mine.name, mine.shape, mine.type) == (theirs.name, theirs.shape, theirs.type)
    assert mine.shape == [None, "width", 3]
    assert node_arg(manifest.outputs[0]).shape == session.get_outputs()[0].shape
