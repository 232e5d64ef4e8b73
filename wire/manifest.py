"""What a model is, once cut: its segments, cuts and blobs, all named by digest.

The orchestrator writes a manifest after every blob it names is stored; the store refuses one
that names a missing blob. A dimension is an int, or the name of a symbol; `symbols` bounds each
name (`--max-shape`), and limits, admission and memory estimates follow from these bounds.
Says nothing about devices: who serves what is an assignment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

from wire.elements import Element, element, nbytes_of
from wire.errors import Malformed
from wire.ids import check_digest, check_name, digest_of

FORMAT = 1
STRING_LIMIT_NBYTES = 1 << 20  # bound of one string tensor, whose size no shape tells


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Bytes in the store: SHA-256 and exact length."""

    digest: str
    nbytes: int

    def __post_init__(self) -> None:
        check_digest(self.digest)
        if self.nbytes < 0:
            raise ValueError(f"blob of {self.nbytes} bytes")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that crosses a cut: dims are decimal numbers or symbol names; `rank` None says
    that the rank is unknown (then `bound_nbytes` comes from measurement)."""

    name: str
    element: int
    dims: tuple[str, ...]
    bound_nbytes: int
    passing: bool = False
    rank_known: bool = True

    def __post_init__(self) -> None:
        element(self.element)
        if self.bound_nbytes < 0:
            raise ValueError(f"{self.name}: bound of {self.bound_nbytes} bytes")

    @property
    def kind(self) -> Element:
        return element(self.element)


@dataclass(frozen=True, slots=True)
class CutSpec:
    """The live set before segment `index`: what exists there and is still needed, in order."""

    index: int
    tensors: tuple[TensorSpec, ...]

    @property
    def bound_nbytes(self) -> int:
        """Raw bytes of the whole live set at the symbols' bounds."""
        return sum(tensor.bound_nbytes for tensor in self.tensors)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tensor.name for tensor in self.tensors)


@dataclass(frozen=True, slots=True)
class WeightSpec:
    """One weight tensor inside a blob."""

    name: str
    element: int
    dims: tuple[int, ...]
    blob: str
    offset: int
    nbytes: int


@dataclass(frozen=True)
class SegmentSpec:
    """The smallest unit that is stored, fetched, evicted and restored.

    `graph` is ONNX protobuf whose external data names blobs by digest in the same folder.
    `cost` estimates compute in multiply-adds at the symbols' bounds; `peak_activation_nbytes`
    the largest sum of live tensors inside. `row_tables` names weights of which a device may read
    rows instead of mapping them.
    """

    index: int
    graph: BlobRef
    weights: tuple[BlobRef, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opsets: dict[str, int]
    operators: tuple[str, ...]
    cost: float
    peak_activation_nbytes: int
    weight_specs: tuple[WeightSpec, ...] = ()
    row_tables: tuple[str, ...] = ()

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        return (self.graph, *self.weights)

    @property
    def graph_nbytes(self) -> int:
        return self.graph.nbytes

    @cached_property  # the planner asks some hundred thousand times
    def weight_nbytes(self) -> int:
        return sum(blob.nbytes for blob in self.weights)

    @cached_property
    def row_nbytes(self) -> int:
        """Bytes of weights that are read by row; equal tables are stored once."""
        places = {
            (s.blob, s.offset): s.nbytes for s in self.weight_specs if s.name in self.row_tables
        }
        return sum(places.values())


@dataclass(frozen=True, slots=True)
class Batching:
    """Whether items may be computed together, along the first axis, which `symbol` names: by
    partitions that begin and end at one of `cuts`. Without any, `refused` says why not.
    `difference`: how far items together were from the same items alone."""

    symbol: str = ""
    cuts: tuple[int, ...] = ()
    difference: float = 0.0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """How ONNX Runtime differs from itself on this model, as `model check` measured it.
    `batching` None: not looked at."""

    runtime_version: str
    spread: float
    settings: tuple[str, ...] = ()
    batching: Batching | None = None


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What its author wrote beside the graph, under ONNX Runtime's names. No device sees it."""

    custom: dict[str, str] = field(default_factory=dict)
    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    version: int = 0


@dataclass(frozen=True)
class Manifest:
    """A model that can be served. `source` is the digest of the author's file. `exact_only`: with
    graph optimisation, segments were further from the whole than ONNX Runtime is from itself."""

    format: int
    name: str
    source: BlobRef
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    symbols: dict[str, int]
    cuts: tuple[CutSpec, ...]
    segments: tuple[SegmentSpec, ...]
    ir_version: int
    notes: tuple[str, ...] = ()
    reference: Reference | None = None
    exact_only: bool = False
    metadata: ModelMetadata = field(default_factory=ModelMetadata)

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"manifest format {self.format}; this program reads {FORMAT}")
        check_name(self.name, "model name")
        if not self.segments or len(self.cuts) != len(self.segments) + 1:
            raise ValueError("a manifest has n >= 1 segments and n + 1 cuts")

    @cached_property
    def digest(self) -> str:
        """The model's digest: of the author's file, of how it is cut, since cut k means nothing
        without that, and of what may come, since one of two names for the same cut may allow more.
        Names, notes, metadata and the reference do not count."""
        pieces = [self.source.digest, "exact only" if self.exact_only else "fast or exact"]
        for symbol, size in sorted(self.symbols.items()):
            pieces += ["bound", symbol, str(size)]
        for cut in self.cuts:
            pieces += ["cut", str(cut.bound_nbytes), *cut.names]
        for segment in self.segments:
            pieces += ["segment", *(blob.digest for blob in segment.blobs)]
        return digest_of("\0".join(pieces).encode())

    def serves_as(self, other: Manifest) -> bool:
        """Whether it is served as `other` is: what was measured or remarked afterwards does not
        count, bounds do."""
        return self._served() == other._served()

    def _served(self) -> Manifest:
        return replace(self, notes=(), reference=None, metadata=ModelMetadata())

    @cached_property
    def blobs(self) -> tuple[BlobRef, ...]:
        """Every blob, once each, in the order of use."""
        unique = {blob.digest: blob for segment in self.segments for blob in segment.blobs}
        return tuple(unique.values())

    @property
    def nbytes(self) -> int:
        return sum(blob.nbytes for blob in self.blobs)

    @property
    def batching(self) -> Batching:
        """As it was measured; refused where it was not."""
        found = self.reference.batching if self.reference is not None else None
        return found or Batching(refused="its items were never compared together and alone")

    @property
    def batch_limit(self) -> int:
        """Rows along the batch axis that may be computed at once: what its bound says, since
        memory is planned for as many. 1 where items are computed alone."""
        found = self.batching
        return self.symbols.get(found.symbol, 1) if found.cuts else 1

    def shared_inputs(self) -> tuple[str, ...]:
        """The inputs without the batch axis: what is computed together must have them alike."""
        symbol = self.batching.symbol
        return tuple(spec.name for spec in self.inputs if symbol not in spec.dims)

    def frame_bound_nbytes(self, cut: int) -> int:
        """Raw bytes of a frame at this cut. Before the first segment it has every input, those
        that nothing uses as well; the live set has not."""
        specs = self.cuts[cut].tensors if cut else self.inputs
        return sum(spec.bound_nbytes for spec in specs)


def bound_of(kind: Element, dims: tuple[str, ...], symbols: dict[str, int]) -> int:
    """Bytes of a tensor whose symbolic dims take their bounds; strings get a fixed limit."""
    if kind is Element.STRING:
        return STRING_LIMIT_NBYTES
    return nbytes_of(kind, math.prod(size_of(dim, symbols) for dim in dims))


def size_of(dim: str, symbols: dict[str, int]) -> int:
    if dim.isdecimal():
        return int(dim)
    if dim not in symbols:
        raise Malformed(f"dimension {dim!r} has no bound")
    return symbols[dim]
