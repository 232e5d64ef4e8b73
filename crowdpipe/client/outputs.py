"""A result's frame as the arrays that a person asked for."""

from __future__ import annotations

from collections.abc import Sequence

from crowdpipe.client.arrays import Array, decode_array
from wire.frames import decode_frame
from wire.messages.model import ModelSummary

STRINGS_NBYTES = 64 << 20  # slack above the limit of fixed-size outputs


def outputs_of(data: bytes, model: ModelSummary, names: Sequence[str]) -> list[Array]:
    """The named outputs, in their order. Raises `Malformed`, or `TooLarge` beyond the model's
    bounds."""
    frame = decode_frame(data, model.output_limit_nbytes + STRINGS_NBYTES)
    return [decode_array(frame.tensor(name)) for name in names]
