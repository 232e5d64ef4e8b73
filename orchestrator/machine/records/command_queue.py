"""Commands on their way to devices: urgent ones go at once, the others gather for a moment.

Acknowledgements, releases and single items' cancellations wait at most `coalesce_s`. While the
broker is away everything waits here; it is bounded, since commands that say the same are one, and
a lost device's go.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from wire.messages.commands import Acknowledge, Cancel, Command, CommandBatch, Release

Lines = tuple[str, CommandBatch]
NOW = float("-inf")  # due with the next flush


@dataclass(slots=True)
class _Tray:
    """One device's pending commands. Dicts keep order and say each thing once."""

    urgent: dict[Command, None] = field(default_factory=dict)
    acknowledge: Acknowledge | None = None
    releases: dict[tuple[str, int], dict[int, None]] = field(default_factory=dict)
    cancels: dict[str, dict[int, None] | None] = field(default_factory=dict)
    due_at: float = float("inf")

    def commands(self) -> Iterator[Command]:
        for run, items in self.cancels.items():
            yield Cancel(run, tuple(sorted(items or ())))
        yield from self.urgent
        for (run, cut), released in self.releases.items():
            yield Release(run, cut, tuple(sorted(released)))
        if self.acknowledge is not None:
            yield self.acknowledge


class CommandQueue:
    """A heap of due times: what waits for one device costs nothing when another is told something.
    An entry whose time is not its tray's any more is stale."""

    def __init__(self, coalesce_s: float) -> None:
        self._coalesce_s = coalesce_s
        self._trays: dict[str, _Tray] = {}
        self._due: list[tuple[float, str]] = []
        self._number = 0  # of the last batch, for whomever it was

    def post(self, device: str, command: Command) -> None:
        """Goes with the next flush."""
        self._tray(device, NOW).urgent[command] = None

    def cancel_run(self, device: str, run: str) -> None:
        """Forget a whole run; goes with the next flush."""
        self._tray(device, NOW).cancels[run] = None

    def cancel_item(self, device: str, run: str, item: int, now: float) -> None:
        items = self._tray(device, now + self._coalesce_s).cancels.setdefault(run, {})
        if items is not None:
            items[item] = None

    def release(self, device: str, run: str, cut: int, item: int, now: float) -> None:
        tray = self._tray(device, now + self._coalesce_s)
        tray.releases.setdefault((run, cut), {})[item] = None

    def acknowledge(self, device: str, boot: str, seq: int, due_at: float) -> None:
        """Cumulative: a later one takes the place of an earlier one."""
        self._tray(device, due_at).acknowledge = Acknowledge(boot, seq)

    def drop(self, device: str) -> None:
        self._trays.pop(device, None)

    def flush(self, now: float, generation: int) -> list[Lines]:
        lines = []
        while self._due and self._due[0][0] <= now:
            at, device = heapq.heappop(self._due)
            if self._is_current(at, device):
                self._number += 1
                commands = tuple(self._trays.pop(device).commands())
                lines.append((device, CommandBatch(generation, commands, self._number)))
        return lines

    def wake_at(self) -> float:
        """When the next flush is due."""
        while self._due and not self._is_current(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else float("inf")

    def _is_current(self, at: float, device: str) -> bool:
        tray = self._trays.get(device)
        return tray is not None and tray.due_at == at

    def _tray(self, device: str, due_at: float) -> _Tray:
        tray = self._trays.get(device)
        if tray is None:
            tray = self._trays[device] = _Tray()
        if due_at < tray.due_at:
            tray.due_at = due_at
            heapq.heappush(self._due, (due_at, device))
        return tray
