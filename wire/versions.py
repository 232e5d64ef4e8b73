"""Which versions of this language a program speaks, and whether two understand each other.

Each says the oldest and the newest that it can with its state. Where the ranges have a version in
common all is well: who is newer still reads and writes what the older one knows. Where they have
none, neither asks anything of the other until one is updated.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire import OLDEST_WIRE_VERSION, WIRE_VERSION


@dataclass(frozen=True, slots=True)
class WireRange:
    oldest: int
    newest: int

    @classmethod
    def told(cls, oldest: int | None, newest: int) -> WireRange:
        """As a state tells it. One that names no oldest is of before there were ranges; an oldest
        above the newest says nothing."""
        return cls(newest if oldest is None else min(oldest, newest), newest)

    def __str__(self) -> str:
        return f"{self.newest}" if self.oldest == self.newest else f"{self.oldest} to {self.newest}"

    def overlaps(self, other: WireRange) -> bool:
        return self.oldest <= other.newest and other.oldest <= self.newest


OURS = WireRange(OLDEST_WIRE_VERSION, WIRE_VERSION)


def mismatch(agent: WireRange, desk: WireRange) -> str | None:
    """Why they do not understand each other, and what to do; None if they do."""
    if agent.overlaps(desk):
        return None
    older = "the agent" if agent.newest < desk.oldest else "crowdpipe at the desk"
    return f"the agent speaks wire version {agent}, the desk {desk}: update {older}"
