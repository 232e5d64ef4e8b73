"""How a check says that an invariant does not hold."""

from __future__ import annotations

from wire.lifecycle import InvariantBroken


def check(holds: bool, what: object) -> None:
    """`what` is made into words only if it does not hold."""
    if not holds:
        raise InvariantBroken(str(what() if callable(what) else what))


def check_same(what: str, found: object, expected: object) -> None:
    """An index, beside what it should be."""
    if found != expected:
        raise InvariantBroken(f"{what}: {found!r} is kept, and {expected!r} is true")
