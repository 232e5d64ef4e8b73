"""Inputs and outputs that are no tensors are refused from what the file says, before all else."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from orchestrator.segmentation.reading.source import open_model
from tests.support.constructs import FLOAT, ROWS, chain, node
from tests.support.models import model_of, save, value
from wire.errors import InvalidModel

MAPS = helper.make_sequence_type_proto(
    helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, []))
)
MAYBE = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, ROWS))


def classifier(declared: bool) -> onnx.ModelProto:
    """Ends in a sequence of maps, as scikit-learn's converter leaves it."""
    maps = node("ZipMap", ["x"], ["p"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
    output = helper.make_value_info("p", MAPS)
    if not declared:
        output.ClearField("type")
    return model_of([maps], [value("x", ["n", 2])], [output], domains=["ai.onnx.ml"])


def refusal(model: onnx.ModelProto, folder: Path) -> str:
    with pytest.raises(InvalidModel) as caught:
        open_model(save(model, folder / "model.onnx"))
    return str(caught.value)


@pytest.mark.parametrize("declared", [True, False])
def test_a_sequence_of_maps_is_refused_and_what_makes_it_named(
    declared: bool, tmp_path: Path
) -> None:
    told = refusal(classifier(declared), tmp_path)
    assert "output 'p' is no tensor but a sequence" in told
    assert "options={'zipmap': False}" in told


def test_an_optional_input_is_refused(tmp_path: Path) -> None:
    called = node("OptionalGetElement", ["x"], ["y"])
    inputs = [helper.make_value_info("x", MAYBE)]
    told = refusal(model_of([called], inputs, [value("y", ROWS)], opset=18), tmp_path)
    assert told == "input 'x' is no tensor but an optional; only tensors can be sent to a device"


def test_it_is_refused_before_anything_else_that_is_wrong(tmp_path: Path) -> None:
    model = classifier(declared=False)
    weight = model.graph.initializer.add(name="w", data_type=FLOAT, dims=[1 << 20])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="missing.bin")
    assert "no tensor" in refusal(model, tmp_path)


def test_an_output_of_a_function_of_its_own_is_for_inference_to_judge(tmp_path: Path) -> None:
    """Its name may be that of an operator that makes sequences."""
    opsets = [helper.make_opsetid("", 17)]
    inner = [node("Relu", ["a"], ["b"])]
    made = helper.make_function("local", "SequenceConstruct", ["a"], ["b"], inner, opsets)
    call = node("SequenceConstruct", ["x"], ["y"], domain="local")
    model = chain([call], functions=[made], domains=["local"])
    model.graph.output[0].ClearField("type")
    assert open_model(save(model, tmp_path / "model.onnx")).model.functions
