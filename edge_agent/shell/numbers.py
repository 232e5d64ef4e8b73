"""Numbers of the work that the executor was given, in its order.

The executor takes jobs one after another and answers each exactly once, so its answers come in
the order of what was asked; here each finds the number of its question again. Safe to use from
several threads.
"""

from __future__ import annotations

import queue


class Numbers:
    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def ask(self, number: int) -> None:
        """The work of this number is handed to the executor now."""
        self._asked.put(number)

    def answered(self) -> int:
        """The number of the work that ended now."""
        return self._asked.get_nowait()
