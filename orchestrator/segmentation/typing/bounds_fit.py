"""The largest bounds of the inputs' dimensions at which the model's shapes agree.

A default bound may be more than the model can take: a table of relative positions made for 128
tokens contradicts 512, and inference at 512 then says nothing of any size. Larger inputs than fit
cannot run at all, so nothing is lost by a lower bound. Wished bounds are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

Fits = Callable[[dict[str, int]], bool]


def largest_fitting(symbols: dict[str, int], wished: Collection[str], fits: Fits) -> dict[str, int]:
    """`symbols`, with defaults lowered as little as makes them fit; as they are if nothing does.

    One limit for all is found first, then each is raised again alone. Shapes may agree at some
    sizes and not between them, so what is returned was asked. Asks `fits` twice the logarithm of
    the bound for each dimension, and once if all is well.
    """
    defaults = [name for name in symbols if name not in wished]

    def lowered(limit: int) -> dict[str, int]:
        return symbols | {name: min(symbols[name], limit) for name in defaults}

    top = max((symbols[name] for name in defaults), default=0)
    limit = largest(top, lambda size: fits(lowered(size)))
    if limit in (0, top):
        return symbols
    found = lowered(limit)
    for name in defaults:
        alone = largest(symbols[name], _alone(fits, found, name))
        found[name] = max(found[name], alone)
    return found


def _alone(fits: Fits, found: dict[str, int], name: str) -> Callable[[int], bool]:
    return lambda size: fits(found | {name: size})


def largest(top: int, fits: Callable[[int], bool]) -> int:
    """Up to `top`, found by halving until one fits and then by bisection; 0 if none does."""
    size, too_much = top, top + 1
    while size > 0 and not fits(size):
        size, too_much = size // 2, size
    while size and too_much - size > 1:
        middle = (size + too_much) // 2
        size, too_much = (middle, too_much) if fits(middle) else (size, middle)
    return size
