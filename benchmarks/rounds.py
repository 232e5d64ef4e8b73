"""Rounds in which rivals take turns, so that whatever else the machine does meets all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Measure = Callable[[], float]


def take_turns(contenders: Mapping[str, Measure], rounds: int) -> dict[str, list[float]]:
    """What each contender measured in each round. Each round begins with another of them, so
    that none always follows the same."""
    names = list(contenders)
    values: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            values[name].append(contenders[name]())
    return values


def shares(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round: a quotient within a round suffers less from what changes between them."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]
