"""Which events that wait together are one step of the client's machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from crowdpipe.client import events as ev
from wire.messages.requests import InputsStored


def steps_of(events: Iterable[ev.Event]) -> Iterator[Sequence[ev.Event]]:
    """Those of items' ways, where they stand together; each other alone, as it may begin or end a
    run, or the connection, before what follows is heard."""
    for together, group in groupby(events, _goes_along):
        if together:
            yield tuple(group)
        else:
            yield from ((event,) for event in group)


def _goes_along(event: ev.Event) -> bool:
    if isinstance(event, ev.ResponseArrived):
        return isinstance(event.response, InputsStored)
    return isinstance(event, ev.InputOffered | ev.OutcomesTaken | ev.ResultArrived)
