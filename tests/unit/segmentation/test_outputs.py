"""Which values may be outputs: inputs, weights, the same value twice, and nothing that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from orchestrator.segmentation.checking.check import check as check_model
from orchestrator.segmentation.checking.verify import Feeds
from tests.support.cutting import ROWS, check, cut, relu
from tests.support.models import model_of, row_feeds, save, value
from wire.elements import Element
from wire.errors import InvalidModel, UserError

KINDS = (Element.FLOAT, Element.INT64, Element.STRING, Element.BFLOAT16, Element.INT4)


def passing(*kinds: int) -> onnx.ModelProto:
    """A model without nodes: its outputs are its inputs, in the opposite order."""
    inputs = [value(f"x{at}", ["n"], kind) for at, kind in enumerate(kinds)]
    return model_of([], inputs, list(reversed(inputs)), opset=21, ir_version=10)


def some(kind: int) -> Any:
    if kind == Element.STRING:
        return np.array(["one", ""], object)
    kinds = {Element.BFLOAT16: ml_dtypes.bfloat16, Element.INT4: ml_dtypes.int4}
    return np.array([1, -2]).astype(kinds.get(kind) or helper.tensor_dtype_to_np_dtype(kind))


def test_inputs_of_every_kind_are_given_back_by_a_model_without_nodes(tmp_path: Path) -> None:
    feeds = {f"x{at}": some(kind) for at, kind in enumerate(KINDS)}
    manifest = check(passing(*KINDS), tmp_path, feeds)
    assert [tensor.name for tensor in manifest.outputs] == ["x4", "x3", "x2", "x1", "x0"]
    assert [cut.names for cut in manifest.cuts] == [
        ("x0", "x1", "x2", "x3", "x4"),
        ("x4", "x3", "x2", "x1", "x0"),
    ]
    assert all(tensor.passing for tensor in manifest.cuts[0].tensors)
    (only,) = manifest.segments
    assert (only.inputs, only.operators, only.weights) == ((), ("Constant",), ())


def test_a_model_without_nodes_passes_its_check(tmp_path: Path) -> None:
    path = save(passing(Element.FLOAT, Element.INT64), tmp_path / "model.onnx")
    figures = check_model(path, "test", tmp_path / "blobs")
    assert figures.exact_holds
    assert figures.fast_holds
    assert figures.difference == 0.0


def test_a_model_without_nodes_is_one_segment_and_no_more(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="at most 1"):
        cut(passing(Element.FLOAT), tmp_path, segments=2)


def test_nodes_whose_values_nobody_wants_are_not_run(tmp_path: Path) -> None:
    ports = [value("x", ROWS)]
    manifest = check(model_of([relu("x", "lost")], ports, ports), tmp_path, row_feeds())
    assert manifest.segments[0].operators == ("Constant",)


def weights_only() -> onnx.ModelProto:
    held = {"w": np.arange(3, dtype=np.float32), "big": np.ones((9, 300), np.float32)}
    return model_of([], [], [value("w", [3]), value("big", [9, 300])], held)


def weights_beside_inputs() -> onnx.ModelProto:
    held = {"w": np.arange(3, dtype=np.float32)}
    return model_of([], [value("x", ROWS)], [value("w", [3]), value("x", ROWS)], held)


def no_inputs() -> onnx.ModelProto:
    return model_of([relu("w", "y")], [], [value("y", [3])], {"w": np.ones(3, np.float32)})


def without_opset() -> onnx.ModelProto:
    """Of ONNX's own operators it imports none, and one of its outputs is a weight."""
    gelu = helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")
    outputs = [value("y", ROWS), value("w", [3])]
    held = {"w": np.ones(3, np.float32)}
    model = model_of([gelu], [value("x", ROWS)], outputs, held, domains=["com.microsoft"])
    del model.opset_import[0]
    return model


def given_twice() -> onnx.ModelProto:
    outputs = [value("x", ROWS), value("y", ROWS), value("x", ROWS), value("y", ROWS)]
    return model_of([relu("x", "y")], [value("x", ROWS)], outputs)


@pytest.mark.parametrize(
    ("make", "feeds"),
    [
        (weights_only, {}),
        (weights_beside_inputs, row_feeds()),
        (no_inputs, {}),
        (without_opset, row_feeds()),
        (given_twice, row_feeds()),
    ],
)
def test_other_odd_outputs_are_exact(
    make: Callable[[], onnx.ModelProto], feeds: Feeds, tmp_path: Path
) -> None:
    model = make()
    manifest = check(model, tmp_path, feeds)
    wanted = dict.fromkeys(output.name for output in model.graph.output)
    assert [tensor.name for tensor in manifest.outputs] == list(wanted)


def test_a_model_without_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="no outputs"):
        cut(model_of([relu("x", "y")], [value("x", ROWS)], []), tmp_path)


def test_an_input_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime does not load it either."""
    ports = [value("x", ROWS), value("x", ROWS)]
    with pytest.raises(InvalidModel, match="multiple times"):
        cut(model_of([relu("x", "y")], ports, [value("y", ROWS)]), tmp_path)
