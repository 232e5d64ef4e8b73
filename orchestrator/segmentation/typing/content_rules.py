"""What small tensors of numbers hold, as terms: the arithmetic that models do on shapes.

A content is an array of objects: numbers, terms, and None for an element that nobody knows. A rule
gives None for what it does not follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import numpy_helper

from orchestrator.segmentation.typing.formulas import Term, plain
from orchestrator.segmentation.typing.node_view import (
    MAX_CONTENT,
    Content,
    NodeView,
    content_of_terms,
    numbers_in,
)

Rule = Callable[[NodeView], Content | None]


def _shape(node: NodeView) -> Content | None:
    dims = node.dims(0)
    if dims is None:
        return None
    end = node.attribute("end", len(dims))
    return content_of_terms(dims[node.attribute("start", 0) : end])


def _size(node: NodeView) -> Content | None:
    dims = node.dims(0)
    return None if dims is None else _scalar(node.chain("mul", [1, *dims]))


def _scalar(term: Term | None) -> Content:
    return content_of_terms((term,)).reshape(())


def _constant(node: NodeView) -> Content | None:
    tensor = node.tensor("value")
    if tensor is not None:
        return numbers_in(tensor)
    for name in ("value_int", "value_float", "value_ints", "value_floats"):
        value = node.any_attribute(name)
        if isinstance(value, int | float):
            return _scalar(plain(value))
        if isinstance(value, Sequence) and len(value) <= MAX_CONTENT:
            return content_of_terms([plain(float(one)) for one in value])
    return None


def _kept(node: NodeView) -> Content | None:
    return node.content(0)


def _cast(node: NodeView) -> Content | None:
    return node.content(0) if node.makes_reals else _one("trunc")(node)


def _concat(node: NodeView) -> Content | None:
    known = [node.content(place) for place in range(len(node.proto.input))]
    parts = [part for part in known if part is not None]
    if len(parts) < len(known):
        return None
    return np.concatenate(parts, node.attribute("axis", 0))


def _gather(node: NodeView) -> Content | None:
    content, places, given = node.content(0), node.integers(1), node.content(1)
    if content is None or places is None or given is None:
        return None
    indices = np.array(places, np.int64).reshape(given.shape)
    taken = np.take(content, indices, node.attribute("axis", 0))
    return np.asarray(taken, object)  # numpy gives the element itself for an index of rank 0


def _slice(node: NodeView) -> Content | None:
    content = node.content(0)
    starts = node.integers(1) if node.has(1) else node.listed("starts")
    ends = node.integers(2) if node.has(2) else node.listed("ends")
    if content is None or starts is None or ends is None:
        return None
    axes = node.axes(3) or list(range(len(starts)))
    steps = node.integers(4) if node.has(4) else [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps or (), strict=True):
        stop = _python_end(end, content.shape[axis], step)
        content = np.moveaxis(np.moveaxis(content, axis, 0)[start:stop:step], 0, axis)
    return content


def _python_end(end: int, length: int, step: int) -> int | None:
    """ONNX goes down to the first element where the end lies before it."""
    return None if step < 0 and end < -length else end


def _split(node: NodeView) -> Content | None:
    """The first part: contents of further outputs are not followed."""
    content = node.content(0)
    if content is None:
        return None
    sizes = node.integers(1) if node.has(1) else node.listed("split")
    at = node.attribute("axis", 0)
    length = sizes[0] if sizes else math.ceil(content.shape[at] / len(node.proto.output))
    return np.take(content, range(length), at)


def _reshape(node: NodeView) -> Content | None:
    content = node.content(0)
    shape = node.integers(1) if node.has(1) else node.listed("shape")
    if content is None or shape is None:
        return None
    kept = [content.shape[at] if size == 0 else size for at, size in enumerate(shape)]
    return content.reshape(kept)


def _squeeze(node: NodeView) -> Content | None:
    content, axes = node.content(0), node.axes(1)
    return None if content is None else np.squeeze(content, None if axes is None else tuple(axes))


def _unsqueeze(node: NodeView) -> Content | None:
    content, axes = node.content(0), node.axes(1)
    return None if content is None or axes is None else np.expand_dims(content, tuple(axes))


def _transpose(node: NodeView) -> Content | None:
    content = node.content(0)
    return None if content is None else np.transpose(content, node.listed("perm"))


def _many(kind: str) -> Rule:
    """An operation on each place of its inputs, which are broadcast."""

    def rule(node: NodeView) -> Content | None:
        return _combined(node, kind, [node.content(p) for p in range(len(node.proto.input))])

    return rule


def _combined(node: NodeView, kind: str, parts: Sequence[Content | None]) -> Content | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    made = node.make if kind == "where" else lambda _, *terms: node.chain(kind, list(terms))
    wide = np.broadcast_arrays(*known)
    flat = [made(kind, *terms) for terms in zip(*(one.ravel() for one in wide), strict=True)]
    return content_of_terms(flat).reshape(wide[0].shape)


def _div(node: NodeView) -> Content | None:
    return _many("true_div" if node.makes_reals else "div")(node)


def _mod(node: NodeView) -> Content | None:
    return _many("fmod" if node.attribute("fmod", 0) else "mod")(node)


def _one(kind: str) -> Rule:
    def rule(node: NodeView) -> Content | None:
        content = node.content(0)
        if content is None:
            return None
        flat = [node.make(kind, one) for one in content.ravel()]
        return content_of_terms(flat).reshape(content.shape)

    return rule


def _reduced(kind: str) -> Rule:
    """Over all elements: that is what models do to shapes."""

    def rule(node: NodeView) -> Content | None:
        content, axes = node.content(0), node.axes(1)
        if content is None or not content.size or (content.ndim > 1 and axes is not None):
            return None
        rank = content.ndim if node.attribute("keepdims", 1) else 0
        return _scalar(node.chain(kind, list(content.ravel()))).reshape((1,) * rank)

    return rule


def _not(node: NodeView) -> Content | None:
    return _combined(node, "sub", [_scalar(1), node.content(0)])


def _swapped(kind: str) -> Rule:
    def rule(node: NodeView) -> Content | None:
        return _combined(node, kind, [node.content(1), node.content(0)])

    return rule


def _filled(node: NodeView) -> Content | None:
    sizes, tensor = node.integers(0), node.tensor("value")
    if sizes is None or not 0 <= math.prod(sizes) <= MAX_CONTENT:
        return None
    value = 0 if tensor is None else plain(float(numpy_helper.to_array(tensor).ravel()[0]))
    return np.full(sizes, value, object)


def _range(node: NodeView) -> Content | None:
    numbers = [node.integers(place) for place in range(3)]
    start, end, step = (one[0] if one else None for one in numbers)
    if start is None or end is None or not step:
        return None
    made = range(start, end, step)
    return content_of_terms(made) if len(made) <= MAX_CONTENT else None


def _expand(node: NodeView) -> Content | None:
    content, sizes = node.content(0), node.integers(1)
    if content is None or sizes is None or math.prod(sizes) > MAX_CONTENT:
        return None
    return np.broadcast_to(content, np.broadcast_shapes(content.shape, tuple(sizes)))


CONTENT_RULES: dict[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Constant": _constant,
    "Identity": _kept,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Cast": _cast,
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    "Split": _split,
    "Add": _many("add"),
    "Sub": _many("sub"),
    "Mul": _many("mul"),
    "Div": _div,
    "Mod": _mod,
    "Pow": _many("pow"),
    "Min": _many("min"),
    "Max": _many("max"),
    "Equal": _many("equal"),
    "Less": _many("less"),
    "LessOrEqual": _many("less_equal"),
    "Greater": _swapped("less"),
    "GreaterOrEqual": _swapped("less_equal"),
    "Where": _many("where"),
    "And": _many("min"),
    "Or": _many("max"),
    "Not": _not,
    "Floor": _one("floor"),
    "Ceil": _one("ceil"),
    "Round": _one("round"),
    "Neg": _one("neg"),
    "Abs": _one("abs"),
    "Sqrt": _one("sqrt"),
    "ReduceProd": _reduced("mul"),
    "ReduceSum": _reduced("add"),
    "ReduceMax": _reduced("max"),
    "ReduceMin": _reduced("min"),
    "ConstantOfShape": _filled,
    "Range": _range,
    "Expand": _expand,
}
