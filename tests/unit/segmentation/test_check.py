"""Checking a model against its segments: made-up inputs, verdicts, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from orchestrator.segmentation.checking import check as checking
from orchestrator.segmentation.checking.check import CheckFigures, check
from orchestrator.segmentation.checking.generated import STYLES, FillPlan, generate
from orchestrator.segmentation.checking.input_ranges import InputRange, input_ranges
from orchestrator.segmentation.checking.input_sizes import candidate_sizes
from orchestrator.segmentation.checking.verify import Outputs, identical, to_array, to_value
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.normalise import normalise
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.reading.walk import dataflow
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.typing.types import infer_types
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import MODELS, floats, mlp, model_of, row_feeds, save, value
from wire.errors import InvalidInput, InvalidModel
from wire.manifest import Manifest

RNG = np.random.default_rng(2)
INT = TensorProto.INT64
COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)  # no value of ONNX Runtime's Python
KINDS = [k for k in TensorProto.DataType.values() if 0 < k < 27 and k not in COMPLEX]


def embedding() -> onnx.ModelProto:
    """Token ids, a mask, segment ids and a rate that must be 16000 or 8000."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["same"], to=INT),
        helper.make_node("Gather", ["words", "same"], ["w"], axis=0),
        helper.make_node("Gather", ["kinds", "kind_ids"], ["k"], axis=0),
        helper.make_node("Add", ["w", "k"], ["sum"]),
        helper.make_node("Cast", ["mask"], ["weights"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["weights", "last"], ["wide"]),
        helper.make_node("Mul", ["sum", "wide"], ["masked"]),
        helper.make_node("Equal", ["rate", "fast"], ["is_fast"]),
        helper.make_node("Equal", ["rate", "slow"], ["is_slow"]),
        helper.make_node("Or", ["is_fast", "is_slow"], ["known"]),
        helper.make_node("Cast", ["known"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["masked", "factor"], ["rows"]),
        helper.make_node("MatMul", ["rows", "w0"], ["m"]),
        helper.make_node("Tanh", ["m"], ["t"]),
        helper.make_node("MatMul", ["t", "w0"], ["y"]),
    ]
    weights: dict[str, Any] = {
        "words": floats(RNG, 300, 8),
        "kinds": floats(RNG, 2, 8),
        "w0": floats(RNG, 8, 8),
        "last": np.array([-1], np.int64),
        "fast": np.array(16000, np.int64),
        "slow": np.array(8000, np.int64),
    }
    dims = ["batch", "sequence"]
    inputs = [value(name, dims, INT) for name in ("ids", "kind_ids", "mask")]
    inputs.append(value("rate", [], INT))
    return model_of(nodes, inputs, [value("y", None)], weights)


def ranges_of(path: Path) -> dict[str, InputRange]:
    model = normalise(open_model(path)).model
    return input_ranges(model, infer_types(model, dataflow(model.graph), SegmentOptions()))


def checked(model: onnx.ModelProto, folder: Path, **more: Any) -> CheckFigures:
    path = save(model, folder / "model.onnx")
    return check(path, "test", folder / "blobs", **more)


def test_ranges_follow_from_tables_and_comparisons(tmp_path: Path) -> None:
    assert ranges_of(save(embedding(), tmp_path / "model.onnx")) == {
        "ids": InputRange(below=300),
        "kind_ids": InputRange(below=2),
        "rate": InputRange(choices=(8000, 16000)),
    }


def test_made_up_integers_are_rows_masks_and_choices(tmp_path: Path) -> None:
    path = save(embedding(), tmp_path / "model.onnx")
    manifest = segment(path, "test", FolderSink(tmp_path / "blobs"))
    feeds = generate(manifest, {"sequence": 200}, plan=FillPlan(ranges_of(path), "varied"))
    assert feeds["ids"].min() >= 0
    assert 200 < feeds["ids"].max() < 300
    assert set(np.unique(feeds["kind_ids"])) == set(np.unique(feeds["mask"])) == {0, 1}
    assert feeds["rate"] in (8000, 16000)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_every_element_type_can_be_made_up(kind: int, style: Any) -> None:
    from wire.manifest import BlobRef, CutSpec, SegmentSpec, TensorSpec

    blob = BlobRef("0" * 64, 1)
    spec = TensorSpec("x", kind, ("3", "n"), 9)
    part = SegmentSpec(0, blob, (), ("x",), ("x",), {}, (), 0.0, 0)
    cuts = (CutSpec(0, (spec,)), CutSpec(1, (spec,)))
    manifest = Manifest(1, "test", blob, (spec,), (spec,), {"n": 5}, cuts, (part,), 8)
    array = generate(manifest, plan=FillPlan({}, style))["x"]
    assert array.shape == (3, 5)
    assert to_array(to_value(array)).size in (15, 8, 4)  # packed types give their bytes


def test_a_check_holds_on_several_shapes(tmp_path: Path) -> None:
    figures = checked(embedding(), tmp_path, options=SegmentOptions(segments=3))
    assert (figures.exact_holds, figures.fast_holds) == (True, True)
    lengths = {item.shapes["ids"][1] for item in figures.items}
    assert len(lengths) == checking.GENERATED_ITEMS
    assert figures.generated
    assert figures.manifest.reference == figures.reference
    assert len(figures.nodes) == 3
    assert figures.limit == pytest.approx(1e-5, rel=0.01)


def test_fixed_shapes_are_checked_with_different_numbers(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
    model = model_of(nodes, [value("x", [2, 3])], [value("y", [2, 3])])
    assert len(checked(model, tmp_path).items) == checking.GENERATED_ITEMS


def test_given_inputs_are_used(tmp_path: Path) -> None:
    figures = checked(mlp(), tmp_path, items=[row_feeds(7), row_feeds(9)])
    assert [item.shapes["x"][0] for item in figures.items] == [7, 9]
    assert not figures.generated
    assert figures.exact_holds


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([{"z": np.zeros(3, np.float32)}], "inputs are x"),
        ([{"x": np.zeros((1, 5), np.float32)}], "does not take item 0"),
        ([{"x": np.zeros((1, 24), np.int64)}], "does not take item 0"),
    ],
)
def test_given_inputs_that_do_not_fit_are_refused(
    items: list[Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=words):
        checked(mlp(), tmp_path, items=items)


def test_a_model_that_takes_nothing_made_up_asks_for_real_inputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Greater", ["x", "x"], ["never"]),
        helper.make_node("Cast", ["never"], ["none"], to=TensorProto.INT64),
        helper.make_node("Sub", ["none", "far"], ["row"]),
        helper.make_node("Gather", ["table", "row"], ["y"]),
    ]
    weights = {"far": np.array(5000, np.int64), "table": np.zeros((4, 2), np.float32)}
    model = model_of(nodes, [value("x", ["n"])], [value("y", None)], weights)
    with pytest.raises(InvalidInput, match="give real ones"):
        checked(model, tmp_path)


def test_a_length_that_only_one_product_fits_is_found(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"])]
    weights = {"shape": np.array([7, 11, 13], np.int64)}
    model = model_of(nodes, [value("x", ["n"])], [value("y", None)], weights)
    assert {item.shapes["x"] for item in checked(model, tmp_path).items} == {(7 * 11 * 13,)}


def test_a_difference_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = checking.run_chains

    def wrong(*arguments: Any, **more: Any) -> list[Outputs]:
        outputs = true(*arguments, **more)
        outputs[1]["y"] = outputs[1]["y"] + np.float32(1e-3)
        return outputs

    monkeypatch.setattr(checking, "run_chains", wrong)
    figures = checked(mlp(), tmp_path)
    assert [item.differing for item in figures.items] == [(), ("y",), ()]
    assert [item.beyond for item in figures.items] == [(), ("y",), ()]
    assert not figures.exact_holds
    assert not figures.fast_holds
    assert figures.difference > 1e-4


def test_a_random_model_is_checked_and_noted(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("Add", ["x", "noise"], ["y"]),
    ]
    model = model_of(nodes, [value("x", ["n", 9])], [value("y", ["n", 9])])
    figures = checked(model, tmp_path)
    assert any("not reproducible" in note for note in figures.manifest.notes)


def test_a_refused_model_is_not_checked(tmp_path: Path) -> None:
    model = mlp()
    del model.graph.output[:]
    with pytest.raises(InvalidModel, match="no outputs"):
        checked(model, tmp_path)


def test_progress_ends_with_all_steps_done(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    checked(mlp(), tmp_path, progress=lambda done, total: heard.append((done, total)))
    assert heard == [(step, checking.STEPS) for step in range(1, checking.STEPS + 1)]


def manifest_of(dims: list[Any], bounds: dict[str, int], folder: Path) -> Manifest:
    model = model_of(
        [helper.make_node("Identity", ["x"], ["y"])], [value("x", dims)], [value("y", None)]
    )
    path = save(model, folder / "model.onnx")
    options = SegmentOptions(max_shape=bounds)
    return segment(path, "test", FolderSink(folder / "blobs"), options=options)


@pytest.mark.parametrize(
    ("dims", "bounds", "holds"),
    [
        (["n"], {"n": 3}, lambda sizes: sizes["n"] <= 3),
        (["batch", "length"], {"batch": 1}, lambda sizes: sizes["batch"] == 1),
        (["rows", "columns"], {"columns": 20}, lambda sizes: sizes["columns"] <= 20),
    ],
)
def test_sizes_stay_within_bounds_and_differ(
    dims: list[Any], bounds: dict[str, int], holds: Callable[[dict[str, int]], bool], tmp_path: Path
) -> None:
    found = list(candidate_sizes(manifest_of(dims, bounds, tmp_path)))
    assert len(found) == len({tuple(sorted(sizes.items())) for sizes in found}) >= 3
    assert all(map(holds, found))


def test_a_sum_of_dimensions_is_tried_as_one(tmp_path: Path) -> None:
    dims = ["past_seq", "seq", "past_seq + seq", "total_length"]
    first = next(candidate_sizes(manifest_of(dims, {}, tmp_path)))
    assert first == {"past_seq": 8, "seq": 8, "past_seq + seq": 16, "total_length": 16}


def test_a_model_without_open_dimensions_has_one_choice_of_sizes(tmp_path: Path) -> None:
    assert list(candidate_sizes(manifest_of([2, 3], {}, tmp_path))) == [{}]


@pytest.mark.parametrize("name", MODELS)
def test_known_models_hold(name: str, tmp_path: Path) -> None:
    figures = checked(MODELS[name][0](), tmp_path)
    assert figures.exact_holds
    assert figures.fast_holds


def test_strings_become_values_and_come_back() -> None:
    array = np.array([["one", ""], ["zwei", "drei"]], object)
    assert identical({"s": to_array(to_value(array))}, {"s": array})
