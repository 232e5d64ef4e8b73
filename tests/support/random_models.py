"""Random small models, drawn by hypothesis, and what goes into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tests.support.models import WIDTH, Feeds, body, floats, model_of, tensor, value


class _Growing:
    """A random graph over values of shape [rows, 24], grown one operation at a time."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw
        self._rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, NDArray[Any]] = {"shared": floats(self._rng, WIDTH, WIDTH)}
        self.values = ["x", "z"]
        self._count = 0

    def grow(self) -> None:
        steps = (
            self._layer,
            self._merge,
            self._split,
            self._branch,
            self._constant,
            self._reshaped,
            self._shared,
            self._weight_arithmetic,
            self._nested,
        )
        self._draw(st.sampled_from(steps))()

    def _pick(self) -> str:
        return str(self._draw(st.sampled_from(self.values)))

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _node(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        output = self._name("v")
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def _weight(self, *shape: int) -> str:
        name = self._name("w")
        self.weights[name] = floats(self._rng, *shape)
        return name

    def _layer(self) -> None:
        product = self._node("MatMul", [self._pick(), self._weight(WIDTH, WIDTH)])
        self.values.append(self._node("Tanh", [product]))

    def _shared(self) -> None:
        self.values.append(self._node("MatMul", [self._pick(), "shared"]))

    def _merge(self) -> None:
        self.values.append(self._node("Sub", [self._pick(), self._pick()]))

    def _split(self) -> None:
        """Two outputs of one node, either of which may cross a cut."""
        halves = [self._name("v"), self._name("v")]
        self.nodes.append(helper.make_node("Split", [self._pick()], halves, axis=1))
        self.values.append(self._node("Concat", [halves[1], halves[0]], axis=1))
        self.values.append(self._node("Concat", [halves[0], halves[0]], axis=1))

    def _branch(self) -> None:
        top = self._node("ReduceSum", [self._pick()], keepdims=0)
        positive = self._node("Greater", [top, self._scalar(0.3)])
        bodies = {}
        for key in ("then_branch", "else_branch"):
            output = self._name("inner")
            call = helper.make_node("Add", [self._pick(), self._pick()], [output])
            bodies[key] = body(key, [call], [value(output, None)])
        self.values.append(self._node("If", [positive], **bodies))

    def _nested(self) -> None:
        """A Loop around an If that captures the loop's state, its weight and outer values; all
        Loops name their weight `inner`."""
        state, total, positive, chosen = (self._name("inner") for _ in range(4))
        arms = {}
        for key, names in (("then_branch", [state, "inner"]), ("else_branch", [state, "shared"])):
            output = self._name("inner")
            arms[key] = body(
                key, [helper.make_node("MatMul", names, [output])], [value(output, None)]
            )
        step, going_in, going = (self._name("inner") for _ in range(3))
        added = self._name("inner")
        inside = body(
            self._name("loop"),
            [
                helper.make_node("ReduceSum", [state], [total], keepdims=0),
                helper.make_node("Greater", [total, self._scalar(0.1)], [positive]),
                helper.make_node("If", [positive], [chosen], **arms),
                helper.make_node("Add", [chosen, self._pick()], [added]),
                helper.make_node("Identity", [going_in], [going]),
            ],
            [value(going, [], TensorProto.BOOL), value(added, None)],
            [
                value(step, [], TensorProto.INT64),
                value(going_in, [], TensorProto.BOOL),
                value(state, None),
            ],
            {"inner": floats(self._rng, WIDTH, WIDTH)},
        )
        trips = self._node("Constant", [], value=tensor("", np.array(2, np.int64)))
        self.values.append(self._node("Loop", [trips, "", self._pick()], body=inside))

    def _scalar(self, number: float) -> str:
        made = tensor("", np.array(number, np.float32))
        return self._node("Constant", [], value=made)

    def _constant(self) -> None:
        shape = self._draw(st.sampled_from([(), (WIDTH,), (WIDTH, WIDTH)]))
        name = self._node(
            "Constant", [], value=tensor("", np.float32(0.5) * floats(self._rng, *shape))
        )
        operator = "MatMul" if len(shape) == 2 else "Mul"
        self.values.append(self._node(operator, [self._pick(), name]))

    def _weight_arithmetic(self) -> None:
        turned = self._node("Transpose", [self._weight(WIDTH, WIDTH)], perm=[1, 0])
        self.values.append(self._node("MatMul", [self._pick(), turned]))

    def _reshaped(self) -> None:
        """Through a shape that is taken from one value and used on another."""
        shape = self._node("Shape", [self._pick()])
        flat = self._node("Flatten", [self._pick()], axis=0)
        self.values.append(self._node("Reshape", [flat, shape], allowzero=1))


@st.composite
def random_models(draw: Callable[[Any], Any]) -> onnx.ModelProto:
    """Models over `x` and `z`, both [batch, 24], with skips, branches and shared weights."""
    growing = _Growing(draw)
    for _ in range(draw(st.integers(2, 7))):
        growing.grow()
    chosen = draw(st.lists(st.sampled_from(growing.values), min_size=0, max_size=2, unique=True))
    names = list(dict.fromkeys([*chosen, growing.values[-1]]))
    dims = ["batch", WIDTH]
    return model_of(
        growing.nodes,
        [value("x", dims), value("z", dims)],
        [value(name, dims) for name in names],
        growing.weights,
    )


def pair_feeds(rows: int = 3, seed: int = 1) -> Feeds:
    """`x` and `z` for `random_models`."""
    rng = np.random.default_rng(seed)
    return {"x": floats(rng, rows, WIDTH), "z": floats(rng, rows, WIDTH)}
