"""A BatchNormalization in training is served where it overwrites nothing, and else refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from orchestrator.segmentation.checking.verify import identical, open_session, run_session
from orchestrator.segmentation.reading.training import OVERWRITING_OPSET
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.backend_cases import BackendCase, try_everywhere
from tests.support.constructs import training
from tests.support.models import WIDTH, row_feeds, save
from tests.support.refused_models import keeping
from wire.errors import InvalidModel

OPSETS = (7, OVERWRITING_OPSET, 14, 15)


def answers_twice_alike(model: onnx.ModelProto, folder: Path) -> bool:
    """Whether one session of the whole model gives the same answer twice."""
    session = open_session(save(model, folder / "model.onnx"), exact=True)
    return identical(run_session(session, row_feeds()), run_session(session, row_feeds()))


@pytest.mark.parametrize("opset", OPSETS)
def test_statistics_that_are_outputs_are_kept_nowhere(opset: int, tmp_path: Path) -> None:
    assert answers_twice_alike(training(opset), tmp_path)
    outcome = try_everywhere(BackendCase("training", training(opset), dict(row_feeds())))
    assert (outcome.verdict, outcome.reason) == ("exact", "")


@pytest.mark.parametrize("opset", OPSETS)
def test_statistics_are_refused_where_onnx_runtime_keeps_them(opset: int, tmp_path: Path) -> None:
    """The whole model's second answer says whether it does."""
    path = save(keeping(opset), tmp_path / "model.onnx")
    if answers_twice_alike(keeping(opset), tmp_path):
        assert segment(path, "test", FolderSink(tmp_path / "blobs")).segments
        return
    assert opset >= OVERWRITING_OPSET
    with pytest.raises(InvalidModel, match=r"in training mode.*model\.eval\(\)"):
        segment(path, "test", FolderSink(tmp_path / "blobs"))


def test_one_without_names_for_its_statistics_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime would end with a memory fault, and whoever runs it too."""
    model = keeping()
    del model.graph.node[2:]
    model.graph.node[1].output[:] = ["y", "", ""]
    path = save(model, tmp_path / "model.onnx")
    with pytest.raises(InvalidModel, match="in training mode"):
        segment(path, "test", FolderSink(tmp_path / "blobs"))


def test_one_in_a_body_is_refused_too(tmp_path: Path) -> None:
    inner = list(keeping().graph.node)
    body = helper.make_graph(inner, "body", [], list(keeping().graph.output))
    model = keeping()
    choice = helper.make_node("Constant", [], ["c"], value=_true())
    call = helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)
    del model.graph.node[:]
    model.graph.node.extend([choice, call])
    model.graph.output[0].name = "z"
    path = save(model, tmp_path / "model.onnx")
    with pytest.raises(InvalidModel, match="in training mode"):
        segment(path, "test", FolderSink(tmp_path / "blobs"))


def test_one_of_constants_alone_is_not_cloned_where_it_would_overwrite(tmp_path: Path) -> None:
    model = training()
    del model.graph.node[0]
    model.graph.node[0].input[0] = "r"
    rows = np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)
    model.graph.initializer.append(onnx.numpy_helper.from_array(rows, "r"))
    model.graph.node[1].input[1] = "x"
    model.graph.node.append(helper.make_node("Add", ["mean.after", "y"], ["z"]))
    model.graph.output[0].name = "z"
    feeds = {"x": np.ones((3, WIDTH), np.float32)}
    outcome = try_everywhere(BackendCase("constants", model, feeds))
    assert (outcome.verdict, outcome.reason) == ("exact", "")


def _true() -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(True))
