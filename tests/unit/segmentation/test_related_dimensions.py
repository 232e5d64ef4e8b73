"""Dimensions of inputs that follow from others: their bounds, wishes for them, and checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from orchestrator.segmentation.checking.check import CheckFigures, check
from orchestrator.segmentation.options import SegmentOptions
from tests.support import cutting
from tests.support.cutting import RNG, cut, relu
from tests.support.models import floats, model_of, save, value
from wire.errors import UserError

node = helper.make_node
Shape = tuple[int, ...]


def ended(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Two more nodes behind `z`, so that there is a place to cut."""
    return [*nodes, relu("z", "r"), node("Tanh", ["r"], ["y"])]


def past_and_sequence() -> onnx.ModelProto:
    """Scores over past + sequence and a mask [batch, total]."""
    nodes = [
        node("Concat", ["past", "now"], ["all"], axis=1),
        node("Add", ["all", "mask"], ["z"]),
    ]
    dims = {"past": "past", "now": "sequence", "mask": "total"}
    inputs = [value(name, ["batch", dim]) for name, dim in dims.items()]
    return model_of(ended(nodes), inputs, [value("y", None)])


def height_and_width() -> onnx.ModelProto:
    """An image flattened to [batch, 2, h * w], and positions for it."""
    nodes = [node("Reshape", ["x", "flat"], ["f"]), node("Add", ["f", "positions"], ["z"])]
    inputs = [value("x", ["batch", 2, "h", "w"]), value("positions", ["batch", 2, "hw"])]
    return model_of(ended(nodes), inputs, [value("y", None)], {"flat": np.array([0, 2, -1])})


def samples_and_frames() -> onnx.ModelProto:
    """Sound by strides of four, and a mask over frames."""
    nodes = [node("Conv", ["x", "w"], ["c"], strides=[4]), node("Mul", ["c", "mask"], ["z"])]
    inputs = [value("x", ["batch", 1, "samples"]), value("mask", ["batch", 1, "frames"])]
    return model_of(ended(nodes), inputs, [value("y", None)], {"w": floats(RNG, 2, 1, 10)})


def image_and_tokens() -> onnx.ModelProto:
    """Tokens unfolded into the height and width of another input."""
    nodes = [
        node("Shape", ["image"], ["shape"]),
        node("Reshape", ["tokens", "shape"], ["unfolded"]),
        node("Add", ["unfolded", "image"], ["z"]),
    ]
    inputs = [value("image", ["batch", 2, "h", "w"]), value("tokens", ["batch", 2, "tokens"])]
    return model_of(ended(nodes), inputs, [value("y", None)])


def one_after_another() -> onnx.ModelProto:
    """A second mask over what the first one was added to and one part more."""
    nodes = [
        node("Concat", ["past", "now"], ["all"], axis=1),
        node("Add", ["all", "mask"], ["masked"]),
        node("Concat", ["masked", "now"], ["longer"], axis=1),
        node("Mul", ["longer", "second"], ["z"]),
    ]
    dims = {"past": "past", "now": "sequence", "mask": "total", "second": "more"}
    inputs = [value(name, ["batch", dim]) for name, dim in dims.items()]
    return model_of(ended(nodes), inputs, [value("y", None)])


def named_after_another() -> onnx.ModelProto:
    """Nothing in the graph says what the mask is for; its dimension's name does."""
    nodes = [node("Concat", ["past", "now"], ["z"], axis=1), relu("mask", "kept")]
    inputs = [
        value("past", ["batch", "past"]),
        value("now", ["batch", 1]),
        value("mask", ["batch", "past + 1"]),
    ]
    return model_of(ended(nodes), inputs, [value("y", None), value("kept", None)])


def named_after_a_table() -> onnx.ModelProto:
    """As `named_after_another`, with a table of 600 rows of which as many as past are read."""
    nodes = [
        node("Shape", ["past"], ["shape"]),
        node("Slice", ["shape", "one", "two"], ["length"]),
        node("Slice", ["table", "none", "length"], ["rows"]),
        node("Concat", ["past", "now"], ["all"], axis=1),
        node("ReduceSum", ["all"], ["z"]),
        node("Neg", ["rows"], ["read"]),
        relu("mask", "kept"),
    ]
    inputs = [
        value("past", ["batch", "past"]),
        value("now", ["batch", 1]),
        value("mask", ["batch", "past + 1"]),
    ]
    outputs = [value("read", None), value("y", None), value("kept", None)]
    weights = {name: np.array([number]) for name, number in (("none", 0), ("one", 1), ("two", 2))}
    return model_of(ended(nodes), inputs, outputs, {**weights, "table": np.arange(600.0)})


def fixed_by_a_weight() -> onnx.ModelProto:
    nodes = [node("MatMul", ["x", "w"], ["z"])]
    inputs = [value("x", ["batch", "features"])]
    return model_of(ended(nodes), inputs, [value("y", None)], {"w": floats(RNG, 24, 8)})


def bias_of_any_number() -> onnx.ModelProto:
    """One row is added to [rows], or as many: [batch, n] + [rows, n]."""
    inputs = [value("x", ["batch", "n"]), value("bias", ["rows", "n"])]
    return model_of(ended([node("Add", ["x", "bias"], ["z"])]), inputs, [value("y", None)])


@pytest.mark.parametrize(
    ("make", "bounds"),
    [
        (past_and_sequence, {"past": 512, "sequence": 512, "total": 1024}),
        (height_and_width, {"h": 512, "w": 512, "hw": 512 * 512}),
        (samples_and_frames, {"samples": 512, "frames": (512 - 10) // 4 + 1}),
        (image_and_tokens, {"h": 512, "w": 512, "tokens": 512 * 512}),
        (one_after_another, {"past": 512, "sequence": 512, "total": 1024, "more": 1536}),
        (named_after_another, {"past": 512, "past + 1": 513}),
        (fixed_by_a_weight, {"features": 24}),
        (bias_of_any_number, {"n": 512, "rows": 512}),
    ],
)
def test_a_dimension_that_follows_is_bounded_by_what_the_free_ones_give(
    make: Callable[[], onnx.ModelProto], bounds: dict[str, int], tmp_path: Path
) -> None:
    manifest = cut(make(), tmp_path, segments=2)
    inputs = {dim for one in manifest.inputs for dim in one.dims if not dim.isdecimal()}
    assert {name: manifest.symbols[name] for name in inputs} == {"batch": 1, **bounds}
    assert manifest.notes == ()


@pytest.mark.parametrize(
    "name",
    ["a*" + "9" * 3000, "1/0", "a + ((((", "a ** 9 ** 9", "a + b", "encoder-1"],
)
def test_a_name_that_only_looks_like_a_sum_is_a_name(name: str, tmp_path: Path) -> None:
    inputs = [value("x", ["batch", "a"]), value("m", ["batch", name])]
    nodes = [node("Concat", ["x", "m"], ["z"], axis=1)]
    manifest = cut(model_of(ended(nodes), inputs, [value("y", None)]), tmp_path)
    assert manifest.symbols[name] == 512


@pytest.mark.parametrize(
    ("make", "wishes", "bounds"),
    [
        (past_and_sequence, {"total": 100}, {"past": 99, "sequence": 99}),
        (past_and_sequence, {"past": 100, "sequence": 50}, {"total": 150}),
        (past_and_sequence, {"past": 100, "sequence": 50, "total": 120}, {}),
        (past_and_sequence, {"past": 2000}, {"sequence": 512, "total": 2512}),
        (past_and_sequence, {"past": 100, "total": 300}, {"sequence": 299}),
        (height_and_width, {"h": 224, "w": 224}, {"hw": 50176}),
        (height_and_width, {"hw": 100}, {"h": 100, "w": 100}),
        (height_and_width, {"hw": 1_000_000}, {"h": 1000, "w": 1000}),
        (samples_and_frames, {"samples": 16000}, {"frames": 3998}),
        (samples_and_frames, {"frames": 1000}, {"samples": 4 * 999 + 10 + 3}),
        (samples_and_frames, {"frames": 100}, {"samples": 4 * 99 + 10 + 3}),
        (named_after_another, {"past + 1": 100}, {"past": 99}),
        (bias_of_any_number, {"batch": 4}, {"n": 512, "rows": 4}),
        (fixed_by_a_weight, {"features": 30}, {}),
    ],
)
def test_a_wish_for_some_dimensions_solves_for_the_rest(
    make: Callable[[], onnx.ModelProto],
    wishes: dict[str, int],
    bounds: dict[str, int],
    tmp_path: Path,
) -> None:
    manifest = cut(make(), tmp_path, segments=2, max_shape=wishes)
    found = {name: manifest.symbols[name] for name in (*wishes, *bounds)}
    assert found == {**wishes, **bounds}


@pytest.mark.parametrize(
    ("make", "wishes", "said"),
    [
        (
            past_and_sequence,
            {"past": 100, "sequence": 50, "total": 1000},
            "'total' is past + sequence, which is at most 150 at past=100, sequence=50, and 1000",
        ),
        (
            past_and_sequence,
            {"past": 60, "total": 50},
            "'total' is past + sequence, which is at least 61 at past=60, sequence=1, and 50",
        ),
        (
            samples_and_frames,
            {"samples": 16000, "frames": 5000},
            "'frames' is floor((samples - 10) / 4) + 1, which is at most 3998 at samples=16000",
        ),
        (
            height_and_width,
            {"h": 10, "w": 10, "hw": 101},
            "'hw' is h * w, which is at most 100 at h=10, w=10, and 101",
        ),
    ],
)
def test_wishes_that_contradict_are_refused_with_names_and_sizes(
    make: Callable[[], onnx.ModelProto], wishes: dict[str, int], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as told:
        cut(make(), tmp_path, max_shape=wishes)
    assert said in str(told.value)


def test_all_that_is_within_the_bounds_runs_in_segments(tmp_path: Path) -> None:
    """At the bounds, at the least sizes and between them."""
    model, pairs = past_and_sequence(), [(512, 512), (1, 1), (512, 1), (30, 7)]
    for past, now in pairs:
        feeds = {
            "past": floats(RNG, 1, past),
            "now": floats(RNG, 1, now),
            "mask": floats(RNG, 1, past + now),
        }
        manifest = cutting.check(model, tmp_path, feeds, segments=2)
        for spec in manifest.inputs:
            assert feeds[spec.name].shape[1] <= manifest.symbols[spec.dims[1]]


@pytest.mark.parametrize("past", [300, 5000])
def test_what_ends_at_a_table_is_bounded_by_it_at_any_wish(past: int, tmp_path: Path) -> None:
    wishes = {"past + 1": past + 1}
    manifest = cut(named_after_a_table(), tmp_path, max_shape=wishes)
    assert manifest.symbols["past"] == past
    assert manifest.outputs[0].bound_nbytes == min(past, 600) * 8


def test_only_sizes_that_agree_count_for_a_wished_bound(tmp_path: Path) -> None:
    """Past and sequence are at most 99 each, and never together: their sum crosses the cut."""
    manifest = cut(past_and_sequence(), tmp_path, segments=2, max_shape={"total": 100})
    assert manifest.outputs[0].bound_nbytes == 100 * 4


def checked(model: onnx.ModelProto, folder: Path, **max_shape: int) -> CheckFigures:
    (folder / "blobs").mkdir()
    path = save(model, folder / "model.onnx")
    options = SegmentOptions(segments=2, max_shape=max_shape)
    return check(path, "related", folder / "blobs", options=options)


@pytest.mark.parametrize(
    ("make", "promised"),
    [
        (past_and_sequence, {"past": (1, 512), "now": (1, 512), "mask": (1, 1024)}),
        (height_and_width, {"x": (1, 2, 512, 512), "positions": (1, 2, 512 * 512)}),
        (samples_and_frames, {"x": (1, 1, 512), "mask": (1, 1, 126)}),
        (named_after_another, {"past": (1, 512), "now": (1, 1), "mask": (1, 513)}),
    ],
)
def test_a_check_tries_what_the_bounds_promise_and_small_sizes(
    make: Callable[[], onnx.ModelProto], promised: dict[str, Shape], tmp_path: Path
) -> None:
    figures = checked(make(), tmp_path)
    shapes = [item.shapes for item in figures.items]
    assert figures.exact_holds
    assert promised in shapes
    assert any(max(shape) <= 64 for one in shapes for shape in one.values())


def test_a_check_tries_no_mask_of_one_where_a_longer_one_is_meant(tmp_path: Path) -> None:
    for item in checked(past_and_sequence(), tmp_path, total=100).items:
        sizes = {name: shape[1] for name, shape in item.shapes.items()}
        assert sizes["mask"] == sizes["past"] + sizes["now"] <= 100
