"""A mapping with a bound: beyond it, the entry that was put longest ago is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class BoundedDict(Generic[Key, Value]):
    """Whoever makes one says what it costs to forget an entry."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._entries: OrderedDict[Key, Value] = OrderedDict()  # never more than `bound`

    @property
    def bound(self) -> int:
        return self._bound

    def put(self, key: Key, value: Value) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        while len(self._entries) > self._bound:
            self._entries.popitem(last=False)

    def get(self, key: Key) -> Value | None:
        return self._entries.get(key)

    def pop(self, key: Key) -> Value | None:
        return self._entries.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)
