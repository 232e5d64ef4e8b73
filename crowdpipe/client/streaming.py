"""Many inputs through one run: draws them as they may go, gives outcomes as they come.

Runs in the thread of whoever reads. Draws an input only when the run has room for it, so that
memory is bounded by the window, whatever the length of the iterable.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from crowdpipe.client.arrays import Array
from crowdpipe.client.handle import Handle, Result
from crowdpipe.client.line import Line
from crowdpipe.client.outputs import outputs_of
from crowdpipe.client.signature import Feeds, tensors_of
from wire.errors import CrowdpipeError, InvalidInput
from wire.frames import Frame, encode_frame
from wire.ids import ActivationId
from wire.messages.model import ModelSummary
from wire.messages.requests import RunOptions

WINDOW_NBYTES = 64 << 20  # results that may wait for whoever reads
MOST_AHEAD, LEAST_AHEAD = 256, 16

Order = Literal["input", "ready"]


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """Item `index` of the iterable: its outputs, or its error where errors are given."""

    index: int
    outputs: list[Array] | CrowdpipeError


def window_of(model: ModelSummary, options: RunOptions, count: int | None) -> int:
    """How many items may be under way or wait to be read. A barrier run has all under way."""
    if options.barrier and count is not None:
        return max(1, count)
    fitting = WINDOW_NBYTES // max(1, model.output_limit_nbytes)
    return max(LEAST_AHEAD, min(MOST_AHEAD, fitting))


class Stream:
    """Iterate once. The run begins with the first item asked for and ends with the iteration."""

    def __init__(
        self,
        line: Line,
        model: ModelSummary,
        options: RunOptions,
        feeds: Iterable[Feeds],
        names: Sequence[str],
        count: int | None,
        limit_s: float,
        order: Order = "input",
        go_on: bool = False,
        total: bool = False,
    ) -> None:
        self._line = line
        self._model = model
        self._options = replace(options, exact=options.exact or model.exact_only)
        self._settings = self._options.frame_settings
        self._feeds = feeds
        self._names = tuple(names)
        self._count = count
        self._limit_s = limit_s
        self._ordered = order == "input"
        self._go_on = go_on
        self._total = total
        self._drawn = self._given = 0
        self._exhausted = False
        self._faults: dict[int, CrowdpipeError] = {}

    def __iter__(self) -> Generator[ItemAnswer, None, None]:
        feeds = iter(self._feeds)
        handle = self._begin()
        try:
            yield from self._answers(handle, feeds)
        finally:
            handle.close()

    def submit(self) -> str:
        """Have all inputs stored, of a run that goes on alone then; its id."""
        feeds = iter(self._feeds)
        handle = self._begin()
        try:
            while not handle.ended:
                if self._may_draw(handle):
                    self._draw(handle, feeds)
                elif self._faults:
                    raise next(iter(self._faults.values()))
                else:
                    handle.wait(lambda: self._may_draw(handle))
        finally:
            handle.close()
        if handle.error is not None:
            raise handle.error
        return handle.run

    def _begin(self) -> Handle:
        return self._line.begin(
            self._model.name,
            self._options,
            self._count,
            window_of(self._model, self._options, self._count),
            self._limit_s,
            self._total,
        )

    def _answers(self, handle: Handle, feeds: Iterator[Feeds]) -> Iterator[ItemAnswer]:
        while not (self._exhausted and self._given == self._drawn):
            if self._may_draw(handle):
                self._draw(handle, feeds)
            taken = handle.take(self._given if self._ordered else None)
            if taken is not None:
                self._given += 1
                yield self._answer(*taken)
            elif self._fault_is_next():
                raise self._faults[self._given]
            elif handle.ended:
                self._check_ended(handle)
            elif not self._may_draw(handle):
                handle.wait(lambda: self._ready(handle))

    def _ready(self, handle: Handle) -> bool:
        there = self._given in handle.results if self._ordered else bool(handle.results)
        return there or self._may_draw(handle)

    def _may_draw(self, handle: Handle) -> bool:
        stopped = self._exhausted or (bool(self._faults) and not self._go_on)
        return not stopped and not handle.ended and self._drawn < handle.granted

    def _fault_is_next(self) -> bool:
        """An input that cannot be sent ends the run, after what was drawn before it."""
        return not self._go_on and self._given in self._faults and self._given == self._drawn

    def _draw(self, handle: Handle, feeds: Iterator[Feeds]) -> None:
        try:
            feed = next(feeds)
        except StopIteration:
            self._finish(handle)
            return
        item = self._drawn
        if self._count is not None and item >= self._count:
            raise InvalidInput(f"`feeds` gives more than the {self._count} items announced")
        try:
            tensors = tensors_of(self._model, feed, self._settings.lossless)
        except InvalidInput as error:
            self._faults[item] = InvalidInput(f"item {item}: {error}" if item else str(error))
            if not self._go_on:
                return
            tensors = ()  # keeps the numbering; the orchestrator refuses it, and we know why
        frame = Frame(
            self._model.digest, ActivationId(handle.run, item, 0), 0, self._settings, tensors
        )
        self._drawn += 1
        handle.offer(item, encode_frame(frame))

    def _finish(self, handle: Handle) -> None:
        self._exhausted = True
        if self._count is not None and self._drawn != self._count:
            raise InvalidInput(
                f"`feeds` gives {self._drawn} items, but {self._count} were announced"
            )
        handle.finish(self._drawn)

    def _check_ended(self, handle: Handle) -> None:
        """The run is over, and the item whose turn it is has no outcome."""
        if handle.error is not None:
            raise handle.error
        if not handle.results and self._given < self._drawn:
            raise CrowdpipeError(f"run {handle.run} ended without item {self._given}")
        self._exhausted = self._exhausted or self._count == self._drawn

    def _answer(self, index: int, result: Result) -> ItemAnswer:
        fault = self._faults.pop(index, None)
        error = fault or result.error
        if error is None and result.frame is not None:
            return ItemAnswer(index, outputs_of(result.frame, self._model, self._names))
        if error is None:
            error = CrowdpipeError(f"the result of item {index} was lost in this program")
        if not self._go_on:
            raise error
        return ItemAnswer(index, error)
