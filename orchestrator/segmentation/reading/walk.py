"""The graph as a dataflow: who makes a value, who uses it, in topological order.

What the bodies of If, Loop and Scan capture from outside counts as an input of their node, so a
cut never loses it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import onnx

from wire.errors import InvalidModel

Message = TypeVar("Message", bound=Any)  # a protobuf message, which has no type stubs


def copied(message: Message) -> Message:
    """A message of its own: one inside a repeated field goes when the field is emptied."""
    made: Message = type(message)()
    made.CopyFrom(message)
    return made


def bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs directly inside a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs_below(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """`graph` and all graphs inside it."""
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from graphs_below(body)


def all_graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph, all bodies, and those inside functions."""
    yield from graphs_below(model.graph)
    for function in model.functions:
        for node in function.node:
            for body in bodies(node):
                yield from graphs_below(body)


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    for graph in all_graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every TensorProto: initializers and attributes, in bodies and functions too."""
    for graph in all_graphs(model):
        yield from graph.initializer
    for node in all_nodes(model):
        yield from attribute_tensors(node)


def attribute_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors


def captures(graph: onnx.GraphProto) -> dict[str, None]:
    """Names that a body uses but does not define, in order of first use."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    found: dict[str, None] = {}
    for node in graph.node:
        for name in (*node.input, *(name for body in bodies(node) for name in captures(body))):
            if name and name not in own:
                found[name] = None
        own.update(node.output)
    for value in graph.output:
        if value.name not in own:
            found[value.name] = None
    return found


def inputs_of(node: onnx.NodeProto) -> tuple[str, ...]:
    """What a node needs: its inputs and its bodies' captures, once each; empty names left out."""
    names = dict.fromkeys(name for name in node.input if name)
    for body in bodies(node):
        names.update(captures(body))
    return tuple(names)


def with_inner_nodes(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """`node` and all nodes of its bodies."""
    yield node
    for body in bodies(node):
        for inner in body.node:
            yield from with_inner_nodes(inner)


def domain_of(node: onnx.NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else str(node.domain)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the main graph at its place in topological order."""

    index: int
    proto: onnx.NodeProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Dataflow:
    """The main graph: nodes in topological order, and who makes and who uses each value."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    initializers: dict[str, onnx.TensorProto]
    producer: dict[str, int]
    users: dict[str, tuple[int, ...]]

    def needed(self) -> frozenset[int]:
        """Nodes that some output depends on."""
        found: set[int] = set()
        open_names = list(self.outputs)
        while open_names:
            index = self.producer.get(open_names.pop())
            if index is not None and index not in found:
                found.add(index)
                open_names.extend(self.nodes[index].inputs)
        return frozenset(found)


def dataflow(graph: onnx.GraphProto) -> Dataflow:
    """The dataflow of a main graph. Raises `InvalidModel` on cycles, values that nothing makes,
    and values made twice."""
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    inputs = tuple(v.name for v in graph.input if v.name not in initializers)
    protos = sorted_nodes(graph)
    nodes = tuple(
        Node(index, proto, inputs_of(proto), tuple(name for name in proto.output if name))
        for index, proto in enumerate(protos)
    )
    producer = {name: node.index for node in nodes for name in node.outputs}
    users: dict[str, list[int]] = {}
    for node in nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node.index)
    outputs = tuple(dict.fromkeys(value.name for value in graph.output))
    _check_made(outputs, {*inputs, *initializers, *producer})
    frozen = {name: tuple(indices) for name, indices in users.items()}
    return Dataflow(nodes, inputs, outputs, initializers, producer, frozen)


def _check_made(names: tuple[str, ...], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise InvalidModel(f"the model uses {name!r}, which nothing in it makes")


def sorted_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes in topological order; the author's order wherever that is one."""
    protos = list(graph.node)
    maker = _makers(graph)
    known = {v.name for v in graph.input} | {t.name for t in graph.initializer} | set(maker)
    waits: list[set[int]] = []
    feeds: list[list[int]] = [[] for _ in protos]
    for index, proto in enumerate(protos):
        names = inputs_of(proto)
        _check_made(names, known)
        waits.append({maker[name] for name in names if name in maker})
        for before in waits[index]:
            feeds[before].append(index)
    return [protos[index] for index in _kahn(waits, feeds)]


def _makers(graph: onnx.GraphProto) -> dict[str, int]:
    maker: dict[str, int] = {}
    given = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    for index, proto in enumerate(graph.node):
        for name in proto.output:
            if name and (name in maker or name in given):
                raise InvalidModel(f"the model makes {name!r} twice")
            if name:
                maker[name] = index
    return maker


def _kahn(waits: list[set[int]], feeds: list[list[int]]) -> list[int]:
    ready = [index for index, before in enumerate(waits) if not before]
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for after in feeds[index]:
            waits[after].discard(index)
            if not waits[after]:
                heapq.heappush(ready, after)
    if len(order) != len(waits):
        raise InvalidModel("the model's graph has a cycle")
    return order
