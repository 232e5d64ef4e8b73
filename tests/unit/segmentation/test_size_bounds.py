"""A bound is the greatest size over all inputs, also where sizes fall as inputs grow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.support.cutting import RNG, check, cut, relu
from tests.support.models import floats, model_of, value

LENGTHS = 512
Weights = dict[str, NDArray[Any]]
node = helper.make_node
INT64 = TensorProto.INT64


def of_length(nodes: list[onnx.NodeProto], weights: Weights) -> onnx.ModelProto:
    """x [batch, length] gives y; `nodes` make `size` [1] or more of `length` [1], and y is zeros of
    that size, or they make `z` themselves."""
    start = [node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "one"], ["length"])]
    end = [] if any("z" in n.output for n in nodes) else [node("ConstantOfShape", ["size"], ["z"])]
    last = [relu("z", "r"), node("Tanh", ["r"], ["y"])]
    return model_of(
        [*start, *nodes, *end, *last],
        [value("x", ["batch", "length"])],
        [value("y", None)],
        {"one": np.array([1]), **weights},
    )


def numbers(**lists: int) -> Weights:
    return {name: np.array([number]) for name, number in lists.items()}


def rows_that_fill() -> onnx.ModelProto:
    return of_length([node("Div", ["all", "length"], ["size"])], numbers(all=4096))


def what_remains() -> onnx.ModelProto:
    return of_length([node("Sub", ["all", "length"], ["size"])], numbers(all=600))


def padding_by_remainder() -> onnx.ModelProto:
    nodes = [node("Neg", ["length"], ["minus"]), node("Mod", ["minus", "step"], ["size"])]
    return of_length(nodes, numbers(step=64))


def padding_by_rounding_up() -> onnx.ModelProto:
    nodes = [
        node("Cast", ["length"], ["real"], to=TensorProto.FLOAT),
        node("Div", ["real", "step"], ["steps"]),
        node("Ceil", ["steps"], ["whole"]),
        node("Mul", ["whole", "step"], ["padded_real"]),
        node("Cast", ["padded_real"], ["padded"], to=INT64),
        node("Sub", ["padded", "length"], ["size"]),
    ]
    return of_length(nodes, {"step": np.array([64], np.float32)})


def rising_and_falling() -> onnx.ModelProto:
    """[length, 600 - length]: the most elements lie between the ends."""
    nodes = [
        node("Sub", ["all", "length"], ["rest"]),
        node("Concat", ["length", "rest"], ["size"], axis=0),
    ]
    return of_length(nodes, numbers(all=600))


def padded_as_torch_writes_it() -> onnx.ModelProto:
    """The list of pads is turned over as a table of two columns."""
    nodes = [
        node("Neg", ["length"], ["minus"]),
        node("Mod", ["minus", "step"], ["more"]),
        node("Concat", ["none", "more", "none", "none"], ["pairs"], axis=0),
        node("Reshape", ["pairs", "two_columns"], ["table"]),
        node("Slice", ["table", "last", "far", "none", "last"], ["turned"]),
        node("Transpose", ["turned"], ["columns"], perm=[1, 0]),
        node("Reshape", ["columns", "last"], ["pads"]),
        node("Pad", ["x", "pads"], ["padded"]),
        node("Slice", ["padded", "length", "end", "one"], ["z"]),
    ]
    constants = numbers(step=64, none=0, last=-1, far=-(2**63) + 1, end=2**62)
    return of_length(nodes, {**constants, "two_columns": np.array([-1, 2])})


def cut_from_a_table() -> onnx.ModelProto:
    """What a window of 100 rows leaves of a table behind a start."""
    nodes = [
        node("Add", ["length", "window"], ["end"]),
        node("Slice", ["table", "length", "end", "none"], ["z"]),
    ]
    return of_length(nodes, {**numbers(none=0, window=100), "table": floats(RNG, 300, 2)})


def in_blocks() -> onnx.ModelProto:
    """Strides that grow: a pooling over what a division left."""
    nodes = [
        node("Mod", ["length", "step"], ["rest"]),
        node("Concat", ["one", "one", "rest"], ["size"], axis=0),
    ]
    return of_length(nodes, numbers(step=100))


def of_a_branch() -> onnx.ModelProto:
    """The larger of what the two branches of an If make, in whole numbers and in real ones."""
    whole = [node("Div", ["all", "length"], ["rows"]), node("ConstantOfShape", ["rows"], ["many"])]
    real = [
        node("Constant", [], ["step"], value_floats=[7.0]),
        node("Cast", ["length"], ["real"], to=TensorProto.FLOAT),
        node("Div", ["real", "step"], ["steps"]),
        node("Ceil", ["steps"], ["up"]),
        node("Cast", ["up"], ["count"], to=INT64),
        node("ConstantOfShape", ["count"], ["few"]),
    ]
    then = helper.make_graph(whole, "short", [], [value("many", None)])
    other = helper.make_graph(real, "long", [], [value("few", None)])
    nodes = [
        node("Squeeze", ["length"], ["one_length"]),
        node("Less", ["one_length", "limit"], ["short"]),
        node("If", ["short"], ["z"], then_branch=then, else_branch=other),
    ]
    return of_length(nodes, {**numbers(all=4096), "limit": np.array(200)})


def most_nbytes(path: Path, lengths: int) -> int:
    """Over all lengths that the whole model takes."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    sizes: list[int] = []
    for length in range(1, lengths + 1):
        (made,) = session.run(["y"], {"x": np.zeros((1, length), np.float32)})
        sizes.append(int(made.nbytes))
    return max(sizes)


@pytest.mark.parametrize(
    "make",
    [
        rows_that_fill,
        what_remains,
        padding_by_remainder,
        padding_by_rounding_up,
        rising_and_falling,
        padded_as_torch_writes_it,
        cut_from_a_table,
        in_blocks,
        of_a_branch,
    ],
)
def test_an_output_is_bounded_by_the_most_that_any_length_gives(
    make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    manifest = check(make(), tmp_path, {"x": floats(RNG, 1, 70)}, segments=2)
    assert manifest.outputs[0].bound_nbytes == most_nbytes(tmp_path / "model.onnx", LENGTHS)
    assert manifest.notes == ()
    assert manifest.cuts[1].bound_nbytes >= manifest.outputs[0].bound_nbytes
    assert manifest.segments[-1].peak_activation_nbytes >= manifest.outputs[0].bound_nbytes


def test_sizes_that_fall_have_the_bounds_that_users_expect(tmp_path: Path) -> None:
    made = {}
    for make in (rows_that_fill, what_remains, padding_by_remainder, padding_by_rounding_up):
        manifest = cut(make(), tmp_path)
        made[make.__name__] = manifest.symbols[manifest.outputs[0].dims[0]]
    assert made == {
        "rows_that_fill": 4096,
        "what_remains": 599,
        "padding_by_remainder": 63,
        "padding_by_rounding_up": 63,
    }


steps = st.tuples(
    st.sampled_from(["Add", "Sub", "Mul", "Div", "Mod", "Min", "Max"]),
    st.integers(1, 40),
    st.booleans(),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(steps, min_size=1, max_size=4))
def test_any_arithmetic_on_a_length_is_bounded_by_its_greatest_result(
    chain: list[tuple[str, int, bool]],
) -> None:
    """Each step takes the last result and a number, or a number and the last result (but never
    divides by what may be 0); the end is brought between 0 and 5000."""
    nodes, last = [], "length"
    weights = numbers(least=0, most=5000)
    for at, (kind, number, turned) in enumerate(chain):
        weights[f"n{at}"] = np.array([number])
        pair = [last, f"n{at}"]
        if turned and kind not in ("Div", "Mod"):
            pair.reverse()
        nodes.append(node(kind, pair, [f"s{at}"]))
        last = f"s{at}"
    nodes += [node("Max", [last, "least"], ["high"]), node("Min", ["high", "most"], ["size"])]
    with TemporaryDirectory() as folder:
        manifest = cut(of_length(nodes, weights), Path(folder), max_shape={"length": 90})
        assert manifest.outputs[0].bound_nbytes == most_nbytes(Path(folder) / "model.onnx", 90)


def test_a_size_that_no_rule_knows_is_asked_of_at_several_lengths(tmp_path: Path) -> None:
    nodes = [
        node("Div", ["all", "length"], ["depth"]),
        node("OneHot", ["places", "depth", "pair"], ["z"]),
    ]
    constants = {**numbers(all=4096, places=0), "pair": np.array([0, 1], np.float32)}
    manifest = cut(of_length(nodes, constants), tmp_path)
    assert manifest.outputs[0].bound_nbytes == 4096 * 4
    assert any("rise and fall" in note for note in manifest.notes)


def test_a_chain_of_many_convolutions_is_bounded(tmp_path: Path) -> None:
    """More than a formula may be deep: the rest is asked of."""
    nodes, last = [], "x"
    for at in range(200):
        nodes.append(node("Conv", [last, "w"], [f"c{at}"]))
        last = f"c{at}"
    nodes.append(relu(last, "y"))
    inputs = [value("x", ["batch", 1, "samples"])]
    model = model_of(nodes, inputs, [value("y", None)], {"w": floats(RNG, 1, 1, 2)})
    manifest = cut(model, tmp_path)
    assert manifest.outputs[0].bound_nbytes == (512 - 200) * 4
