"""How many items of a run devices may compute at once: what it asks for, if its model allows it."""

from __future__ import annotations

from wire.errors import InvalidInput
from wire.frame_head import MAX_BATCH
from wire.manifest import Manifest
from wire.messages.requests import BATCH_AUTO, RunOptions

AUTO_MOST = 8  # beyond it little is gained, and the first of them waits for all


def batch_size_of(manifest: Manifest, options: RunOptions) -> int:
    """1: each alone. `BATCH_AUTO` takes what there is; `InvalidInput` says why a number cannot
    be had."""
    wanted, most = options.batch_size, min(MAX_BATCH, manifest.batch_limit)
    if wanted == 1:
        return 1
    if manifest.exact_only:
        raise InvalidInput(
            f"{manifest.name} is served exactly only, which computes each item alone: ask for "
            "batch_size 1"
        )
    if options.exact:
        raise InvalidInput(
            "an exact run computes each item alone: ask for batch_size 1, or leave out exact"
        )
    if wanted == BATCH_AUTO:
        return min(AUTO_MOST, most)
    if not 1 <= wanted <= most:
        raise InvalidInput(_why_not(manifest, wanted, most))
    return wanted


def _why_not(manifest: Manifest, wanted: int, most: int) -> str:
    if wanted < 1 or wanted > MAX_BATCH:
        return f"a batch size of {wanted} is not possible: 1 to {MAX_BATCH} are, or auto"
    found = manifest.batching
    if not found.cuts:
        return f"{manifest.name} computes each item alone: {found.refused}"
    return (
        f"{manifest.name} has a bound of {most} for {found.symbol!r}, and a batch size of {wanted} "
        f"was asked for; add it with --max-shape {found.symbol}={wanted}"
    )
