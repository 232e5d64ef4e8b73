"""When the retained residency is worth publishing again.

At once when the status of a partition changes, and at most every `residency_s` when only numbers
do. It is put together only when it may be published: it lists all partitions.
"""

from __future__ import annotations

from collections.abc import Callable

from edge_agent.machine.records.limits import AgentLimits
from wire.messages.residency import Residency

Version = tuple[object, ...]  # of what it is made of: equal as long as nothing has changed


class ResidencySchedule:
    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self._last: Residency | None = None  # as published; None: to be published in any case
        self._statuses: Version | None = None  # of `_last`
        self._numbers: Version | None = None  # of `_last`
        self._at = 0.0  # when it was published
        self._pending = False  # numbers have changed since

    def due(
        self, statuses: Version, numbers: Version, make: Callable[[], Residency], now: float
    ) -> Residency | None:
        """What to publish now, if anything; then it counts as published."""
        if self._last is not None and statuses == self._statuses:
            self._pending = numbers != self._numbers
            if not self._pending or now < self._at + self._limits.residency_s:
                return None
        residency = make()
        self._statuses, self._numbers, self._pending = statuses, numbers, False
        if residency == self._last:
            return None
        self._last, self._at = residency, now
        return residency

    def say_again(self) -> None:
        """What was published may be cleared or lost."""
        self._last, self._pending = None, False

    def wake_at(self) -> float | None:
        return self._at + self._limits.residency_s if self._pending else None
