"""A bounded memory of names: at the bound the one that was put longest ago is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Fact = TypeVar("Fact")


class Remembered(Generic[Name, Fact]):
    """A mapping of at most `bound` names. What forgetting costs is said where one is made."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._facts: OrderedDict[Name, Fact] = OrderedDict()

    def put(self, name: Name, fact: Fact) -> None:
        self._facts[name] = fact
        self._facts.move_to_end(name)
        while len(self._facts) > self._bound:
            self._facts.popitem(last=False)

    def get(self, name: Name) -> Fact | None:
        return self._facts.get(name)

    def pop(self, name: Name) -> Fact | None:
        return self._facts.pop(name, None)

    def __contains__(self, name: Name) -> bool:
        return name in self._facts

    def __len__(self) -> int:
        return len(self._facts)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._facts)
