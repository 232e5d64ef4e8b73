"""Writes segments: weights as blobs, and graphs that refer to them by digest.

Small tensors stay inside the graph. A segment's own weights make one blob, each at an offset
that is a multiple of 64; a weight that several segments use is a blob of its own, and weights of
equal content are one. Bytes pass in chunks of 1 MiB: memory does not grow with the model. The
same model cut at the same places gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx
from onnx import helper

from orchestrator.segmentation.cutting.live_sets import Stretch
from orchestrator.segmentation.cutting.open_scales import open_scales
from orchestrator.segmentation.reading.normalise import NormalModel
from orchestrator.segmentation.reading.tensors import refer, stays_inline, tensor_nbytes
from orchestrator.segmentation.reading.walk import Dataflow, Node, domain_of, with_inner_nodes
from orchestrator.segmentation.typing.types import Types
from orchestrator.segmentation.writing.blob_sink import Sink
from wire.manifest import BlobRef, WeightSpec

ALIGNMENT = 64
MAX_IR_VERSION = 10
MIN_IR_VERSION = 4  # from here on a weight need not be listed among the inputs
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Written:
    """One segment in the sink."""

    graph: BlobRef
    weights: tuple[BlobRef, ...]
    weight_specs: tuple[WeightSpec, ...]


def ir_version_of(model: onnx.ModelProto) -> int:
    return max(MIN_IR_VERSION, min(int(model.ir_version), MAX_IR_VERSION))


class SegmentWriter:
    """Writes the segments of one model, in order."""

    def __init__(
        self,
        normal: NormalModel,
        flow: Dataflow,
        types: Types,
        sink: Sink,
        progress: Progress | None,
    ) -> None:
        self._normal, self._flow, self._types = normal, flow, types
        self._sink = sink
        self._progress = progress or (lambda done, total: None)
        self._done_nbytes = 0
        self._total_nbytes = 0
        self._content: dict[str, str] = {}
        self._shared: frozenset[str] = frozenset()
        self._blobs: dict[str, BlobRef] = {}
        self._blob_of_shared: dict[str, BlobRef] = {}

    def write(self, stretches: tuple[Stretch, ...]) -> list[Written]:
        """Every segment's blobs, weights first, then the graph that names them."""
        used = [self._external_of(stretch) for stretch in stretches]
        self._content = self._digests({name for names in used for name in names})
        self._shared = self._used_twice(used)
        self._total_nbytes = sum(
            tensor_nbytes(self._flow.initializers[name]) for names in used for name in names
        )
        pairs = enumerate(zip(stretches, used, strict=True))
        return [self._segment(index, stretch, names) for index, (stretch, names) in pairs]

    def _external_of(self, stretch: Stretch) -> tuple[str, ...]:
        """The large weights that a segment uses, in order of first use."""
        initializers = self._flow.initializers
        names = dict.fromkeys(
            name for index in stretch.nodes for name in self._flow.nodes[index].inputs
        )
        return tuple(n for n in names if n in initializers and not stays_inline(initializers[n]))

    def _digests(self, names: set[str]) -> dict[str, str]:
        """A digest of type, shape and bytes of each weight, to store equal ones once."""
        return {name: self._digest(self._flow.initializers[name]) for name in sorted(names)}

    def _digest(self, tensor: onnx.TensorProto) -> str:
        digest = hashlib.sha256()
        for chunk in self._normal.chunks(tensor):
            digest.update(chunk)
        return digest.hexdigest()

    def _used_twice(self, used: list[tuple[str, ...]]) -> frozenset[str]:
        seen: set[str] = set()
        twice: set[str] = set()
        for names in used:
            contents = {self._content[name] for name in names}
            twice |= contents & seen
            seen |= contents
        return frozenset(twice)

    def _segment(self, index: int, stretch: Stretch, names: tuple[str, ...]) -> Written:
        own = tuple(name for name in names if self._content[name] not in self._shared)
        specs = {spec.name: spec for spec in self._own_blob(own)}
        for name in names:
            if name not in specs:
                specs[name] = self._shared_blob(name)
        ordered = tuple(specs[name] for name in names)
        blobs = dict.fromkeys(spec.blob for spec in ordered)
        graph = self._graph(index, stretch, specs)
        data = graph.SerializeToString(deterministic=True)
        reference = self._sink(iter((data,)))
        return Written(reference, tuple(self._blobs[name] for name in blobs), ordered)

    def _own_blob(self, names: tuple[str, ...]) -> list[WeightSpec]:
        if not names:
            return []
        offsets, layout = self._layout(names)
        blob = self._store(self._chunks(layout))
        return [self._spec(name, blob, offsets[self._content[name]]) for name in names]

    def _layout(self, names: tuple[str, ...]) -> tuple[dict[str, int], list[tuple[int, str]]]:
        offsets: dict[str, int] = {}
        layout: list[tuple[int, str]] = []
        end = 0
        for name in names:
            content = self._content[name]
            if content not in offsets:
                offsets[content] = -(-end // ALIGNMENT) * ALIGNMENT
                layout.append((offsets[content], name))
                end = offsets[content] + tensor_nbytes(self._flow.initializers[name])
        return offsets, layout

    def _chunks(self, layout: list[tuple[int, str]]) -> Iterator[bytes]:
        end = 0
        for offset, name in layout:
            if offset > end:
                yield bytes(offset - end)
            end = offset
            for chunk in self._normal.chunks(self._flow.initializers[name]):
                yield chunk
                end += len(chunk)
                self._advance(len(chunk))

    def _advance(self, nbytes: int) -> None:
        self._done_nbytes += nbytes
        self._progress(self._done_nbytes, self._total_nbytes)

    def _store(self, chunks: Iterator[bytes]) -> BlobRef:
        blob = self._sink(chunks)
        self._blobs[blob.digest] = blob
        return blob

    def _shared_blob(self, name: str) -> WeightSpec:
        content = self._content[name]
        if content not in self._blob_of_shared:
            self._blob_of_shared[content] = self._store(self._chunks([(0, name)]))
        return self._spec(name, self._blob_of_shared[content], 0)

    def _spec(self, name: str, blob: BlobRef, offset: int) -> WeightSpec:
        tensor = self._flow.initializers[name]
        dims = tuple(int(dim) for dim in tensor.dims)
        nbytes = tensor_nbytes(tensor)
        return WeightSpec(name, int(tensor.data_type), dims, blob.digest, offset, nbytes)

    def _graph(self, index: int, stretch: Stretch, specs: dict[str, WeightSpec]) -> onnx.ModelProto:
        nodes = [self._flow.nodes[at] for at in stretch.nodes]
        used = dict.fromkeys(name for node in nodes for name in node.inputs)
        opened = open_scales(self._flow, stretch)
        graph = helper.make_graph(
            [node.proto for node in nodes],
            f"segment-{index}",
            [*map(self._value, stretch.inputs), *map(self._default, opened)],
            [self._value(name) for name in stretch.outputs],
            [self._weight(n, specs.get(n)) for n in used if n in self._flow.initializers],
        )
        model = helper.make_model(graph, opset_imports=opsets_used(self._normal.model, nodes))
        model.ir_version = ir_version_of(self._normal.model)
        model.producer_name = "crowdpipe"
        return model

    def _weight(self, name: str, spec: WeightSpec | None) -> onnx.TensorProto:
        tensor = self._flow.initializers[name]
        made = onnx.TensorProto()
        if spec is None:
            made.CopyFrom(tensor)
            return made
        made.name, made.data_type = name, tensor.data_type
        made.dims.extend(tensor.dims)
        refer(made, spec.blob, spec.offset, spec.nbytes)
        return made

    def _default(self, name: str) -> onnx.ValueInfoProto:
        """An initializer as an input that nobody gives: no constant to ONNX Runtime."""
        tensor = self._flow.initializers[name]
        made: onnx.ValueInfoProto = helper.make_tensor_value_info(
            name, int(tensor.data_type), list(tensor.dims)
        )
        return made

    def _value(self, name: str) -> onnx.ValueInfoProto:
        """Type and, where the rank is known, shape; a dimension that is unknown stays open."""
        kind = self._types.kind_of(name)
        dims = self._types[name].dims
        made: onnx.ValueInfoProto = helper.make_tensor_value_info(name, int(kind), dims)
        return made


def opsets_used(model: onnx.ModelProto, nodes: list[Node]) -> list[onnx.OperatorSetIdProto]:
    """The model's opset for each domain that these nodes use, bodies included."""
    used = {domain_of(proto) for node in nodes for proto in with_inner_nodes(node.proto)} | {""}
    known = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in model.opset_import}
    return [helper.make_opsetid(name, known[name]) for name in sorted(used) if name in known]
