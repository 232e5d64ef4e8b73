"""What was asked, for a plan or for runs: repeated until it is answered, with a limit.

Says what is due; whoever holds this carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from crowdpipe.client.events import PlanAsked, RunsAsked
from crowdpipe.client.instructions import GiveAnswer, Instruction, Say
from crowdpipe.client.put_off import LEAST_S, MOST_S
from crowdpipe.client.reasons import why_unanswered
from crowdpipe.client.surroundings import Surroundings
from wire.due_times import DueTimes
from wire.errors import Busy
from wire.messages.requests import ListRuns, Planned, RequestFailed, RequestPlan, RunsListed

ASK_AGAIN_S = 2.0


def _request_of(asked: PlanAsked | RunsAsked) -> RequestPlan | ListRuns:
    if isinstance(asked, RunsAsked):
        return ListRuns(asked.request, asked.run)
    return RequestPlan(asked.request, asked.model, asked.options, asked.items)


@dataclass(slots=True)
class _Question:
    said: RequestPlan | ListRuns
    limit_s: float
    begun_at: float
    repeat_at: float
    busy: str = ""  # why it was refused for now

    def give_up_at(self, around: Surroundings) -> float:
        if self.busy:
            return self.begun_at + self.limit_s
        return min(self.begun_at + self.limit_s, around.answer_by(self.begun_at))

    def due_at(self, around: Surroundings) -> float:
        give_up_at = self.give_up_at(around)
        return min(self.repeat_at, give_up_at) if around.connected else give_up_at


class Questions:
    """By the name of the request."""

    def __init__(self) -> None:
        self._open: dict[str, _Question] = {}
        self._due: DueTimes[str] = DueTimes()  # has every open one, not later than it is due

    def add(self, asked: PlanAsked | RunsAsked, now: float) -> None:
        self._open[asked.request] = _Question(_request_of(asked), asked.limit_s, now, now)
        self._due.set(asked.request, now)

    def ask_anew(self, now: float) -> None:
        """What was said lately may be lost."""
        for question in self._open.values():
            question.repeat_at = now
        self.reconsider(now)

    def reconsider(self, now: float) -> None:
        """The limits of all may be others by now."""
        for request in self._open:
            self._due.set(request, now)

    def answer(
        self, request: str, found: Planned | RunsListed | None, kind: str = "", reason: str = ""
    ) -> list[Instruction]:
        """Nothing if nobody waits for it any more."""
        if self._open.pop(request, None) is None:
            return []
        self._due.discard(request)
        return [GiveAnswer(request, found, kind, reason)]

    def hear(
        self, told: Planned | RunsListed | RequestFailed, now: float, around: Surroundings
    ) -> list[Instruction]:
        """What the orchestrator says to one of them."""
        if not isinstance(told, RequestFailed):
            return self.answer(told.request, told)
        if told.kind == Busy.kind and told.again_s is not None:
            around.refused_at = now
            return self._put_off(told.request, told.reason, told.again_s, now, around)
        return self.answer(told.request, None, told.kind, told.reason)

    def _put_off(
        self, request: str, reason: str, again_s: float, now: float, around: Surroundings
    ) -> list[Instruction]:
        """It is refused for now: asked again in a while, if that is within its limit."""
        question = self._open.get(request)
        if question is None:
            return []
        question.busy = reason
        question.repeat_at = now + min(MOST_S, max(LEAST_S, again_s))
        if question.repeat_at >= question.give_up_at(around):
            return self._give_up(question, around)
        self._due.set(request, now)
        return []

    def step(self, now: float, around: Surroundings) -> list[Instruction]:
        """What is due by now."""
        told: list[Instruction] = []
        for request in self._due.take(now):
            told += self._ask(self._open[request], now, around)
        return told

    def _ask(self, question: _Question, now: float, around: Surroundings) -> list[Instruction]:
        said = question.said
        if now >= question.give_up_at(around):
            return self._give_up(question, around)
        told: list[Instruction] = []
        if around.connected and now >= question.repeat_at:
            question.repeat_at = now + ASK_AGAIN_S
            told = [Say(said)]
        self._due.set(said.request, question.due_at(around))
        return told

    def _give_up(self, question: _Question, around: Surroundings) -> list[Instruction]:
        why = why_unanswered(question.limit_s, around)
        if question.busy and around.connected:
            why = Busy.kind, question.busy
        return self.answer(question.said.request, None, *why)

    def next_at(self) -> float:
        """When something will be due."""
        return self._due.next_at()

    def validate(self, around: Surroundings) -> None:
        """Raise `AssertionError` if an invariant does not hold: for tests."""
        assert len(self._due) == len(self._open)
        for request, question in self._open.items():
            assert self._due.at(request) <= question.due_at(around)
