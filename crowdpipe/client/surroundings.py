"""What the client's machine knows of the world: the broker, and the orchestrator behind it."""

from __future__ import annotations

from dataclasses import dataclass

from wire.due_times import NEVER

ANSWER_LIMIT_S = 20.0  # for an orchestrator that should be there to answer at all
ABSENT_S = 5.0  # for one that is offline, or was never seen: it may be starting


@dataclass(slots=True)
class Surroundings:
    """Whether the broker is reached (since when, or why not), and what the orchestrator's state
    says (None if it was never seen). `life` tells one of its lives from the next. `refused_at`:
    when it last said that it has no room for something of ours; then not all is answered."""

    connected: bool = False
    connected_at: float = 0.0
    why_not: str = "it was never reached"
    online: bool | None = None
    life: str = ""
    refused_at: float = float("-inf")

    def answer_by(self, since: float) -> float:
        """Until when an orchestrator must have answered what was asked at `since`."""
        if not self.connected:
            return NEVER
        limit_s = ANSWER_LIMIT_S if self.online is True else ABSENT_S
        return max(since, self.connected_at, self.refused_at) + limit_s

    def saw(self, online: bool, connection: str) -> bool:
        """Note the orchestrator's state; whether it is a new life of it."""
        self.online = online
        if not online or connection == self.life:
            return False
        self.life = connection
        return True
