"""What the devices that were heard last have shown of one thing, and the middle one of them.

A stand-in for all devices where nobody knows about one: of thousands a few of the last are as good
a sample as all of them, and cost the same however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

SAMPLE = 33


class Crowd:
    """At most `size` devices."""

    def __init__(self, size: int = SAMPLE) -> None:
        self._size = size
        self._values: dict[str, float] = {}  # of each device its last; who was heard last is last
        self._middle: float | None = None  # of the values; None when it is to be found anew

    def tell(self, device: str, value: float) -> None:
        self._values.pop(device, None)
        self._values[device] = value
        if len(self._values) > self._size:
            del self._values[next(iter(self._values))]
        self._middle = None

    def forget(self, device: str) -> None:
        if self._values.pop(device, None) is not None:
            self._middle = None

    @property
    def middle(self) -> float | None:
        """The median; None of nobody."""
        if self._middle is None and self._values:
            self._middle = median(self._values.values())
        return self._middle

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, device: object) -> bool:
        return device in self._values
