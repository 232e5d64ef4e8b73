"""Progress bars on stderr, for what takes longer than a second."""

from __future__ import annotations

from types import TracebackType

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from crowdpipe.cli.console import notes


class _Bar:
    """A bar that is gone once it is done: what remains is what the command says."""

    def __init__(self, title: str, total: int | None, amount: ProgressColumn) -> None:
        console = notes()
        self._title = title
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            amount,
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=total)

    def doing(self, what: str) -> None:
        self._progress.update(self._task, description=f"{self._title}: {what}")

    def so_far(self, done: int, total: int | None = None) -> None:
        if total is None:
            self._progress.update(self._task, completed=done)
        else:
            self._progress.update(self._task, completed=done, total=total)

    def stop(self) -> None:
        self._progress.stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class BytesProgress(_Bar):
    """Bytes done of bytes in total."""

    def __init__(self, title: str) -> None:
        super().__init__(title, None, DownloadColumn(binary_units=True))

    def __enter__(self) -> BytesProgress:
        self._progress.start()
        return self


class ItemsProgress(_Bar):
    """Items done of items in total, which may come later."""

    def __init__(self, title: str, total: int | None) -> None:
        super().__init__(title, total, MofNCompleteColumn())

    def __enter__(self) -> ItemsProgress:
        self._progress.start()
        return self
