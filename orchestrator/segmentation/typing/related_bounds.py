"""The bounds of dimensions of which some follow from others.

Wished bounds are kept; a default gives way to them, up or down. A wish that no sizes reach
together with the others is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from orchestrator.segmentation.options import DEFAULT_BATCH
from orchestrator.segmentation.typing.bounds_fit import largest
from orchestrator.segmentation.typing.formulas import Term, integer_at, names_of
from orchestrator.segmentation.typing.relations import Relations
from wire.errors import UserError

MAX_RAISED = 1 << 31  # no dimension is larger
SHOWN = 80  # characters of a formula in a message


def related_bounds(
    wide: Mapping[str, int], wished: Collection[str], relations: Relations
) -> dict[str, int]:
    """The bounds of the free dimensions: `wide`, with defaults raised or lowered to what a wished
    bound of one that follows from them says. Raises `UserError` for wishes that contradict."""
    bounds = {name: size for name, size in wide.items() if name not in relations.following}
    for name, term in relations.following.items():
        if name in wished:
            defaults = [one for one in bounds if one in names_of(term) and one not in wished]
            bounds |= _raised(term, bounds, defaults, wide[name])
            _check_reached(name, term, bounds, wide[name])
            bounds |= _lowered(name, term, bounds, defaults, wide[name])
    return bounds


def _raised(
    term: Term, bounds: Mapping[str, int], defaults: Sequence[str], asked: int
) -> dict[str, int]:
    """The defaults, one size for all that are too small: as little as reaches what is asked, and
    then as much as is not beyond it. Nothing if no size reaches it."""
    growing = [name for name in defaults if bounds[name] > DEFAULT_BATCH] or defaults

    def reached(size: int) -> int:
        grown = {name: max(bounds[name], size) for name in growing}
        return integer_at(term, {**bounds, **grown}) or 0

    if reached(1) >= asked:
        return {}
    top = 1
    while reached(top) < asked and top < MAX_RAISED:
        top *= 2
    if reached(top) < asked:
        return {}
    least = 1 + largest(top, lambda size: reached(size) < asked)
    most = largest(2 * least, lambda size: reached(size) <= asked)
    return {name: max(bounds[name], least, most) for name in growing}


def _check_reached(name: str, term: Term, bounds: Mapping[str, int], asked: int) -> None:
    reached = integer_at(term, bounds)
    if reached is None or reached < asked:
        raise _contradiction(name, term, bounds, f"at most {reached or 0}", asked)


def _lowered(
    name: str, term: Term, bounds: Mapping[str, int], defaults: Sequence[str], asked: int
) -> dict[str, int]:
    """Each default at most what is left if all others are 1; a wished one must be possible."""
    least = dict.fromkeys(bounds, 1)
    found = {}
    for one in sorted(names_of(term)):

        def within(size: int, one: str = one) -> bool:
            made = integer_at(term, {**least, one: size})
            return made is None or made <= asked

        if within(bounds[one]):
            continue
        found[one] = largest(bounds[one], within)
        if one not in defaults or not found[one]:
            at = {one: bounds[one] if one not in defaults else 1}
            made = integer_at(term, {**least, **at})
            raise _contradiction(name, term, {**least, **at}, f"at least {made}", asked)
    return found


def _contradiction(
    name: str, term: Term, sizes: Mapping[str, int], reached: str, asked: int
) -> UserError:
    text = str(term)
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    at = ", ".join(f"{one}={sizes[one]}" for one in sorted(names_of(term)))
    return UserError(
        f"bounds contradict each other: dimension {name!r} is {text}, which is {reached} "
        f"at {at}, and {asked} is asked for"
    )
