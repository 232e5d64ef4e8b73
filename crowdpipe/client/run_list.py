"""A user's runs, whichever of their sessions began them: listed, and cancelled."""

from __future__ import annotations

from crowdpipe.client import events as ev
from crowdpipe.client.line import Line
from crowdpipe.home import broker_url
from wire.broker_url import BrokerUrl
from wire.errors import Busy, UnknownRun
from wire.ids import mint
from wire.messages.progress import ListedRun
from wire.messages.requests import RunsListed

LIST_LIMIT_S = 10.0
AGAIN_S = 1.0
OVER = ("done", "failed", "cancelled")


def runs(broker: str | BrokerUrl | None = None) -> list[ListedRun]:
    """Your runs that go on, or whose results are still kept: the newest first, at most 100."""
    return list(list_runs(broker).runs)


def list_runs(broker: str | BrokerUrl | None = None) -> RunsListed:
    """The same, and how many are not listed."""
    with Line(broker_url(broker)) as line:
        return _ask(line)


def find_run(run: str, broker: str | BrokerUrl | None = None) -> ListedRun:
    """This one of your runs. Raises `UnknownRun`."""
    with Line(broker_url(broker)) as line:
        return _find(line, run)


def cancel(run: str, broker: str | BrokerUrl | None = None) -> ListedRun:
    """End a run of yours, whichever session began it; as it is then. Results that it has can still
    be collected. Raises `UnknownRun`, or `Busy` if it goes on all the same."""
    with Line(broker_url(broker)) as line:
        _find(line, run)
        line.tell(ev.CancelAsked(run))
        ended = _find(line, run)
    if ended.progress.status not in OVER:  # nobody answers a cancel: what is listed tells
        raise Busy(
            f"run {run} goes on ({ended.progress.status}): the request to cancel it was lost, or "
            "refused since many others came from you; cancel it again",
            AGAIN_S,
        )
    return ended


def _find(line: Line, run: str) -> ListedRun:
    found = _ask(line, run)
    if found.runs:
        return found.runs[0]
    if found.gone is not None:
        raise UnknownRun(f"run {run} is not kept any more: {found.gone}")
    raise UnknownRun(f"you have no run {run}: `crowdpipe runs` lists those that there are")


def _ask(line: Line, run: str | None = None) -> RunsListed:
    answer = line.ask(ev.RunsAsked(mint(), LIST_LIMIT_S, run))
    assert isinstance(answer, RunsListed), "a list is answered by one"
    return answer
