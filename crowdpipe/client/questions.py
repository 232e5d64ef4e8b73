"""Plans that were asked for: repeated until they are answered, with a limit."""

from __future__ import annotations

from dataclasses import dataclass

from crowdpipe.client.events import PlanAsked
from crowdpipe.client.instructions import GivePlan, Instruction, Say
from crowdpipe.client.reasons import why_unanswered
from crowdpipe.client.surroundings import Surroundings
from wire.messages.requests import Planned, RequestPlan

ASK_AGAIN_S = 2.0


@dataclass(slots=True)
class _Question:
    asked: PlanAsked
    begun_at: float
    repeat_at: float

    def give_up_at(self, around: Surroundings) -> float:
        return min(self.begun_at + self.asked.limit_s, around.answer_by(self.begun_at))


class Questions:
    """`step` says what is due; whoever holds this says it."""

    def __init__(self) -> None:
        self._open: dict[str, _Question] = {}

    def add(self, asked: PlanAsked, now: float) -> None:
        self._open[asked.request] = _Question(asked, now, now)

    def ask_anew(self, now: float) -> None:
        """What was said lately may be lost."""
        for question in self._open.values():
            question.repeat_at = now

    def answer(
        self, request: str, planned: Planned | None, kind: str = "", reason: str = ""
    ) -> list[Instruction]:
        """Nothing if nobody waits for it any more."""
        if self._open.pop(request, None) is None:
            return []
        return [GivePlan(request, planned, kind, reason)]

    def step(self, now: float, around: Surroundings) -> list[Instruction]:
        told: list[Instruction] = []
        for question in list(self._open.values()):
            asked = question.asked
            if now >= question.give_up_at(around):
                kind, reason = why_unanswered(asked.limit_s, around)
                told += self.answer(asked.request, None, kind, reason)
            elif around.connected and now >= question.repeat_at:
                question.repeat_at = now + ASK_AGAIN_S
                told.append(
                    Say(RequestPlan(asked.request, asked.model, asked.options, asked.items))
                )
        return told

    def times(self, around: Surroundings) -> list[float]:
        """When something will be due."""
        return [
            time
            for question in self._open.values()
            for time in (question.repeat_at, question.give_up_at(around))
        ]
