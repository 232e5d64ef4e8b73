"""Prepared graphs of consecutive segments as one graph, so that they run in one session.

What crosses from one to the next keeps its name and becomes a value inside; every other name is
one segment's own and begins with its number, since each segment has its clones of constants, and
ONNX Runtime names alike what it makes anew in each. Weights stay where they are. No node is
touched otherwise, so no bit changes. What is not certain to mean the same afterwards is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from edge_agent.adapters.runtime.protobuf import Field, fields
from edge_agent.adapters.runtime.row_graph import (
    ENTRY_KEY,
    ENTRY_VALUE,
    GRAPH_INITIALIZER,
    GRAPH_INPUT,
    GRAPH_NODE,
    GRAPH_OUTPUT,
    GRAPH_VALUE_INFO,
    MODEL_GRAPH,
    NODE_ATTRIBUTE,
    NODE_INPUT,
    NODE_OUTPUT,
    TENSOR_EXTERNAL,
    TENSOR_NAME,
    VALUE_NAME,
)
from wire.errors import LoadFailed
from wire.protobuf import put_bytes, put_number

# Further numbers of the fields of onnx.proto.
MODEL_IR_VERSION, MODEL_OPSET, MODEL_FUNCTION = 1, 8, 25
OPSET_DOMAIN, OPSET_VERSION = 1, 2
GRAPH_NAME, GRAPH_QUANTISATION, GRAPH_SPARSE = 2, 14, 15
NODE_NAME = 3
ATTRIBUTE_GRAPH, ATTRIBUTE_GRAPHS = 6, 11
_VALUES = (GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_VALUE_INFO)


@dataclass(frozen=True, slots=True)
class GraphPart:
    """One segment's prepared graph, whose external weights lie in `folder`, as seen from where
    the joined graph will be."""

    index: int
    model: bytes
    folder: str

    @property
    def prefix(self) -> str:
        return f"#{self.index}/"


def joined_graph(
    parts: Sequence[GraphPart], inputs: Collection[str], outputs: Collection[str]
) -> bytes:
    """The model that takes `inputs` and makes `outputs`. Raises `LoadFailed` if the parts cannot
    be one graph."""
    taken_apart = [_Part(part) for part in parts]
    _check_names(taken_apart)
    ports = _ports(taken_apart, GRAPH_INPUT, inputs) + _ports(taken_apart, GRAPH_OUTPUT, outputs)
    inside = _inside(taken_apart, outputs)
    pieces = [piece for part in taken_apart for piece in part.written()]
    graph = b"".join([put_bytes(GRAPH_NAME, b"joined"), *ports, *inside, *pieces])
    head = put_number(MODEL_IR_VERSION, max(part.ir_version for part in taken_apart))
    return head + put_bytes(MODEL_GRAPH, graph) + _opsets(taken_apart)


class _Part:
    """One part, taken apart. `ports` are its inputs and outputs by field and name."""

    def __init__(self, part: GraphPart) -> None:
        self.part = part
        self.ir_version = 0
        self.opsets: dict[str, int] = {}
        self._entries: list[Field] = []
        for entry in fields(memoryview(part.model)):
            self._take(entry)
        self.ports = {
            key: {_name(e, VALUE_NAME): e.payload for e in self._entries if e.key == key}
            for key in (GRAPH_INPUT, GRAPH_OUTPUT)
        }
        public = self.ports[GRAPH_INPUT].keys() | self.ports[GRAPH_OUTPUT].keys()
        self.public = frozenset(public)
        self._renaming = _Renaming(part, self.public)

    def _take(self, entry: Field) -> None:
        if entry.key == MODEL_GRAPH:
            self._entries = list(fields(entry.payload))
        elif entry.key == MODEL_IR_VERSION:
            self.ir_version = entry.value
        elif entry.key == MODEL_OPSET:
            opset = list(fields(entry.payload))
            domain = next((each.text for each in opset if each.key == OPSET_DOMAIN), "")
            version = next((each.value for each in opset if each.key == OPSET_VERSION), 0)
            self.opsets["" if domain == "ai.onnx" else domain] = version
        elif entry.key == MODEL_FUNCTION:
            raise LoadFailed("functions of a model cannot be joined")

    def written(self) -> Iterator[bytes]:
        """What is inside the graph, in its order; `GRAPH_VALUE_INFO` of ports is the caller's."""
        for entry in self._entries:
            own = entry.key in (GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_SPARSE, GRAPH_QUANTISATION)
            if own or (
                entry.key == GRAPH_VALUE_INFO and _name(entry, VALUE_NAME) not in self.public
            ):
                yield self._renaming.of_graph_field(entry)


class _Renaming:
    """Gives a part's own names its prefix, in the bodies of its nodes too."""

    def __init__(self, part: GraphPart, public: frozenset[str]) -> None:
        self._public = public
        self._prefix = part.prefix.encode()
        self._folder = part.folder.encode("utf-8", "surrogateescape")

    def of_graph_field(self, entry: Field) -> bytes:
        if entry.key == GRAPH_NODE:
            return put_bytes(entry.key, self._node(entry.payload))
        if entry.key == GRAPH_INITIALIZER:
            return put_bytes(entry.key, self._weight(entry.payload))
        if entry.key in _VALUES:
            return put_bytes(entry.key, self._named(entry.payload, VALUE_NAME))
        if entry.key in (GRAPH_SPARSE, GRAPH_QUANTISATION):
            raise LoadFailed("sparse weights and annotations cannot be joined")
        return bytes(entry.whole)

    def _name(self, entry: Field) -> bytes:
        """An empty name says that an optional input is left out."""
        kept = not entry.payload.nbytes or entry.text in self._public
        return bytes(entry.whole) if kept else self._prefixed(entry)

    def _prefixed(self, entry: Field) -> bytes:
        return put_bytes(entry.key, self._prefix + bytes(entry.payload))

    def _named(self, message: memoryview, key: int) -> bytes:
        return b"".join(
            self._name(entry) if entry.key == key else bytes(entry.whole)
            for entry in fields(message)
        )

    def _node(self, node: memoryview) -> bytes:
        return b"".join(map(self._node_field, fields(node)))

    def _node_field(self, entry: Field) -> bytes:
        if entry.key in (NODE_INPUT, NODE_OUTPUT):
            return self._name(entry)
        if entry.key == NODE_NAME and entry.payload.nbytes:  # no name of a value
            return self._prefixed(entry)
        if entry.key == NODE_ATTRIBUTE:
            return put_bytes(entry.key, self._attribute(entry.payload))
        return bytes(entry.whole)

    def _attribute(self, attribute: memoryview) -> bytes:
        return b"".join(
            put_bytes(entry.key, self._body(entry.payload))
            if entry.key in (ATTRIBUTE_GRAPH, ATTRIBUTE_GRAPHS)
            else bytes(entry.whole)
            for entry in fields(attribute)
        )

    def _body(self, graph: memoryview) -> bytes:
        return b"".join(map(self.of_graph_field, fields(graph)))

    def _weight(self, tensor: memoryview) -> bytes:
        pieces = []
        for entry in fields(tensor):
            if entry.key == TENSOR_NAME:
                pieces.append(self._name(entry))
            elif entry.key == TENSOR_EXTERNAL:
                pieces.append(put_bytes(entry.key, self._place(entry.payload)))
            else:
                pieces.append(bytes(entry.whole))
        return b"".join(pieces)

    def _place(self, pair: memoryview) -> bytes:
        found = {entry.key: bytes(entry.payload) for entry in fields(pair)}
        key, value = found.get(ENTRY_KEY, b""), found.get(ENTRY_VALUE, b"")
        if key == b"location":
            value = self._folder + value
        return put_bytes(ENTRY_KEY, key) + put_bytes(ENTRY_VALUE, value)


def _name(message: Field, key: int) -> str:
    return next((entry.text for entry in fields(message.payload) if entry.key == key), "")


def _check_names(parts: Sequence[_Part]) -> None:
    made: set[str] = set()
    for part in parts:
        makes = part.ports[GRAPH_OUTPUT].keys()
        if made & makes:
            raise LoadFailed(f"two segments make {sorted(made & makes)}")
        made |= makes
    prefixes = tuple(part.part.prefix for part in parts)
    if any(name.startswith(prefixes) for part in parts for name in part.public):
        raise LoadFailed(f"a value of the model has a name that begins with one of {prefixes}")


def _ports(parts: Sequence[_Part], key: int, names: Collection[str]) -> list[bytes]:
    """The ValueInfoProtos of the joined graph's inputs or outputs."""
    known = {name: value for part in reversed(parts) for name, value in part.ports[key].items()}
    missing = [name for name in names if name not in known]
    if missing:
        raise LoadFailed(f"no segment's graph has {missing[0]!r} as the assignment says")
    return [put_bytes(key, bytes(known[name])) for name in names]


def _inside(parts: Sequence[_Part], outputs: Collection[str]) -> list[bytes]:
    """The types of what crosses from one part to another: not every operator's can be inferred."""
    return [
        put_bytes(GRAPH_VALUE_INFO, bytes(value))
        for part in parts
        for name, value in part.ports[GRAPH_OUTPUT].items()
        if name not in outputs
    ]


def _opsets(parts: Sequence[_Part]) -> bytes:
    versions: dict[str, int] = {}
    for part in parts:
        for domain, version in part.opsets.items():
            if versions.setdefault(domain, version) != version:
                raise LoadFailed(f"segments have different versions of operators of {domain!r}")
    return b"".join(
        put_bytes(
            MODEL_OPSET,
            put_bytes(OPSET_DOMAIN, domain.encode("utf-8", "surrogateescape"))
            + put_number(OPSET_VERSION, v),
        )
        for domain, v in versions.items()
    )
