"""How a model is to be cut: limits, wishes, and the bounds of its symbolic dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field

from wire.errors import UserError

MAX_SEGMENT_NBYTES = 16 << 20
MIN_SEGMENT_NBYTES = 1 << 20
DEFAULT_SEGMENTS = 16
DEFAULT_BATCH = 1
DEFAULT_DIM = 512


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """Wishes for a cut.

    `max_segment_nbytes` bounds a segment's weights unless one node alone has more. `segments`
    asks for that many exactly; `cut_after` names values after whose node to cut, and nothing
    else is cut. `least_segments` cuts small models too, which would stay whole: into so many, or
    as many as they have places for. `max_shape` bounds symbolic dimensions by name; one that is
    not named takes `DEFAULT_BATCH` if it is a batch, and `DEFAULT_DIM` otherwise.
    """

    max_segment_nbytes: int = MAX_SEGMENT_NBYTES
    segments: int | None = None
    cut_after: tuple[str, ...] | None = None
    least_segments: int = 1
    max_shape: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.max_segment_nbytes < 1:
            raise UserError("a segment must be allowed at least one byte of weights")
        if self.segments is not None and self.segments < 1:
            raise UserError(f"a model has at least one segment, not {self.segments}")
        if self.segments is not None and self.cut_after is not None:
            raise UserError("ask for a number of segments or for a list of cuts, not for both")
        for name, bound in self.max_shape.items():
            if bound < 1:
                raise UserError(f"the bound of dimension {name!r} must be at least 1, not {bound}")
