"""The sizes that windows over an axis make, as terms: convolutions, poolings and spectrograms."""

from __future__ import annotations

from orchestrator.segmentation.typing.formulas import Term
from orchestrator.segmentation.typing.node_view import NodeView, Sizes


def windows(node: NodeView, weight: int | None) -> Sizes | None:
    """Convolutions and poolings: how many windows lie on each axis behind the first two."""
    dims, shape = node.dims(0), node.dims(weight) if weight is not None else None
    kernel = node.listed_terms("kernel_shape") or (shape and shape[2:])
    if dims is None or not kernel or len(kernel) != len(dims) - 2:
        return None
    spatial = [_window_count(node, d, at, kernel[at]) for at, d in enumerate(dims[2:])]
    if weight is None or not shape:
        return (dims[0], dims[1] if weight is None else None, *spatial)
    node.equate(dims[1], node.make("mul", shape[1], node.attribute("group", 1)))
    return (dims[0], shape[0], *spatial)


def _window_count(node: NodeView, size: Term | None, at: int, kernel: Term | None) -> Term | None:
    strides, dilations, pads = (node.listed(n) for n in ("strides", "dilations", "pads"))
    stride, dilation = strides[at] if strides else 1, dilations[at] if dilations else 1
    if node.text("auto_pad").startswith("SAME"):
        return node.make("ceil", node.make("true_div", size, stride))
    padding = pads[at] + pads[at + len(pads) // 2] if pads else 0
    reach = node.make("add", node.make("mul", node.make("sub", kernel, 1), dilation), 1)
    room = node.make("sub", node.make("add", size, padding), reach)
    rounding = "ceil" if node.attribute("ceil_mode", 0) else "floor"
    return node.make("add", node.make(rounding, node.make("true_div", room, stride)), 1)


def transposed_windows(node: NodeView) -> Sizes | None:
    dims, shape = node.dims(0), node.dims(1)
    if dims is None or shape is None or node.listed("output_shape"):
        return None
    kernel = node.listed_terms("kernel_shape") or shape[2:]
    spatial = [_spread(node, d, at, kernel[at]) for at, d in enumerate(dims[2:])]
    return (dims[0], node.make("mul", shape[1], node.attribute("group", 1)), *spatial)


def _spread(node: NodeView, size: Term | None, at: int, kernel: Term | None) -> Term | None:
    strides, dilations, pads = (node.listed(n) for n in ("strides", "dilations", "pads"))
    stride, dilation = strides[at] if strides else 1, dilations[at] if dilations else 1
    if node.text("auto_pad").startswith("SAME"):
        return node.make("mul", size, stride)
    more = node.listed("output_padding")
    extra = (more[at] if more else 0) - (pads[at] + pads[at + len(pads) // 2] if pads else 0)
    reach = node.make("add", node.make("mul", node.make("sub", kernel, 1), dilation), 1 + extra)
    steps = node.make("mul", node.make("sub", size, 1), stride)
    return node.make("add", steps, reach)


def global_pool(node: NodeView) -> Sizes | None:
    dims = node.dims(0)
    return None if dims is None else (*dims[:2], *[1] * (len(dims) - 2))


def stft(node: NodeView) -> Sizes | None:
    """[batch, signal, 1 or 2] by a step to [batch, frames, bins, 2]."""
    dims, step = node.dims(0), node.element(1)
    window = node.dims(2)
    frame = node.element(3) if node.has(3) else (window[0] if window else None)
    if not dims:
        return None
    frames = node.make("div", node.make("sub", dims[1], frame), step)
    half = node.make("add", node.make("div", frame, 2), 1)
    bins = half if node.attribute("onesided", 1) else frame
    return (dims[0], node.make("add", frames, 1), bins, 2)
