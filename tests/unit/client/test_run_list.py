"""What a person hears of a run of theirs that was to be cancelled, by what is listed afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from crowdpipe.client import events as ev
from crowdpipe.client import run_list
from crowdpipe.client.run_list import cancel
from wire.errors import Busy, UnknownRun
from wire.messages.progress import ListedRun, RunProgress, RunStatus
from wire.messages.requests import RunsListed


def listed(status: RunStatus) -> ListedRun:
    told = RunProgress("r1", "m", status, False, False, "auto", 6, 6, 6, 3, 0, 0.5)
    return ListedRun(told, 1.0, 3)


class Orchestrator:
    """Lists what it is given, one after another; notes what it is told."""

    def __init__(self, *statuses: RunStatus) -> None:
        self.answers = [[listed(status)] for status in statuses] or [[]]
        self.told: list[ev.Event] = []
        self.gone: str | None = None

    def __call__(self, _broker: Any) -> Orchestrator:
        return self

    def __enter__(self) -> Orchestrator:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is open."""

    def tell(self, event: ev.Event) -> None:
        self.told.append(event)

    def ask(self, asked: ev.RunsAsked) -> RunsListed:
        return RunsListed(asked.request, tuple(self.answers.pop(0)), gone=self.gone)


def cancelled(monkeypatch: pytest.MonkeyPatch, orchestrator: Orchestrator) -> ListedRun:
    monkeypatch.setattr(run_list, "Line", orchestrator)
    return cancel("r1", "mqtt://me:x@127.0.0.1:1")


@pytest.mark.parametrize("status", ["accepted", "running"])
def test_a_run_that_goes_on_is_not_said_to_be_over(
    monkeypatch: pytest.MonkeyPatch, status: RunStatus
) -> None:
    """The request was refused, or lost: nobody answers it."""
    with pytest.raises(Busy, match=rf"run r1 goes on \({status}\).*cancel it again"):
        cancelled(monkeypatch, Orchestrator("running", status))


@pytest.mark.parametrize("status", ["done", "failed", "cancelled"])
def test_a_run_that_is_over_is_returned_as_it_ended(
    monkeypatch: pytest.MonkeyPatch, status: RunStatus
) -> None:
    orchestrator = Orchestrator("running", status)
    assert cancelled(monkeypatch, orchestrator) == listed(status)
    assert orchestrator.told == [ev.CancelAsked("r1")]


def test_a_run_that_is_not_there_is_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    orchestrator = Orchestrator()
    with pytest.raises(UnknownRun, match="you have no run r1"):
        cancelled(monkeypatch, orchestrator)
    assert orchestrator.told == []


def test_of_a_run_that_was_collected_it_is_said_that_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orchestrator = Orchestrator()
    orchestrator.gone = "it is over, and all of its results were fetched"
    with pytest.raises(UnknownRun, match="run r1 is not kept any more: it is over, and all of its"):
        cancelled(monkeypatch, orchestrator)
