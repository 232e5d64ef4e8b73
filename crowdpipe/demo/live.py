"""Live progress of one batch: a bar for results, and one for each device's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from crowdpipe.cli.tables import show_range
from crowdpipe.watching.observation import Observation
from crowdpipe.watching.watcher import Watcher
from wire.messages.residency import Residency

EVERY_HERTZ = 8


class _Following(Progress):
    """Bars that are brought up to date each time they are drawn."""

    def __init__(self, follow: Callable[[], None], *columns: ProgressColumn, **others: Any) -> None:
        self._follow = follow
        super().__init__(*columns, **others)

    def get_renderables(self) -> Iterable[RenderableType]:
        self._follow()
        return super().get_renderables()


class LiveBatch:
    """Shown inside a `with`; without a terminal nothing is."""

    def __init__(
        self,
        console: Console,
        title: str,
        items: int,
        devices: Sequence[str],
        watcher: Watcher,
    ) -> None:
        self._watcher = watcher
        self._devices = tuple(devices)
        self._before = watcher.look(self._tasks)
        self._bars: dict[str, TaskID] = {}
        self._progress = _Following(
            self._follow,
            TextColumn("{task.description}"),
            BarColumn(bar_width=36),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=EVERY_HERTZ,
            transient=True,
            disable=not console.is_terminal,
        )
        self._results = self._progress.add_task(title, total=items, note="results")
        for name in self._devices:
            self._bars[name] = self._progress.add_task(f"  {name}", total=items, note="")

    def _tasks(self, observation: Observation) -> dict[str, tuple[int, str]]:
        """Per device its tasks so far, and what it serves or is doing to serve it."""
        found = {}
        for name in self._devices:
            device = observation.devices.get(name)
            if device is not None:
                found[name] = (device.tasks, _doing(device.residency))
        return found

    def result(self) -> None:
        self._progress.advance(self._results)

    def _follow(self) -> None:
        for name, (tasks, note) in self._watcher.look(self._tasks).items():
            if name in self._bars:
                before = self._before.get(name, (0, ""))[0]
                self._progress.update(self._bars[name], completed=tasks - before, note=note)

    def __enter__(self) -> LiveBatch:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()


def _doing(residency: Residency | None) -> str:
    """What a device has or is getting, in a few words."""
    told = []
    for entry in residency.partitions if residency else ():
        where = f"segments {show_range(entry.partition.first, entry.partition.last)}"
        done = f" {entry.fetched_nbytes * 100 // max(1, entry.total_nbytes)} %"
        told.append(f"{where} {entry.status}{done if entry.status == 'fetching' else ''}")
    return ", ".join(told)
