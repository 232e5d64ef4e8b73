"""How a check says that an invariant does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from edge_agent.machine.records.ranked_set import RankedSet
from wire.lifecycle import InvariantBroken

Name = TypeVar("Name")


def check(holds: object, what: str, entity: object = "") -> None:
    """`entity` tells its history when it is put into words."""
    if not holds:
        raise InvariantBroken(f"{what}; {entity}")


def check_equal(kept: object, found: object, what: str, entity: object = "") -> None:
    """`kept` is what a record remembers, `found` what looking at everything gives."""
    if kept != found:
        raise InvariantBroken(f"{what}: kept {kept!r}, found {found!r}; {entity}")


def check_ranks(kept: RankedSet[Name], ranks: Mapping[Name, Any], what: str) -> None:
    """The set has exactly these names with these ranks, and its heap would give each of them."""
    check_equal({name: kept.rank_of(name) for name in kept}, dict(ranks), what)
    check_equal(kept.in_heap(), set(ranks), f"the heap of {what}")
