"""How many items devices may compute in one call, as people say it: a number, or "auto"."""

from __future__ import annotations

from wire.errors import InvalidInput
from wire.frame_head import MAX_BATCH
from wire.messages.requests import BATCH_AUTO

AUTO = "auto"
BatchSize = int | str


def batch_number(size: int | str) -> int:
    """As a run's options have it; `InvalidInput` if it is neither."""
    text = str(size).strip()
    if text == AUTO:
        return BATCH_AUTO
    if not text.isdecimal() or not 1 <= int(text) <= MAX_BATCH:
        raise InvalidInput(f"a batch size is a number from 1 to {MAX_BATCH}, or auto; not {size!r}")
    return int(text)
