"""Commands on their way to devices: urgent ones go at once, the others gather for a moment.

Acknowledgements, releases and single items' cancellations wait at most `coalesce_s`. While the
broker is away everything waits here; it is bounded, since commands that say the same are one, and
a lost device's go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wire.messages.commands import Acknowledge, Cancel, Command, CommandBatch, Release

Lines = tuple[str, CommandBatch]


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
    def __init__(self, coalesce_s: float) -> None:
        self._coalesce_s = coalesce_s
        self._trays: dict[str, _Tray] = {}

    def post(self, device: str, command: Command) -> None:
        """Goes with the next flush."""
        tray = self._tray(device)
        tray.urgent[command] = None
        tray.due_at = float("-inf")

    def cancel_run(self, device: str, run: str) -> None:
        """Forget a whole run; goes with the next flush."""
        tray = self._tray(device)
        tray.cancels[run] = None
        tray.due_at = float("-inf")

    def cancel_item(self, device: str, run: str, item: int, now: float) -> None:
        tray = self._tray(device)
        items = tray.cancels.setdefault(run, {})
        if items is not None:
            items[item] = None
        tray.due_at = min(tray.due_at, now + self._coalesce_s)

    def release(self, device: str, run: str, cut: int, item: int, now: float) -> None:
        tray = self._tray(device)
        tray.releases.setdefault((run, cut), {})[item] = None
        tray.due_at = min(tray.due_at, now + self._coalesce_s)

    def acknowledge(self, device: str, boot: str, seq: int, due_at: float) -> None:
        """Cumulative: a later one takes the place of an earlier one."""
        tray = self._tray(device)
        tray.acknowledge = Acknowledge(boot, seq)
        tray.due_at = min(tray.due_at, due_at)

    def drop(self, device: str) -> None:
        self._trays.pop(device, None)

    def flush(self, now: float, generation: int) -> list[Lines]:
        due = [device for device, tray in self._trays.items() if tray.due_at <= now]
        return [
            (device, CommandBatch(generation, tuple(self._trays.pop(device).commands())))
            for device in due
        ]

    def wake_at_after(self, now: float) -> float:
        """When the next flush is due, apart from what is due now."""
        later = [tray.due_at for tray in self._trays.values() if tray.due_at > now]
        return min(later, default=float("inf"))

    def _tray(self, device: str) -> _Tray:
        return self._trays.setdefault(device, _Tray())
