"""`models/<m>`: the retained summary of a manifest, enough to make feeds for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from wire.manifest import Manifest, ModelMetadata, TensorSpec


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """`symbols` bounds symbolic dimensions; `limit_nbytes` the raw bytes of one item's inputs.
    `segment_s`: seconds that each segment took on the middle one of the devices that ran it, None
    where none did yet. `exact_only`: it is served in exact mode alone, whatever a run asks for."""

    name: str
    digest: str
    nbytes: int
    segments: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    symbols: dict[str, int]
    input_limit_nbytes: int
    output_limit_nbytes: int
    notes: tuple[str, ...] = ()
    segment_s: tuple[float | None, ...] = ()
    exact_only: bool = False
    metadata: ModelMetadata = field(default_factory=ModelMetadata)


def summary_of(manifest: Manifest) -> ModelSummary:
    return ModelSummary(
        name=manifest.name,
        digest=manifest.digest,
        nbytes=manifest.nbytes,
        segments=len(manifest.segments),
        inputs=manifest.inputs,
        outputs=manifest.outputs,
        symbols=manifest.symbols,
        input_limit_nbytes=manifest.frame_bound_nbytes(0),
        output_limit_nbytes=manifest.cuts[-1].bound_nbytes,
        notes=manifest.notes,
        exact_only=manifest.exact_only,
        metadata=manifest.metadata,
    )
