"""A record that contradicts another: a fault of this program."""

from __future__ import annotations

from wire.errors import CrowdpipeError


class InvariantBroken(CrowdpipeError):
    """Says what was found, and what should be there."""

    kind = "invariant_broken"


def check(holds: bool, what: object) -> None:
    """`what` is made into words only if it does not hold."""
    if not holds:
        raise InvariantBroken(str(what() if callable(what) else what))


def check_same(what: str, found: object, expected: object) -> None:
    """An index, beside what it should be."""
    if found != expected:
        raise InvariantBroken(f"{what}: {found!r} is kept, and {expected!r} is true")
