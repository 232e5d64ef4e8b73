"""How many each has: names with a count that is not 0, and no others."""

from __future__ import annotations

from collections import Counter


class Tally(Counter[str]):
    """Counts are changed by `change` alone; asking for a name that has none gives 0."""

    def change(self, name: str, by: int) -> None:
        self[name] += by
        if not self[name]:
            del self[name]
