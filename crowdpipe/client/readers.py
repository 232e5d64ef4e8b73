"""Whoever waits for a run's outcomes or an answer, by name: each is woken by its own news alone.

Told by the line's thread; asked by any. Once the line has failed, everybody hears of that.
"""

from __future__ import annotations

import queue
import threading

from crowdpipe.client.handle import Handle, Result
from crowdpipe.client.instructions import GiveAnswer
from wire.errors import CrowdpipeError, TimedOut, UserError, from_kind
from wire.messages.requests import Planned, RunsListed

Answer = queue.SimpleQueue[GiveAnswer | CrowdpipeError]


class Readers:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handles: dict[str, Handle] = {}  # of runs that are read and have not ended
        self._held: set[str] = set()  # these, and those that ended and are not left yet
        self._answers: dict[str, Answer] = {}
        self._failure: CrowdpipeError | None = None  # of the line: the first one stands

    def add(self, handle: Handle) -> None:
        """Raises `UserError` if somebody here reads that run, until it is released: a run has one
        reader, and what is said of it one place to go."""
        with self._lock:
            if handle.run in self._held:
                raise UserError(
                    f"run {handle.run} is read in this session already; take its results there, "
                    "or collect it once that is over"
                )
            self._held.add(handle.run)
            self._handles[handle.run] = handle
            failure = self._failure
        if failure is not None:
            handle.fail(failure)

    def remove(self, run: str) -> Handle | None:
        with self._lock:
            return self._handles.pop(run, None)

    def release(self, run: str) -> None:
        """Its reader has said its last word of it: another may read it here."""
        with self._lock:
            self._held.discard(run)

    def handles(self) -> list[Handle]:
        with self._lock:
            return list(self._handles.values())

    def grant(self, run: str, total: int) -> None:
        handle = self._find(run)
        if handle is not None:
            handle.grant(total)

    def expect(self, run: str, count: int, had: int) -> None:
        handle = self._find(run)
        if handle is not None:
            handle.expect(count, had)

    def give(self, run: str, item: int, result: Result) -> None:
        handle = self._find(run)
        if handle is not None:
            handle.give(item, result)

    def end(self, run: str, error: CrowdpipeError | None) -> None:
        handle = self.remove(run)
        if handle is not None:
            handle.end(error)

    def expect_answer(self, request: str) -> Answer:
        """Where it will come. Raises what the line failed with."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            answer = self._answers[request] = Answer()
        return answer

    def await_answer(self, request: str, answer: Answer, limit_s: float) -> Planned | RunsListed:
        """The answer, or its error. `TimedOut` if none comes within the limit."""
        try:
            given = answer.get(timeout=limit_s)
        except queue.Empty:
            raise TimedOut(f"waited {limit_s:g} s for an answer") from None
        finally:
            with self._lock:
                self._answers.pop(request, None)
        if isinstance(given, CrowdpipeError):
            raise given
        if given.answer is None:
            raise from_kind(given.kind, given.reason)
        return given.answer

    def give_answer(self, given: GiveAnswer) -> None:
        with self._lock:
            answer = self._answers.get(given.request)
        if answer is not None:
            answer.put(given)

    def fail(self, error: CrowdpipeError) -> None:
        """Nothing more will come, for anybody."""
        with self._lock:
            self._failure = self._failure or error
            handles, answers = list(self._handles.values()), list(self._answers.values())
        for handle in handles:
            handle.fail(error)
        for answer in answers:
            answer.put(error)

    def _find(self, run: str) -> Handle | None:
        with self._lock:
            return self._handles.get(run)
