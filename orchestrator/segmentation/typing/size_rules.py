"""The sizes that an operator makes from those of its inputs, as terms.

ONNX's own inference tells which sizes stay what they were; these rules say what the new ones are.
An operator without a rule makes sizes that nobody knows as terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.segmentation.typing.formulas import Term
from orchestrator.segmentation.typing.node_view import NodeView, Sizes
from orchestrator.segmentation.typing.window_rules import (
    global_pool,
    stft,
    transposed_windows,
    windows,
)

Rule = Callable[[NodeView], Sizes | None]


def joined(node: NodeView, a: Term | None, b: Term | None) -> Term | None:
    """Two sizes that are broadcast against each other."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    return node.make("max", a, b)


def broadcast(node: NodeView, shapes: list[Sizes | None]) -> Sizes | None:
    """Of shapes aligned at their last axes; says that what meets must be equal."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or not known:
        return None
    rank = max(len(shape) for shape in known)
    made: list[Term | None] = [1] * rank
    for shape in known:
        for axis, size in enumerate(shape, rank - len(shape)):
            node.equate(made[axis], size)
            made[axis] = joined(node, made[axis], size)
    return tuple(made)


def _elementwise(node: NodeView) -> Sizes | None:
    return broadcast(node, [node.dims(p) for p in range(len(node.proto.input)) if node.has(p)])


def _same(node: NodeView) -> Sizes | None:
    return node.dims(0)


def _expand(node: NodeView) -> Sizes | None:
    return broadcast(node, [node.dims(0), node.listed_content(1)])


def _matmul(node: NodeView) -> Sizes | None:
    a, b = node.dims(0), node.dims(1)
    if not a or not b:
        return None
    node.equate(a[-1], b[-2] if len(b) > 1 else b[0])
    outer = broadcast(node, [a[:-2], b[:-2]])
    return None if outer is None else (*outer, *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


def _gemm(node: NodeView) -> Sizes | None:
    a, b = node.dims(0), node.dims(1)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    a = a[::-1] if node.attribute("transA", 0) else a
    b = b[::-1] if node.attribute("transB", 0) else b
    node.equate(a[1], b[0])
    return (a[0], b[1])


def _concat(node: NodeView) -> Sizes | None:
    shapes = [node.dims(place) for place in range(len(node.proto.input))]
    known = [shape for shape in shapes if shape]
    if not known or len({len(shape) for shape in known}) > 1:
        return None
    rank = len(known[0])
    at = node.attribute("axis", 1) % rank
    for shape in known[1:]:
        for axis in set(range(rank)) - {at}:
            node.equate(known[0][axis], shape[axis])
    whole = node.chain("add", [s[at] for s in known]) if len(known) == len(shapes) else None
    return (*known[0][:at], whole, *known[0][at + 1 :])


def _slice(node: NodeView) -> Sizes | None:
    dims = node.dims(0)
    starts = node.listed_content(1) if node.has(1) else node.listed_terms("starts")
    ends = node.listed_content(2) if node.has(2) else node.listed_terms("ends")
    if dims is None or starts is None or ends is None:
        return None
    axes = node.axes(3) or list(range(len(starts)))
    steps = node.integers(4) if node.has(4) else [1] * len(starts)
    if steps is None or not len(axes) == len(starts) == len(ends) == len(steps):
        return None
    made = list(dims)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        made[axis] = _sliced(node, dims[axis], start, end, step)
    return tuple(made)


def _sliced(
    node: NodeView, size: Term | None, start: Term | None, end: Term | None, step: int
) -> Term | None:
    """ceil((end - start) / step), with both ends brought inside; at least 0."""
    if step == 0 or size is None:
        return None
    last = size if step > 0 else node.make("sub", size, 1)
    first = 0 if step > 0 else -1
    inside = [
        node.make("max", low, node.make("min", last, _counted(node, size, one)))
        for one, low in ((start, 0), (end, first))
    ]
    length = node.make("sub", inside[1], inside[0])
    return node.make("max", 0, node.make("ceil", node.make("true_div", length, step)))


def _counted(node: NodeView, size: Term, place: Term | None) -> Term | None:
    """A place counted from the front; a negative one counts from the end."""
    behind = node.make("add", place, size)
    return node.make("where", node.make("less", place, 0), behind, place)


def _pad(node: NodeView) -> Sizes | None:
    dims = node.dims(0)
    pads = node.listed_content(1) if node.has(1) else node.listed_terms("pads")
    if dims is None or pads is None:
        return None
    axes = node.integers(3) if node.has(3) else list(range(len(dims)))
    if axes is None or len(pads) != 2 * len(axes):
        return None
    made = list(dims)
    for at, axis in enumerate(axes):
        made[axis] = node.chain("add", [dims[axis], pads[at], pads[at + len(axes)]])
    return tuple(made)


def _resize(node: NodeView) -> Sizes | None:
    dims, last = node.dims(0), len(node.proto.input) - 1
    if dims is None or node.text("keep_aspect_ratio_policy") not in ("", "stretch"):
        return None
    axes = node.listed("axes") or list(range(len(dims)))
    sizes = node.listed_content(3) if last == 3 else None
    scales = node.listed_content(min(last, 2)) if last < 3 else None
    wanted = sizes or scales
    if not wanted or len(wanted) != len(axes):
        return None
    made = list(dims)
    for axis, one in zip(axes, wanted, strict=True):
        made[axis] = one if sizes else node.make("floor", node.make("mul", dims[axis], one))
    return tuple(made)


def _reshape(node: NodeView) -> Sizes | None:
    dims, wanted = (
        node.dims(0),
        node.listed_content(1) if node.has(1) else node.listed_terms("shape"),
    )
    if wanted is None:
        return None
    keeps = not node.attribute("allowzero", 0)
    made = [
        dims[at] if keeps and one == 0 and dims and at < len(dims) else one
        for at, one in enumerate(wanted)
    ]
    if -1 in made:
        at = made.index(-1)
        others = [one for place, one in enumerate(made) if place != at]
        made[at] = None if dims is None else node.make("div", *_products(node, dims, others))
    elif dims is not None:
        node.equate(*_products(node, dims, made))
    return tuple(made)


def _products(
    node: NodeView, a: Sequence[Term | None], b: Sequence[Term | None]
) -> tuple[Term | None, Term | None]:
    """Of two lists of sizes, without what is in both: a batch that stays is no part of a size."""
    left, right = list(a), list(b)
    for one in a:
        if one is not None and one != 0 and one in right:
            left.remove(one)
            right.remove(one)
    return node.chain("mul", [1, *left]), node.chain("mul", [1, *right])


def _flatten(node: NodeView) -> Sizes | None:
    dims = node.dims(0)
    if dims is None:
        return None
    axis = node.attribute("axis", 1)
    return tuple(node.chain("mul", [1, *part]) for part in (dims[:axis], dims[axis:]))


def _range(node: NodeView) -> Sizes | None:
    start, end, step = (node.element(place) for place in range(3))
    steps = node.make("true_div", node.make("sub", end, start), step)
    return (node.make("max", 0, node.make("ceil", steps)),)


def _tile(node: NodeView) -> Sizes | None:
    dims, times = node.dims(0), node.listed_content(1)
    if dims is None or times is None or len(dims) != len(times):
        return None
    return tuple(node.make("mul", d, t) for d, t in zip(dims, times, strict=True))


def _split(node: NodeView) -> Sizes | None:
    """Of the first output; the others may be smaller, which their own names tell."""
    dims = node.dims(0)
    if not dims:
        return None
    at = node.attribute("axis", 0) % len(dims)
    parts = node.listed_content(1) if node.has(1) else node.listed_terms("split")
    count = len(node.proto.output)
    first = parts[0] if parts else node.make("ceil", node.make("true_div", dims[at], count))
    return (*dims[:at], first, *dims[at + 1 :])


def _topk(node: NodeView) -> Sizes | None:
    dims = node.dims(0)
    if not dims:
        return None
    at = node.attribute("axis", -1) % len(dims)
    return (*dims[:at], node.element(1), *dims[at + 1 :])


def _transpose(node: NodeView) -> Sizes | None:
    dims = node.dims(0)
    if dims is None:
        return None
    order = node.listed("perm") or list(reversed(range(len(dims))))
    return tuple(dims[axis] for axis in order)


def _reduced(node: NodeView) -> Sizes | None:
    dims, axes = node.dims(0), node.axes(1)
    if dims is None or (axes is None and node.has(1)):
        return None
    gone = {axis % len(dims) for axis in axes or range(len(dims))} if dims else set()
    if node.attribute("keepdims", 1):
        return tuple(1 if at in gone else one for at, one in enumerate(dims))
    return tuple(one for at, one in enumerate(dims) if at not in gone)


def _squeeze(node: NodeView) -> Sizes | None:
    dims, axes = node.dims(0), node.axes(1)
    if not dims or axes is None:
        return None
    gone = {axis % len(dims) for axis in axes}
    return tuple(one for at, one in enumerate(dims) if at not in gone)


def _unsqueeze(node: NodeView) -> Sizes | None:
    dims, axes = node.dims(0), node.axes(1)
    if dims is None or axes is None:
        return None
    rank = len(dims) + len(axes)
    new, rest = {axis % rank for axis in axes}, iter(dims)
    return tuple(1 if at in new else next(rest) for at in range(rank))


def _gather(node: NodeView) -> Sizes | None:
    dims, places = node.dims(0), node.dims(1)
    if not dims or places is None:
        return None
    at = node.attribute("axis", 0) % len(dims)
    return (*dims[:at], *places, *dims[at + 1 :])


def _blocks(node: NodeView) -> Sizes | None:
    """DepthToSpace and SpaceToDepth, on [batch, channels, height, width]."""
    dims, block = node.dims(0), node.attribute("blocksize", 1)
    if dims is None or len(dims) != 4:
        return None
    deep = node.proto.op_type == "SpaceToDepth"
    kinds = ("mul", "div") if deep else ("div", "mul")
    spatial = [node.make(kinds[1], one, block) for one in dims[2:]]
    return (dims[0], node.make(kinds[0], dims[1], block * block), *spatial)


def recurrent_sizes(node: NodeView) -> list[Sizes | None]:
    """Of the outputs of an LSTM, GRU or RNN: all steps, the last one, and its cells."""
    steps, weight = node.dims(0), node.dims(2)
    if steps is None or len(steps) != 3 or weight is None or node.attribute("layout", 0):
        return []
    last = (weight[0], steps[1], weight[2])
    return [(steps[0], *last), last, last]


_ELEMENTWISE = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less
    LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor
"""
_SAME = """
    Abs BatchNormalization BiasGelu Cast Ceil Clip Cos CumSum DequantizeLinear Dropout Elu
    Erf Exp FastGelu Floor Gelu HardSigmoid HardSwish Identity InstanceNormalization IsNaN
    LayerNormalization LeakyRelu Log LogSoftmax Mish Neg Not PRelu QuantizeLinear QuickGelu
    RMSNormalization Reciprocal Relu Round Selu Sigmoid Sign SimplifiedLayerNormalization
    Sin SkipLayerNormalization Softmax Softplus Softsign Sqrt Tan Tanh Trilu
"""
_REDUCED = """
    L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare
"""

SIZE_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(_SAME.split(), _same),
    **{f"Reduce{kind}": _reduced for kind in _REDUCED.split()},
    **dict.fromkeys(("MatMul", "MatMulInteger"), _matmul),
    "Gemm": _gemm,
    "Concat": _concat,
    "Slice": _slice,
    "Pad": _pad,
    **dict.fromkeys(("Conv", "ConvInteger", "FusedConv"), lambda node: windows(node, 1)),
    "QLinearConv": lambda node: windows(node, 3),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), lambda node: windows(node, None)),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), global_pool),
    "ConvTranspose": transposed_windows,
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Expand": _expand,
    "ConstantOfShape": lambda node: node.listed_content(0),
    "Range": _range,
    "Tile": _tile,
    "Split": _split,
    "TopK": _topk,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Gather": _gather,
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    "STFT": stft,
}
_EXACT = {"Concat", "Conv", "Expand", "Gemm", "MatMul", "MatMulInteger", "Reshape"}
EQUATING = frozenset(_ELEMENTWISE.split()) | _EXACT
"""Operators that say which sizes must be equal."""
