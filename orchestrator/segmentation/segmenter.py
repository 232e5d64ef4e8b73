"""Cuts a model file into segments and says in a manifest how they fit together.

Stores content first and returns the manifest, which the caller stores last: a manifest never
names a blob that is not there. Decides nothing about devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from orchestrator.segmentation.cutting.constants import Roles, roles_of
from orchestrator.segmentation.cutting.cost import cost_of
from orchestrator.segmentation.cutting.cuts import choose
from orchestrator.segmentation.cutting.live_sets import Division, Stretch, divide, trunk_of
from orchestrator.segmentation.cutting.memory import check_values, peak_activation_nbytes
from orchestrator.segmentation.cutting.randomness import is_random
from orchestrator.segmentation.cutting.row_tables import row_tables
from orchestrator.segmentation.cutting.trunk_costs import trunk_costs
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.reading.metadata import metadata_of
from orchestrator.segmentation.reading.normalise import NormalModel, normalise
from orchestrator.segmentation.reading.opsets import check_opsets
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.reading.walk import Dataflow, dataflow, domain_of, with_inner_nodes
from orchestrator.segmentation.typing.runtime_graph import UNROUNDED, computed
from orchestrator.segmentation.typing.types import Types, infer_types
from orchestrator.segmentation.writing.blob_sink import Sink
from orchestrator.segmentation.writing.writer import (
    Progress,
    SegmentWriter,
    Written,
    ir_version_of,
    opsets_used,
)
from wire.elements import Element
from wire.errors import UserError
from wire.ids import check_name
from wire.manifest import (
    FORMAT,
    CutSpec,
    Manifest,
    SegmentSpec,
    TensorSpec,
)

Doing = Callable[[str], None]


def segment(
    path: Path,
    name: str,
    sink: Sink,
    *,
    options: SegmentOptions | None = None,
    progress: Progress | None = None,
    doing: Doing | None = None,
) -> Manifest:
    """The manifest of the model at `path`, whose segments are then in `sink`.

    `sink` takes an iterable of byte chunks, stores them under their SHA-256 and returns digest
    and length. `progress` hears bytes of weights done and in total, `doing` what begins. Raises
    `InvalidModel` with what the file has that cannot be served, `InvalidName`, or `UserError` for
    options that do not fit the model.
    """
    check_name(name, "model name")
    wishes, tell = options or SegmentOptions(), doing or (lambda what: None)
    tell("reading")
    source = open_model(path)
    check_opsets(source.model)
    metadata, left_out = metadata_of(source.model)
    normal = normalise(source)
    flow = dataflow(normal.model.graph)
    tell("inferring shapes")
    types = infer_types(normal.model, flow, wishes)
    check_values(flow, types)
    found = computed(normal.model, any(v.kind is Element.FLOAT16 for v in types.values.values()))
    if found.model is not normal.model:
        normal = replace(normal, model=found.model)
        flow = dataflow(normal.model.graph)
        types = infer_types(normal.model, flow, wishes)
    for output in normal.model.graph.output:
        types.kind_of(output.name)  # what cannot be an output is refused before the long work
    tell("cutting")
    roles = roles_of(flow, types)
    division = divide(flow, roles, types, _starts(flow, roles, types, wishes))
    tell("writing weights")
    writer = SegmentWriter(normal, flow, types, sink, progress)
    written = writer.write(division.stretches)
    draft = _Draft(normal, flow, types, division)
    notes = (
        *left_out,
        *normal.notes,
        *types.notes,
        *_random_notes(flow),
        *_rounding_notes(flow, types, division, found.rounds),
        *_carrying_notes(flow, types),
    )
    return replace(draft.manifest(name, written, notes), metadata=metadata)


def _starts(flow: Dataflow, roles: Roles, types: Types, options: SegmentOptions) -> tuple[int, ...]:
    """Where segments begin, as node indices; the first is 0."""
    trunk = trunk_of(flow, roles)
    costs = trunk_costs(flow, roles, types, trunk)
    if options.cut_after is not None:
        places = _wished(flow, trunk, options.cut_after)
        _check_cuttable(places, costs.places, options.cut_after)
    else:
        places = choose(costs, options.max_segment_nbytes, options.segments)
        if options.segments is None and len(places) + 1 < options.least_segments:
            places = choose(costs, options.max_segment_nbytes, options.least_segments)
        if options.segments is not None and len(places) + 1 < options.segments:
            raise UserError(f"the model can be cut into at most {len(places) + 1} segments")
    return (0, *(trunk[place - 1] + 1 for place in places))


def _wished(flow: Dataflow, trunk: tuple[int, ...], names: tuple[str, ...]) -> tuple[int, ...]:
    position = {index: at for at, index in enumerate(trunk)}
    places = set()
    for name in names:
        index = flow.producer.get(name, flow.producer.get(UNROUNDED + name, -1))
        if index not in position:
            raise UserError(f"cannot cut after {name!r}: no node that is computed once makes it")
        places.add(position[index] + 1)
    return tuple(sorted(places - {len(trunk)}))


def _check_cuttable(
    places: tuple[int, ...], allowed: tuple[int, ...], names: tuple[str, ...]
) -> None:
    if not set(places) <= set(allowed):
        raise UserError(
            f"cannot cut after all of {', '.join(names)[:200]}: a sequence, an optional or a "
            "value of unknown type would cross"
        )


def _random_notes(flow: Dataflow) -> tuple[str, ...]:
    kinds = sorted({node.proto.op_type for node in flow.nodes if is_random(node.proto)})
    if not kinds:
        return ()
    return (f"not reproducible: the model draws random numbers in {', '.join(kinds)}",)


def _rounding_notes(
    flow: Dataflow, types: Types, division: Division, rounds: bool
) -> tuple[str, ...]:
    """Of float16 that may be rounded at a cut, where the whole model might keep float32."""
    inner = {name for names in division.live[1:-1] for name in names} - set(flow.inputs)
    if rounds and any(types[name].kind is Element.FLOAT16 for name in inner):
        return ("float16 values cross cuts: outputs may differ from the whole's in the last bits",)
    return ()


def _carrying_notes(flow: Dataflow, types: Types) -> tuple[str, ...]:
    """Values that no frame can carry: nothing is cut where they live."""
    needed = flow.needed()
    names = [n for n, maker in flow.producer.items() if maker in needed and not types[n].is_tensor]
    if not names:
        return ()
    listed = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return (f"never cut where these live, which are no tensors of a known type: {listed}",)


class _Draft:
    """What the parts of a manifest are made from."""

    def __init__(
        self,
        normal: NormalModel,
        flow: Dataflow,
        types: Types,
        division: Division,
    ) -> None:
        self._normal, self._flow = normal, flow
        self._types, self._division = types, division

    def manifest(self, name: str, written: list[Written], notes: tuple[str, ...]) -> Manifest:
        inputs = tuple(self._tensor(one) for one in self._flow.inputs)
        outputs = tuple(self._tensor(one) for one in self._flow.outputs)
        cuts = tuple(self._cut(at, names) for at, names in enumerate(self._division.live))
        triples = enumerate(zip(self._division.stretches, written, strict=True))
        segments = tuple(self._segment(at, stretch, blobs) for at, (stretch, blobs) in triples)
        used = {d for one in (*inputs, *outputs) for d in one.dims}
        used |= {d for cut in cuts for one in cut.tensors for d in one.dims}
        symbols = {s: b for s, b in self._types.symbols.items() if s in used}
        return Manifest(
            format=FORMAT,
            name=name,
            source=self._normal.source.blob,
            inputs=inputs,
            outputs=outputs,
            symbols=symbols,
            cuts=cuts,
            segments=segments,
            ir_version=ir_version_of(self._normal.model),
            notes=notes,
        )

    def _cut(self, index: int, names: tuple[str, ...]) -> CutSpec:
        """A tensor passes through where the segment before did not make it, or the one after
        does not use it and so hands it on."""
        stretches = self._division.stretches
        used = set(stretches[index].inputs) if index < len(stretches) else set(names)
        return CutSpec(index, tuple(self._tensor(one, one not in used) for one in names))

    def _tensor(self, name: str, passing: bool = False) -> TensorSpec:
        kind, dims = int(self._types.kind_of(name)), self._types[name].dims
        nbytes = self._types.bound_nbytes(name)
        listed = tuple(str(dim) for dim in dims or ())
        return TensorSpec(name, kind, listed, nbytes, passing, rank_known=dims is not None)

    def _segment(self, index: int, stretch: Stretch, written: Written) -> SegmentSpec:
        nodes = [self._flow.nodes[at] for at in stretch.nodes]
        protos = [proto for node in nodes for proto in with_inner_nodes(node.proto)]
        operators = {f"{domain_of(p)}:{p.op_type}".removeprefix(":") for p in protos}
        return SegmentSpec(
            index=index,
            graph=written.graph,
            weights=written.weights,
            inputs=stretch.inputs,
            outputs=stretch.outputs,
            opsets={o.domain: o.version for o in opsets_used(self._normal.model, nodes)},
            operators=tuple(sorted(operators)),
            cost=sum(cost_of(node.proto, self._types) for node in nodes),
            peak_activation_nbytes=peak_activation_nbytes(self._flow, self._types, stretch),
            weight_specs=written.weight_specs,
            row_tables=row_tables(self._flow, self._types, stretch),
        )
