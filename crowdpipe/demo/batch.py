"""One batch through the fleet, timed by the client as a person would: submit to last result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crowdpipe.client.session import Session
from crowdpipe.items_file import Arrays
from wire.errors import CrowdpipeError


@dataclass(frozen=True, slots=True)
class Batch:
    """`results` has None where an item failed; `errors` says why, by item. Times are this
    process' monotonic clock."""

    start_s: float
    first_s: float | None
    end_s: float
    results: tuple[Arrays | None, ...]
    errors: dict[int, CrowdpipeError]

    @property
    def latency_s(self) -> float:
        return self.end_s - self.start_s

    @property
    def first_result_s(self) -> float | None:
        return None if self.first_s is None else self.first_s - self.start_s


def run_batch(
    session: Session, items: Sequence[Arrays], barrier: bool, told: Callable[[], None]
) -> Batch:
    """Run all items; `told` is called at each outcome. Raises what ends the run as a whole."""
    names = [spec.name for spec in session.get_outputs()]
    results: list[Arrays | None] = [None] * len(items)
    errors: dict[int, CrowdpipeError] = {}
    first_s = None
    start_s = time.monotonic()
    for item, outcome in session.run_many(
        items, ordered=False, barrier=barrier, return_errors=True
    ):
        first_s = first_s or time.monotonic()
        if isinstance(outcome, CrowdpipeError):
            errors[item] = outcome
        else:
            results[item] = dict(zip(names, outcome, strict=True))
        told()
    return Batch(start_s, first_s, time.monotonic(), tuple(results), errors)
