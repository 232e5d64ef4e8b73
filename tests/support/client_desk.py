"""A client's machine at a desk of its own: its clock, and what it said since the last look."""

from __future__ import annotations

from typing import Any

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.machine import ClientMachine
from crowdpipe.client.runs import FIRST_S
from wire.ids import ActivationId
from wire.messages.requests import (
    Accepted,
    RunOptions,
)

OPTIONS = RunOptions(exact=True)


LIMIT_S = 100.0


NBYTES = 1000


class Desk:
    """A machine, its clock, and what it said since the last look."""

    def __init__(self) -> None:
        self.machine = ClientMachine(validate=True)
        self.now = 0.0
        self.told: list[Any] = []

    def hear(self, event: ev.Event) -> list[Any]:
        self.told = self.machine.handle(event, self.now)
        return self.told

    def answer(self, response: Any) -> list[Any]:
        return self.hear(ev.ResponseArrived(response))

    def pass_time(self, seconds: float) -> list[Any]:
        """Everything said meanwhile, woken as the machine asks for."""
        until, said = self.now + seconds, []
        while True:
            due = self.machine.wake_at()
            if due is None or due > until:
                break
            self.now = max(self.now, due)
            said += self.hear(ev.Ticked())
        self.now = until
        return said + self.hear(ev.Ticked())

    def said(self, kind: type) -> list[Any]:
        """Requests of this kind in what was told last."""
        return requests(self.told, kind)


def requests(told: list[Any], kind: type) -> list[Any]:
    found = [each.request for each in told if isinstance(each, ins.Say)]
    return [request for request in found if isinstance(request, kind)]


def of(told: list[Any], kind: type) -> list[Any]:
    return [each for each in told if isinstance(each, kind)]


def connect(desk: Desk, online: bool | None = True) -> list[Any]:
    if online is not None:
        desk.hear(ev.OrchestratorSeen(online, "c1" if online else ""))
    return desk.hear(ev.Connected())


def ask(desk: Desk, count: int | None = None, window: int = 10, total: bool = False) -> list[Any]:
    return desk.hear(ev.RunAsked("r", "toy", OPTIONS, count, window, LIMIT_S, total))


def accepted(desk: Desk, count: int | None = None, window: int = 10, credit: int = 4) -> list[Any]:
    """A run that was accepted before any input of it was there."""
    connect(desk)
    ask(desk, count, window)
    desk.pass_time(FIRST_S)
    return desk.answer(Accepted("r", "d" * 64, credit))


def offer(desk: Desk, *items: int, nbytes: int = NBYTES) -> list[Any]:
    return [each for item in items for each in desk.hear(ev.InputOffered("r", item, nbytes))]


def sent(told: list[Any]) -> list[int]:
    return [each.activation.item for each in of(told, ins.SendInput)]


def result(desk: Desk, item: int) -> list[Any]:
    return desk.hear(ev.ResultArrived(ActivationId("r", item, 3)))
