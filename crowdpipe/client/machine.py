"""The client's machine: takes one event, says what to do, and when to wake it.

A run is submitted until it is accepted, the first time with the inputs that are there. Inputs go
out within the orchestrator's credits and are kept until reported stored; after a reconnect, or a
while without news, the orchestrator is asked what it has, and what it lacks goes again. The first
outcome of an item is handed out once and acknowledged. Whatever is waited for has a limit, and the
error says what it was. A run is looked at when something of it changed, or when it is due; what it
then says is in `steps`. Pure: no I/O, no clock, no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client import steps
from crowdpipe.client.put_off import PutOff
from crowdpipe.client.questions import Questions
from crowdpipe.client.reasons import why_given_up
from crowdpipe.client.runs import ClientRun
from crowdpipe.client.steps import ASK_AGAIN_MOST_S
from crowdpipe.client.steps_of_events import steps_of
from crowdpipe.client.surroundings import Surroundings
from crowdpipe.client.wanted import Wanted
from wire.due_times import NEVER, DueTimes
from wire.errors import Busy
from wire.ids import ActivationId
from wire.lifecycle import Cause
from wire.messages.requests import (
    Accepted,
    CancelRun,
    Collected,
    InputsStored,
    ItemFailed,
    LeaveRun,
    Planned,
    Rejected,
    RequestFailed,
    Resume,
    RunNews,
    RunsListed,
    RunWaits,
)

ACK_S = 0.1  # acknowledgements of so long travel together, unless many wait
OVER_LIMIT = 32  # runs that ended lately: our last words of them may be lost


class ClientMachine:
    """`validate`: check every invariant after every event, for tests."""

    def __init__(self, validate: bool = False) -> None:
        self.runs: dict[str, ClientRun] = {}
        # Two parts of `runs`, kept where a run's state changes.
        self._submitting: dict[str, None] = {}
        self._wanted = Wanted()
        self._over: dict[str, None] = {}  # the latest of those that ended
        self._due: DueTimes[str] = DueTimes()  # of each run, never later than `ClientRun.due_at`
        self._put_off = PutOff()
        self._questions = Questions()
        self._around = Surroundings()
        self._cause = Cause()  # the event that is being handled: why a run changes its state
        self._out: list[ins.Instruction] = []
        self._now = 0.0
        self._validates = validate

    def handle(self, event: ev.Event, now: float) -> list[ins.Instruction]:
        return self.handle_all((event,), now)

    def handle_all(self, events: Iterable[ev.Event], now: float) -> list[ins.Instruction]:
        """What to do about them at `now` (seconds on one monotonic clock), in order."""
        self._now = max(now, self._now)
        for step in steps_of(events):
            self._handle_step(step)
        out, self._out = self._out, []
        return out

    def _handle_step(self, events: Sequence[ev.Event]) -> None:
        for event in events:
            self._cause.stimulus = event
            _HANDLERS[type(event)](self, event)
        while names := self._due.take(self._now):  # the end of one may give another its turn
            for name in names:
                self._step(self.runs[name])
        self._out += self._wanted.step(self._now, connected=self._around.connected)
        self._out += self._questions.step(self._now, self._around)
        if self._validates:
            self.validate()

    def wake_at(self) -> float | None:
        """When `ev.Ticked` is due; None if nothing waits for the time."""
        wake = min(self._due.next_at(), self._questions.next_at())
        if self._around.connected:
            wake = min(wake, self._wanted.renew_at)
        return None if wake == NEVER else wake

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold."""
        wake = self.wake_at()
        assert wake is None or wake > self._now, "whoever waits for it would be woken for ever"
        assert len(self._due) <= len(self.runs)
        for name, run in self.runs.items():
            run.validate()
            assert self._now < self._due.at(name) <= run.due_at(self._around), f"{name} oversleeps"
        states = {name: run.state for name, run in self.runs.items()}
        assert list(self._submitting) == [n for n, state in states.items() if state == "submitting"]
        assert set(self._wanted.names) == {
            name for name, state in states.items() if state == "accepted"
        }
        assert self._put_off.names.keys() <= self._submitting.keys()
        self._wanted.validate()
        assert not self._over.keys() & self.runs.keys()
        assert len(self._over) <= OVER_LIMIT
        self._questions.validate(self._around)

    def _touch(self, run: ClientRun) -> None:
        """Something about it changed: look at it with this event."""
        self._due.set(run.name, self._now)

    def _find(self, name: str) -> ClientRun | None:
        """The run that an event is about."""
        run = self.runs.get(name)
        if run is not None:
            self._touch(run)
        return run

    # --- what follows for a run that an event was about, or that is due ------------------------

    def _step(self, run: ClientRun) -> None:
        if run.complete:
            self._end(run, None, "")
        elif self._now >= run.deadline(self._around):
            self._give_up(run)
        elif self._around.connected:
            self._out += steps.advance(run, self._now)
        if run.state != "ended":
            self._due.set(run.name, run.due_at(self._around))

    def _say(self, request: Any) -> None:
        self._out.append(ins.Say(request))

    def _move(self, run: ClientRun, state: str) -> None:
        run.life.move(state, self._now)
        self._submitting.pop(run.name, None)
        self._put_off.discard(run.name)
        self._wanted.discard(run.name)
        if state == "accepted":
            self._wanted.add(run.name)

    def _end(self, run: ClientRun, kind: str | None, reason: str) -> None:
        self._close(run)
        if run.leaves and kind is None:
            self._out += steps.leave(run.name)
        self._out.append(ins.EndRun(run.name, kind, reason))

    def _close(self, run: ClientRun) -> None:
        accepted = run.state == "accepted"
        self._move(run, "ended")
        self._out += steps.acknowledge(run)
        for item in [*run.waiting, *run.in_flight]:
            self._out.append(ins.ForgetInput(run.input(item)))
        self._out += steps.finish_late(run)
        del self.runs[run.name]
        self._due.discard(run.name)
        if len(run.settled) and not run.asked.collect:
            self._over[run.name] = None
        if len(self._over) > OVER_LIMIT:
            del self._over[next(iter(self._over))]
        if accepted:
            self._submit_next()

    def _submit_next(self) -> None:
        """There is room for one of those that were refused for now."""
        name = self._put_off.take()
        if name is not None:
            self.runs[name].repeat_at = self._now
            self._touch(self.runs[name])

    def _give_up(self, run: ClientRun) -> None:
        kind, reason = why_given_up(run, self._around)
        if self._around.connected:
            self._out += steps.abandon(run)
        self._end(run, kind, reason)

    # --- events -------------------------------------------------------------------------------

    def _connection_up(self, _: ev.Connected) -> None:
        self._around.connected, self._around.connected_at = True, self._now
        self._doubt()
        self._questions.ask_anew(self._now)

    def _doubt(self) -> None:
        """What was said lately may be lost, acknowledgements included: ask what is there. What
        is still kept for us comes again, and is acknowledged again."""
        for run in self.runs.values():
            run.unsure, run.repeat_at = True, self._now
            self._touch(run)
        for name in self._over:
            self._say(Resume(name))

    def _connection_lost(self, event: ev.Disconnected) -> None:
        """Every due time stays as it is: one that needs a connection finds that there is none."""
        self._around.connected, self._around.why_not = False, event.reason
        for run in self.runs.values():
            run.unsure |= run.asked.collect

    def _orchestrator_seen(self, event: ev.OrchestratorSeen) -> None:
        before = self._around.online
        if self._around.saw(event.online, event.connection) and self._around.connected:
            self._doubt()
        if self._around.online != before:  # for an answer, that is another limit
            for name in self._submitting:
                self._touch(self.runs[name])
            self._questions.reconsider(self._now)

    def _run_asked(self, event: ev.RunAsked) -> None:
        run = self.runs[event.run] = ClientRun.begin(event, self._now, self._cause)
        self._submitting[event.run] = None
        self._touch(run)

    def _input_offered(self, event: ev.InputOffered) -> None:
        run = self._find(event.run)
        if run is None:
            self._out.append(ins.ForgetInput(ActivationId(event.run, event.item, 0)))
            return
        if not run.pending:
            steps.progress(run, self._now)
        run.offer(event.item, event.nbytes)

    def _inputs_ended(self, event: ev.InputsEnded) -> None:
        run = self._find(event.run)
        if run is not None:
            run.count = event.count

    def _outcomes_taken(self, event: ev.OutcomesTaken) -> None:
        run = self._find(event.run)
        if run is not None:
            run.taken += event.count

    def _run_abandoned(self, event: ev.RunAbandoned) -> None:
        run = self._find(event.run)
        if run is not None:
            self._out += steps.abandon(run)
            self._end(run, "cancelled", "the caller stopped reading its results")

    def _run_left(self, event: ev.RunLeft) -> None:
        run = self._find(event.run)
        if run is not None:
            self._close(run)  # nobody is told: it may be collected here again
        self._out += steps.leave(event.run, event.kept)

    def _result(self, event: ev.ResultArrived) -> None:
        at = event.activation
        run = self._find(at.run)
        if run is not None and at.item < run.offered and self._settle(run, at.item):
            self._out.append(ins.GiveResult(at))
            return
        self._out.append(ins.DropResult(at))
        if run is None:
            self._out += steps.come_late(at.run, at.item, self._over)

    def _settle(self, run: ClientRun, item: int) -> bool:
        """Note an outcome; whether it is the item's first, and read here."""
        if run.leaves:
            return False
        if not run.asked.collect:  # else the person says what is safe
            run.acks.append(item)
            run.ack_at = min(run.ack_at, self._now + ACK_S)
        if not run.settled.add(item):
            return False
        self._stored(run, item)
        steps.progress(run, self._now)
        return True

    def _stored(self, run: ClientRun, item: int) -> None:
        if run.store(item):
            self._out.append(ins.ForgetInput(run.input(item)))
            steps.progress(run, self._now)

    def _response(self, event: ev.ResponseArrived) -> None:
        _RESPONSES[type(event.response)](self, event.response)

    def _accepted(self, told: Accepted) -> None:
        run = self._find(told.run)
        if run is None:
            return
        run.credit = told.credit
        self._landed(run, told.stored)
        if run.state == "submitting":
            self._move(run, "accepted")
            run.land()
            steps.progress(run, self._now)
            self._note_wait(run, None)

    def _collected(self, told: Collected) -> None:
        run = self._find(told.run)
        if run is None:
            self._say(LeaveRun(told.run))  # nobody wants it here any more
        elif run.state == "submitting":
            self._out.append(ins.TellExpected(run.name, run.expect(told.items), told.had))
            self._move(run, "accepted")
            run.unsure, run.news = True, told.news  # have it sent what there is
            steps.progress(run, self._now)
            self._note_wait(run, None)

    def _inputs_stored(self, told: InputsStored) -> None:
        run = self._find(told.run)
        if run is None or run.state != "accepted":
            return
        run.credit = told.credit
        self._landed(run, told.ranges)
        if run.resuming:  # what it does not list it never got
            run.resuming = False
            run.land()

    def _landed(self, run: ClientRun, ranges: tuple[tuple[int, int], ...]) -> None:
        for item in run.news_in(ranges):
            self._stored(run, item)

    def _item_failed(self, told: ItemFailed) -> None:
        run = self._find(told.run)
        if run is None:
            self._out += steps.come_late(told.run, told.item, self._over)
        elif told.item < run.offered and self._settle(run, told.item):
            self._out.append(ins.GiveError(told.run, told.item, told.kind, told.reason))

    def _waits(self, told: RunWaits) -> None:
        run = self._find(told.run)
        if run is None:
            return
        self._note_wait(run, None if told.kind is None else (told.kind, told.reason))

    def _news(self, told: RunNews) -> None:
        run = self.runs.get(told.run)
        if run is not None and run.is_news(told.stamp):
            self._out.append(ins.TellNews(run.name, told.text))

    def _note_wait(self, run: ClientRun, waits: tuple[str, str] | None) -> None:
        if waits != run.waits:
            run.waits = waits
            self._out.append(ins.TellWait(run.name, "" if waits is None else waits[1]))

    def _rejected(self, told: Rejected) -> None:
        run = self._find(told.run)
        if run is None:
            return
        if told.kind == Busy.kind and told.again_s is not None:
            self._refused_for_now(run, told.reason, told.again_s)
        elif not told.doubtful:
            self._end(run, told.kind, told.reason)
        elif run.state == "accepted":  # else `submit` is repeated until it is answered itself
            run.unsure = True

    def _refused_for_now(self, run: ClientRun, reason: str, again_s: float) -> None:
        """The same again later, unless the person does not wait that long. Of an accepted run it
        was another request: in a while the run is asked after, which mends whatever it was."""
        self._around.refused_at = self._now
        if run.state == "accepted":
            run.repeat_at = max(run.repeat_at, self._now + min(again_s, ASK_AGAIN_MOST_S))
            return
        self._put_off.add(run, again_s, self._now)
        self._note_wait(run, (Busy.kind, reason))
        if run.repeat_at >= run.deadline(self._around):
            self._end(run, *why_given_up(run, self._around))

    def _answered(self, told: Planned | RunsListed | RequestFailed) -> None:
        self._out += self._questions.hear(told, self._now, self._around)


_HANDLERS: dict[type[ev.Event], Callable[[ClientMachine, Any], None]] = {
    ev.Connected: ClientMachine._connection_up,
    ev.Disconnected: ClientMachine._connection_lost,
    ev.OrchestratorSeen: ClientMachine._orchestrator_seen,
    ev.RunAsked: ClientMachine._run_asked,
    ev.InputOffered: ClientMachine._input_offered,
    ev.InputsEnded: ClientMachine._inputs_ended,
    ev.OutcomesTaken: ClientMachine._outcomes_taken,
    ev.RunAbandoned: ClientMachine._run_abandoned,
    ev.CancelAsked: lambda machine, event: machine._say(CancelRun(event.run)),
    ev.RunLeft: ClientMachine._run_left,
    ev.RunsAsked: lambda machine, event: machine._questions.add(event, machine._now),
    ev.PlanAsked: lambda machine, event: machine._questions.add(event, machine._now),
    ev.ResponseArrived: ClientMachine._response,
    ev.ResultArrived: ClientMachine._result,
    ev.Ticked: lambda machine, event: None,  # what is due is all there is to do
}
_RESPONSES: dict[type, Callable[[ClientMachine, Any], None]] = {
    Accepted: ClientMachine._accepted,
    InputsStored: ClientMachine._inputs_stored,
    ItemFailed: ClientMachine._item_failed,
    RunWaits: ClientMachine._waits,
    RunNews: ClientMachine._news,
    Collected: ClientMachine._collected,
    RunsListed: ClientMachine._answered,
    Rejected: ClientMachine._rejected,
    Planned: ClientMachine._answered,
    RequestFailed: ClientMachine._answered,
}
