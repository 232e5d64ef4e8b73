"""Brings a model into the form that can be cut, without changing a bit of what it computes.

Inlines model-local functions, moves large weights out of bodies and Constant nodes to the main
graph under unique names, brings small integer tensors inline, makes sure that no output is an
initializer itself and that there is a node to run, and takes initializers out of the inputs (an
initializer that is also an input is a default that a caller could override: here it is a
constant). Returns a new model; the author's is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper

from orchestrator.segmentation.reading.operators import check_operators
from orchestrator.segmentation.reading.opsets import PLAIN_OPSET
from orchestrator.segmentation.reading.source import ModelSource
from orchestrator.segmentation.reading.tensors import (
    embed,
    is_external,
    make_raw,
    stays_inline,
    tensor_nbytes,
)
from orchestrator.segmentation.reading.training import check_training
from orchestrator.segmentation.reading.walk import (
    all_graphs,
    all_nodes,
    all_tensors,
    attribute_tensors,
    bodies,
    copied,
    graphs_below,
)
from wire.errors import InvalidModel

MAX_INLINED_NODES = 1_000_000
MAX_ATTRIBUTE_NBYTES = 64 << 20
_LIST_ATTRIBUTES = {"value_floats": ("floats", np.float32), "value_ints": ("ints", np.int64)}


@dataclass(frozen=True, slots=True)
class NormalModel:
    """A model in the form that can be cut, and what its owner should know about it."""

    source: ModelSource
    model: onnx.ModelProto
    notes: tuple[str, ...]

    def chunks(self, tensor: onnx.TensorProto) -> Iterator[bytes]:
        """The raw little-endian bytes of a weight, wherever they are."""
        return self.source.chunks(tensor)


def normalise(source: ModelSource) -> NormalModel:
    """Raises `InvalidModel` if an operator is unknown or trains in place, functions cannot be
    inlined, or an attribute is too large."""
    model = _inline_functions(source.model)
    check_operators(model)
    check_training(model)
    notes = tuple(_drop_training(model)) + tuple(_take_defaults(model))
    for tensor in all_tensors(model):
        make_raw(tensor)
    _lift_constants(model.graph)
    _hoist(model.graph)
    for tensor in all_tensors(model):
        _embed_small(source, tensor)
    _embed_attributes(source, model)
    _name_output_initializers(model.graph)
    _give_node(model.graph)
    _import_standard(model)
    _strip(model)
    return NormalModel(source, model, notes)


def _inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = copied(model)
    if not model.functions:
        return copy
    _check_expansion(model)
    inlined: onnx.ModelProto = inliner.inline_local_functions(copy)
    known = {(f.domain, f.name) for f in model.functions}
    for node in all_nodes(inlined):
        if (node.domain, node.op_type) in known:
            raise InvalidModel(
                f"function {node.op_type!r} cannot be inlined (it wants another opset than the "
                "model); export the model without functions"
            )
    del inlined.functions[:]
    return inlined


def _check_expansion(model: onnx.ModelProto) -> None:
    """Functions that call functions can expand exponentially: counted before it happens."""
    functions = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size_of(nodes: Iterator[onnx.NodeProto], path: tuple[tuple[str, str], ...]) -> int:
        return sum(1 + _called(node, path) for node in nodes)

    def _called(node: onnx.NodeProto, path: tuple[tuple[str, str], ...]) -> int:
        key = (node.domain, node.op_type)
        if key in path:
            raise InvalidModel(f"function {node.op_type!r} calls itself")
        if key in functions and key not in sizes:
            sizes[key] = size_of(_with_bodies(functions[key].node), (*path, key))
        return sizes.get(key, 0)

    if size_of(_with_bodies(model.graph.node), ()) > MAX_INLINED_NODES:
        raise InvalidModel(f"inlining its functions gives over {MAX_INLINED_NODES} nodes")


def _with_bodies(nodes: Iterator[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for body in bodies(node):
            yield from _with_bodies(body.node)


def _drop_training(model: onnx.ModelProto) -> Iterator[str]:
    if model.training_info:
        del model.training_info[:]
        yield "what the model says about its training is left out"


def _take_defaults(model: onnx.ModelProto) -> Iterator[str]:
    """Initializers leave the inputs. Before IR version 4 each had to be listed there."""
    names = {tensor.name for tensor in model.graph.initializer}
    kept = [value for value in model.graph.input if value.name not in names]
    dropped = [value.name for value in model.graph.input if value.name in names]
    if not dropped:
        return
    del model.graph.input[:]
    model.graph.input.extend(kept)
    if model.ir_version >= 4:
        yield f"inputs with a default are fixed to it: {', '.join(dropped)[:300]}"


def _lift_constants(graph: onnx.GraphProto) -> None:
    """Large Constant nodes of the main graph become initializers of the same name; in bodies
    they become initializers of the body, which `_hoist` then moves."""
    kept = []
    for node in graph.node:
        for body in bodies(node):
            _lift_constants(body)
        tensor = _large_constant(node)
        if tensor is None:
            kept.append(node)
        else:
            graph.initializer.add().CopyFrom(tensor)
    if len(kept) != len(graph.node):
        copies = [copied(node) for node in kept]
        del graph.node[:]
        graph.node.extend(copies)


def _large_constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or not node.attribute:
        return None
    tensor = onnx.TensorProto()
    attribute = node.attribute[0]
    if attribute.name == "value":
        tensor.CopyFrom(attribute.t)
    elif attribute.name in _LIST_ATTRIBUTES:
        field, dtype = _LIST_ATTRIBUTES[attribute.name]
        tensor = numpy_helper.from_array(np.array(getattr(attribute, field), dtype))
    else:
        return None
    tensor.name = node.output[0]
    return None if stays_inline(tensor) else tensor


def _hoist(graph: onnx.GraphProto) -> None:
    """Large initializers of bodies move to the main graph; bodies then capture them."""
    taken = _names(graph)
    for node in graph.node:
        for body in bodies(node):
            _hoist_from(body, graph, taken, 1)


def _hoist_from(body: onnx.GraphProto, graph: onnx.GraphProto, taken: set[str], level: int) -> None:
    defaults = {value.name for value in body.input}
    renamed: dict[str, str] = {}
    kept = []
    for tensor in body.initializer:
        stays = tensor.name in defaults or stays_inline(tensor)
        if stays or not _packs_alike(body, tensor.name, level):
            kept.append(tensor)
            continue
        renamed[tensor.name] = _fresh(f"{body.name or 'body'}/{tensor.name}", taken)
        moved = graph.initializer.add()
        moved.CopyFrom(tensor)
        moved.name = renamed[tensor.name]
    if renamed:
        _replace_initializers(body, kept)
        _rename(body, renamed)
        _pass_outputs(body, renamed)
    for node in body.node:
        for inner in bodies(node):
            _hoist_from(inner, graph, taken, level + 1)


def _packs_alike(body: onnx.GraphProto, name: str, level: int) -> bool:
    """Whether moving a weight from `level` to the main graph (0) changes no bit.

    ONNX Runtime packs a weight for its user if it lies in the user's graph or in the one around
    it, and not if it lies further out; packed and unpacked products differ in their last bits.
    """
    return all(use <= 1 or use - level > 1 for use in _use_levels(body, name, level))


def _use_levels(body: onnx.GraphProto, name: str, level: int) -> Iterator[int]:
    """How deep each use of a body's value lies."""
    for node in body.node:
        if name in node.input:
            yield level
        for inner in bodies(node):
            if name not in _defined(inner):
                yield from _use_levels(inner, name, level + 1)


def _defined(body: onnx.GraphProto) -> set[str]:
    own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    return own | {name for node in body.node for name in node.output}


def _replace_initializers(body: onnx.GraphProto, kept: list[onnx.TensorProto]) -> None:
    copies = [copied(tensor) for tensor in kept]
    del body.initializer[:]
    body.initializer.extend(copies)


def _rename(body: onnx.GraphProto, renamed: dict[str, str]) -> None:
    """Uses of a name in `body` and deeper, unless a deeper body defines it itself."""
    for node in body.node:
        for place, name in enumerate(node.input):
            if name in renamed:
                node.input[place] = renamed[name]
        for inner in bodies(node):
            own = _defined(inner)
            _rename(inner, {old: new for old, new in renamed.items() if old not in own})


def _pass_outputs(body: onnx.GraphProto, renamed: dict[str, str]) -> None:
    """A body may not return an outer value itself: an Identity hands it over."""
    for value in body.output:
        if value.name in renamed:
            body.node.append(helper.make_node("Identity", [renamed[value.name]], [value.name]))


def _names(graph: onnx.GraphProto) -> set[str]:
    names = {v.name for v in (*graph.input, *graph.output)} | {t.name for t in graph.initializer}
    for node in graph.node:
        names.update(node.input)
        names.update(node.output)
        for body in bodies(node):
            names |= _names(body)
    return names


def _fresh(wish: str, taken: set[str]) -> str:
    name, count = wish, 1
    while name in taken:
        name, count = f"{wish}.{count}", count + 1
    taken.add(name)
    return name


def _embed_small(source: ModelSource, tensor: onnx.TensorProto) -> None:
    if is_external(tensor) and stays_inline(tensor):
        embed(tensor, source.raw(tensor))


def _embed_attributes(source: ModelSource, model: onnx.ModelProto) -> None:
    """Attributes cannot be external in a segment: what `_hoist` left comes inline."""
    left = [t for node in all_nodes(model) for t in attribute_tensors(node)]
    left += [
        t
        for node in model.graph.node
        for body in bodies(node)
        for graph in graphs_below(body)
        for t in graph.initializer
    ]
    for tensor in filter(is_external, left):
        if tensor_nbytes(tensor) > MAX_ATTRIBUTE_NBYTES:
            raise InvalidModel(
                f"an attribute or a body's default holds {tensor_nbytes(tensor)} bytes; "
                "store it as an initializer of the main graph"
            )
        embed(tensor, source.raw(tensor))


def _name_output_initializers(graph: onnx.GraphProto) -> None:
    """An output that is an initializer gets an Identity, so that outputs are made by nodes."""
    taken = _names(graph)
    outputs = {value.name for value in graph.output}
    made = []
    for tensor in graph.initializer:
        if tensor.name in outputs:
            output, tensor.name = tensor.name, _fresh(f"{tensor.name}.value", taken)
            made.append(helper.make_node("Identity", [tensor.name], [output]))
    if made:
        rest = [copied(node) for node in graph.node]
        del graph.node[:]
        graph.node.extend([*made, *rest])


def _give_node(graph: onnx.GraphProto) -> None:
    """Where every output is an input there is nothing to run, and ONNX Runtime loads no segment
    of that: it gets a number that nobody uses."""
    passed = {value.name for value in graph.input}
    if not all(value.name in passed for value in graph.output):
        return
    number = numpy_helper.from_array(np.array(0, np.int64))
    del graph.node[:]
    graph.node.append(helper.make_node("Constant", [], [_fresh("nothing", passed)], value=number))


def _import_standard(model: onnx.ModelProto) -> None:
    """For the nodes that are added here: a model may be of other domains' operators alone."""
    if not any(opset.domain in ("", "ai.onnx") for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", PLAIN_OPSET))


def _strip(model: onnx.ModelProto) -> None:
    """Documentation strings and metadata say nothing to a runtime and can be megabytes."""
    for graph in all_graphs(model):
        graph.ClearField("doc_string")
        graph.ClearField("metadata_props")
        for tensor in graph.initializer:
            tensor.ClearField("doc_string")
    for node in all_nodes(model):
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
