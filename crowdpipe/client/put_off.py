"""Runs that the orchestrator has no room for now: when each is submitted again.

Again after as long as it says, twice as long each time; and one of them at once whenever another
run of ours ends, the one first that waits longest.
"""

from __future__ import annotations

from crowdpipe.client.runs import ClientRun

LEAST_S, MOST_S = 0.1, 8.0  # whatever it says


class PutOff:
    """`names`: of submitting runs, in the order in which they were put off first."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def add(self, run: ClientRun, again_s: float, now: float) -> None:
        self.names.setdefault(run.name)
        run.put_off_s = min(MOST_S, max(LEAST_S, again_s, 2 * run.put_off_s))
        run.repeat_at = now + run.put_off_s

    def discard(self, name: str) -> None:
        self.names.pop(name, None)

    def take(self) -> str | None:
        """Whose turn it is, if one may be submitted again; if that is refused, it is the last."""
        name = next(iter(self.names), None)
        if name is not None:
            del self.names[name]
        return name
