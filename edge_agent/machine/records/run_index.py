"""Activations by run and item, to find all those of a run or item that is cancelled."""

from __future__ import annotations

from wire.ids import ActivationId


class RunIndex:
    def __init__(self) -> None:
        # No run and no item has an empty entry.
        self._items: dict[str, dict[int, dict[ActivationId, None]]] = {}

    def add(self, name: ActivationId) -> None:
        self._items.setdefault(name.run, {}).setdefault(name.item, {})[name] = None

    def discard(self, name: ActivationId) -> None:
        items = self._items[name.run]
        del items[name.item][name]
        if not items[name.item]:
            del items[name.item]
        if not items:
            del self._items[name.run]

    def of(self, run: str, item: int | None = None) -> list[ActivationId]:
        """All of the run, or of one of its items."""
        items = self._items.get(run, {})
        if item is not None:
            return list(items.get(item, ()))
        return [name for names in items.values() for name in names]

    def names(self) -> set[ActivationId]:
        return {name for run in self._items for name in self.of(run)}
