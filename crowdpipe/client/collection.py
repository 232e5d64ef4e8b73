"""A run of yours that another session began: its outcomes, as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

from crowdpipe.client.arrays import Array
from crowdpipe.client.handle import Handle, Result
from crowdpipe.client.line import Line
from crowdpipe.client.outputs import outputs_of
from wire.errors import CrowdpipeError, UserError
from wire.messages.model import ModelSummary


class Collection:
    """Use it in a `with`, and iterate once: gives `(item, outputs)`, where outputs are a list of
    arrays, or the item's error. What it gave is acknowledged when the block ends without an error;
    after an error, all of it is kept for whoever collects the run next."""

    def __init__(
        self, line: Line, run: str, model: ModelSummary, names: Sequence[str], limit_s: float
    ) -> None:
        self._line, self.run, self._model = line, run, model
        self._names, self._limit_s = tuple(names), limit_s
        self._handle: Handle | None = None
        self._given: list[int] = []

    def __enter__(self) -> Collection:
        """Wait until the run is ours. Raises `UnknownRun`, `Busy` if another reads it for as long
        as the session's limit, or `UserError` at once if that is this session itself."""
        self._handle = handle = self._line.collect(self.run, self._model.digest, self._limit_s)
        try:
            handle.wait(lambda: handle.expected is not None)
            if handle.error is not None:
                raise handle.error
        except BaseException:
            handle.leave(())
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            self._handle.leave(self._given if error is None else ())

    def __len__(self) -> int:
        """How many outcomes it gives in all."""
        return (self._handle.expected or 0) if self._handle is not None else 0

    @property
    def had(self) -> int:
        """How many outcomes of the run another session was given before: they do not come."""
        return self._handle.had if self._handle is not None else 0

    def __iter__(self) -> Iterator[tuple[int, list[Array] | CrowdpipeError]]:
        handle = self._handle
        if handle is None:
            raise UserError("collect a run with `with session.collect(run) as results:`")
        while len(self._given) < len(self):
            taken = handle.take(None)
            if taken is None:
                if handle.ended:
                    raise handle.error or CrowdpipeError(f"run {self.run} ended too early")
                handle.wait(lambda: bool(handle.results))
                continue
            self._given.append(taken[0])
            yield taken[0], self._outputs(taken[1])

    def _outputs(self, result: Result) -> list[Array] | CrowdpipeError:
        if result.error is not None or result.frame is None:
            return result.error or CrowdpipeError("this result was lost in this program")
        return outputs_of(result.frame, self._model, self._names)
