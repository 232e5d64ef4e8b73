"""Whether a listed partition can be served here at all: whole, streamed, or not as it is.

By the formula that the planner uses too; what loading measures may still refuse later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from wire.memory import resident_need, streamed_need
from wire.messages.assignment import PartitionAssignment
from wire.messages.residency import Failure
from wire.messages.state import Capabilities


class Fitted(Protocol):
    """What is decided, and about what."""

    assigned: PartitionAssignment
    streamed: bool
    unfit: Failure | None


def fit(records: Iterable[Fitted], capabilities: Capabilities) -> None:
    """Set `streamed` and `unfit` of each; disk is given in the order of the listing."""
    budget_nbytes = capabilities.disk_budget_nbytes
    counted: set[str] = set()
    nbytes = 0
    for record in records:
        record.streamed, record.unfit = fit_in_memory(record.assigned, capabilities)
        if record.unfit is not None:
            continue
        more = {b.digest: b.nbytes for b in record.assigned.blobs if b.digest not in counted}
        wanted_nbytes = nbytes + sum(more.values())
        if wanted_nbytes > budget_nbytes:
            record.unfit = _too_little_disk(record.assigned, wanted_nbytes, budget_nbytes)
        else:
            counted.update(more)
            nbytes = wanted_nbytes


def fit_in_memory(
    assigned: PartitionAssignment, capabilities: Capabilities
) -> tuple[bool, Failure | None]:
    """Whether it must be streamed, and why it does not even fit so."""
    budget = capabilities.memory_budget_nbytes
    whole = resident_need(assigned.segments)
    if whole <= budget:
        return False, None
    least = streamed_need(assigned.segments)
    if least <= budget:
        return True, None
    return False, Failure(
        "over_budget",
        f"{assigned.model_name} {assigned.partition} needs {whole} bytes of memory, or {least} "
        f"segment by segment, and the budget is {budget}: give the agent {least - budget} bytes "
        "more with --memory, or plan smaller partitions",
    )


def _too_little_disk(assigned: PartitionAssignment, nbytes: int, budget_nbytes: int) -> Failure:
    return Failure(
        "over_budget",
        f"{assigned.model_name} {assigned.partition} and what is listed before it need {nbytes} "
        f"bytes of disk, and the budget is {budget_nbytes}: give the agent "
        f"{nbytes - budget_nbytes} bytes more with --disk",
    )
