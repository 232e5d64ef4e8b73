"""A segment's graph without the tables that are read by row.

An embedding table is large, and an inference needs a few of its rows. Mapped, a `Gather` over it
still brings most of it in where the system maps files in large pages (measured: 94 MB for 128
rows of 3 KB). So the Gather leaves the graph, what it would make becomes an input, and `row_source`
reads the rows. Only a Gather of the default domain at the graph's top level leaves, along axis 0,
over an external weight that nothing else uses, with indices that come into the graph: then this
changes no bit. What the orchestrator names and is not of that kind is refused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from edge_agent.adapters.runtime.protobuf import Field, fields, signed
from wire.elements import Element, bits_of, element, nbytes_of
from wire.errors import CrowdpipeError, LoadFailed
from wire.protobuf import put_bytes, put_number

# Numbers of the fields of onnx.proto.
MODEL_GRAPH = 7
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_VALUE_INFO = 1, 5, 11, 12, 13
NODE_INPUT, NODE_OUTPUT, NODE_OPERATOR, NODE_ATTRIBUTE, NODE_DOMAIN = 1, 2, 4, 5, 7
ATTRIBUTE_NAME, ATTRIBUTE_INT = 1, 3
TENSOR_DIMS, TENSOR_TYPE, TENSOR_NAME, TENSOR_EXTERNAL = 1, 2, 8, 13
VALUE_NAME, VALUE_TYPE, TYPE_TENSOR, TENSOR_TYPE_SHAPE, SHAPE_DIM, DIM_VALUE = 1, 2, 1, 2, 1, 1
ENTRY_KEY, ENTRY_VALUE = 1, 2


@dataclass(frozen=True, slots=True)
class RowTable:
    """Where a table lies: `rows` rows of `row_nbytes`, each of shape `row_dims`, one after
    another from `offset` in the blob."""

    blob: str
    offset: int
    kind: Element
    rows: int
    row_dims: tuple[int, ...]

    @property
    def row_nbytes(self) -> int:
        return nbytes_of(self.kind, math.prod(self.row_dims))


@dataclass(frozen=True, slots=True)
class RowRead:
    """The rows of `table` that the values of `indices` name, in their order, are `output`."""

    table: RowTable
    indices: str
    output: str


@dataclass(frozen=True, slots=True)
class RowGraph:
    """`graph` is the model without its row reads, which takes the rows `added` besides its own
    inputs; empty if nothing is left that makes an output."""

    graph: bytes
    reads: tuple[RowRead, ...]
    added: tuple[str, ...] = ()


def without_row_reads(model: bytes, tables: Collection[str]) -> RowGraph:
    """Raises `LoadFailed` if the graph does not use `tables` as this module's docstring says."""
    entries = list(fields(memoryview(model)))
    graph = next((entry.payload for entry in entries if entry.key == MODEL_GRAPH), None)
    if graph is None:
        raise LoadFailed("the segment's blob is no ONNX model")
    parts = _Parts(graph, frozenset(tables))
    if not parts.makes_more:
        return RowGraph(b"", parts.reads)
    rest = b"".join(entry.whole for entry in entries if entry.key != MODEL_GRAPH)
    added = tuple(read.output for read in parts.added)
    return RowGraph(rest + put_bytes(MODEL_GRAPH, parts.written()), parts.reads, added)


class _Parts:
    """One graph, taken apart."""

    def __init__(self, graph: memoryview, names: frozenset[str]) -> None:
        self._entries = list(fields(graph))
        self._inputs = {_name(e, VALUE_NAME): e.payload for e in self._of(GRAPH_INPUT)}
        self._weights = {_name(e, TENSOR_NAME): e.payload for e in self._of(GRAPH_INITIALIZER)}
        self._tables = names
        self.kept_nodes: list[Field] = []
        self.reads = self._taken_out()
        self._made = frozenset(read.output for read in self.reads)
        self._used = {name for node in self.kept_nodes for name in _texts(node, NODE_INPUT)}
        self._check()

    def _of(self, key: int) -> Iterator[Field]:
        return (entry for entry in self._entries if entry.key == key)

    def _taken_out(self) -> tuple[RowRead, ...]:
        reads = []
        for node in self._of(GRAPH_NODE):
            inputs = _texts(node, NODE_INPUT)
            if inputs and inputs[0] in self._tables and self._leaves(node, inputs):
                table = _table_of(self._weights[inputs[0]])
                reads.append(RowRead(table, inputs[1], _texts(node, NODE_OUTPUT)[0]))
            else:
                self.kept_nodes.append(node)
        return tuple(reads)

    def _leaves(self, node: Field, inputs: list[str]) -> bool:
        return (
            _texts(node, NODE_OPERATOR) == ["Gather"]
            and _texts(node, NODE_DOMAIN) in ([], [""], ["ai.onnx"])
            and _axis(node) == 0
            and inputs[0] in self._weights
            and inputs[0] not in self._inputs
            and inputs[1] in self._inputs
        )

    def _check(self) -> None:
        wrong = sorted(self._used & self._tables)
        if wrong:
            raise LoadFailed(f"the table {wrong[0]!r} is not only read by row: it must stay whole")

    @property
    def added(self) -> list[RowRead]:
        """Whose rows the rest of the graph takes."""
        return [read for read in self.reads if read.output in self._used]

    @property
    def makes_more(self) -> bool:
        """Whether an output is left that no row read makes."""
        return any(_name(entry, VALUE_NAME) not in self._made for entry in self._of(GRAPH_OUTPUT))

    def written(self) -> bytes:
        """The graph that is left. A body that captures a table is refused by ONNX Runtime."""
        kept = b"".join(entry.whole for entry in self._entries if self._stays(entry))
        nodes = b"".join(node.whole for node in self.kept_nodes)
        inputs = [put_bytes(GRAPH_INPUT, self._as_input(read)) for read in self.added]
        return kept + nodes + b"".join(inputs)

    def _stays(self, entry: Field) -> bool:
        if entry.key == GRAPH_NODE:
            return False  # written after this
        if entry.key == GRAPH_INITIALIZER:
            return _name(entry, TENSOR_NAME) not in self._tables
        if entry.key in (GRAPH_OUTPUT, GRAPH_VALUE_INFO):
            return _name(entry, VALUE_NAME) not in self._made
        return True

    def _as_input(self, read: RowRead) -> bytes:
        """A ValueInfoProto: the shape of the indices, then that of a row."""
        kind = put_number(1, int(read.table.kind))
        dims = _dims_of(self._inputs[read.indices])
        if dims is not None:
            row = [put_bytes(SHAPE_DIM, put_number(DIM_VALUE, dim)) for dim in read.table.row_dims]
            kind += put_bytes(TENSOR_TYPE_SHAPE, b"".join([*dims, *row]))
        name = put_bytes(VALUE_NAME, read.output.encode("utf-8", "surrogateescape"))
        return name + put_bytes(VALUE_TYPE, put_bytes(TYPE_TENSOR, kind))


def _texts(message: Field, key: int) -> list[str]:
    return [entry.text for entry in fields(message.payload) if entry.key == key]


def _name(message: Field, key: int) -> str:
    return next(iter(_texts(message, key)), "")


def _axis(node: Field) -> int:
    for attribute in fields(node.payload):
        if attribute.key == NODE_ATTRIBUTE and _name(attribute, ATTRIBUTE_NAME) == "axis":
            numbers = [e.value for e in fields(attribute.payload) if e.key == ATTRIBUTE_INT]
            return signed(numbers[-1]) if numbers else 0
    return 0


def _dims_of(value: memoryview) -> list[bytes] | None:
    """The dimensions of a ValueInfoProto as they stand there; None if it has no shape."""
    found = value
    for key in (VALUE_TYPE, TYPE_TENSOR, TENSOR_TYPE_SHAPE):
        inner = [entry.payload for entry in fields(found) if entry.key == key]
        if not inner:
            return None
        found = inner[-1]
    return [bytes(entry.whole) for entry in fields(found) if entry.key == SHAPE_DIM]


def _table_of(tensor: memoryview) -> RowTable:
    entries = list(fields(tensor))
    try:
        kind = element(next(entry.value for entry in entries if entry.key == TENSOR_TYPE))
        dims = [dim for entry in entries if entry.key == TENSOR_DIMS for dim in _numbers(entry)]
        place = dict(_pair(entry) for entry in entries if entry.key == TENSOR_EXTERNAL)
        offset = int(place.get("offset", "0"))
        table = RowTable(place["location"], offset, kind, dims[0], tuple(dims[1:]))
    except (CrowdpipeError, KeyError, ValueError, IndexError, StopIteration):
        raise LoadFailed("a table that is read by row is no external weight") from None
    if bits_of(kind) < 8 or kind is Element.STRING or min(dims) < 1 or offset < 0:
        raise LoadFailed(f"no rows can be read of a table of {kind.name} {dims} at {offset}")
    return table


def _numbers(entry: Field) -> list[int]:
    """A repeated number, one by one or packed."""
    if entry.payload.nbytes and entry.whole[0] & 7 == 2:
        return [inner.value for inner in _unpacked(entry.payload)]
    return [entry.value]


def _unpacked(payload: memoryview) -> Iterator[Field]:
    """A packed list read as if each number were a field of its own."""
    at = 0
    while at < len(payload):
        end = at
        while payload[end] & 0x80:
            end += 1
        yield from fields(memoryview(b"\x08" + bytes(payload[at : end + 1])))
        at = end + 1


def _pair(entry: Field) -> tuple[str, str]:
    return _name(entry, ENTRY_KEY), _name(entry, ENTRY_VALUE)
