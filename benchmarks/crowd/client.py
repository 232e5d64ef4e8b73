"""A client of the crowd's orchestrator: submits a run, sends inputs within its credits, and
acknowledges results as they come.

A crowd in which an item fails would measure something else, so that is an error.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.crowd.clock import Clock
from wire.errors import OperatorError
from wire.messages.requests import (
    ATTACHED_COUNT,
    Accepted,
    AcknowledgeResults,
    InputsStored,
    ItemFailed,
    Rejected,
    Request,
    Response,
    RunOptions,
    Submit,
)

ACK_S = 0.1  # as clients let acknowledgements travel together, …
ACK_COUNT = 16  # … unless so many wait


class Client:
    """One run at a time. `ask` passes a request on, `feed` an input of a run."""

    def __init__(
        self, clock: Clock, ask: Callable[[Request], None], feed: Callable[[str, int], None]
    ) -> None:
        self._clock = clock
        self._ask = ask
        self._feed = feed
        self._run = ""
        self._items = 0
        self._sent = 0
        self._results: set[int] = set()
        self._unsaid: list[int] = []

    @property
    def done(self) -> bool:
        """Every item has its result, and the orchestrator was told."""
        return len(self._results) == self._items and not self._unsaid

    def submit(self, run: str, model: str, items: int, options: RunOptions) -> None:
        self._run, self._items = run, items
        self._sent = min(ATTACHED_COUNT, items)
        self._results.clear()
        self._ask(Submit(run, model, options, items, self._sent))
        for item in range(self._sent):
            self._feed(run, item)

    def hear(self, response: Response) -> None:
        if isinstance(response, (ItemFailed, Rejected)) and response.run == self._run:
            raise OperatorError(f"the crowd's run {response.run} failed: {response.reason}")
        if isinstance(response, Accepted) and response.run == self._run:
            self._feed_more(response.stored, response.credit)
        elif isinstance(response, InputsStored) and response.run == self._run:
            self._feed_more(response.ranges, response.credit)

    def _feed_more(self, stored: tuple[tuple[int, int], ...], credit: int) -> None:
        limit = min(self._items, sum(last - first + 1 for first, last in stored) + credit)
        while self._sent < limit:
            self._feed(self._run, self._sent)
            self._sent += 1

    def result(self, run: str, item: int) -> None:
        if run != self._run or item in self._results:
            return
        self._results.add(item)
        self._unsaid.append(item)
        if len(self._unsaid) >= ACK_COUNT:
            self._acknowledge()
        elif len(self._unsaid) == 1:
            self._clock.later(ACK_S, self._acknowledge)

    def _acknowledge(self) -> None:
        items, self._unsaid = tuple(self._unsaid), []
        if items:
            self._ask(AcknowledgeResults(self._run, items))
