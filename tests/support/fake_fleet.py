"""A made-up world around the orchestrator's machine: agents, a journal, a client, and the time.

Everything happens in one queue ordered by time, so a run is the same each time. The agents do
what the protocol asks of them in the simplest way: they fetch, load one partition at a time,
compute, forward, and repeat events until these are acknowledged. No bytes exist.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.planner.times import SegmentTime
from tests.support.fake_agent import HOP_S, FakeAgent
from tests.support.planner_beside import answered
from wire.elements import Element
from wire.frame_head import FrameHead, TensorHead
from wire.ids import ActivationId
from wire.manifest import Manifest
from wire.messages.assignment import Assignment
from wire.messages.requests import (
    Accepted,
    Finish,
    ItemFailed,
    Renew,
    Request,
    Response,
    RunOptions,
    Submit,
)
from wire.topics import ORCHESTRATOR

CLIENT = "clients/ann/s1"
Told = TypeVar("Told", bound=ins.Instruction)


class World:
    """`outcomes` is what the client got, per item, in order; `told` all responses. While
    `client_there`, the client says every 5 s that it wants its runs."""

    def __init__(
        self, manifest: Manifest, options: OrchestratorOptions | None = None, **made_of: object
    ) -> None:
        self.options = options or OrchestratorOptions(no_device_s=30.0)
        self.manifest = manifest
        self.machine = OrchestratorMachine(self.options)
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.agents: dict[str, FakeAgent] = {}
        self.retained: dict[str, Assignment] = {}
        self.assignments: list[tuple[float, str, Assignment]] = []
        self.told: list[Response] = []
        self.outcomes: dict[tuple[str, int], list[str]] = {}
        self.carried_out: list[tuple[float, ins.Instruction]] = []
        self.runs: dict[str, ev.StoredRun] = {}
        self.inputs: dict[str, dict[int, None]] = {}
        self.finals: dict[str, dict[int, ev.Outcome]] = {}
        self.absences: dict[str, float] = {}
        self.times: dict[tuple[str, bool, str, int], SegmentTime] = {}
        self.feeding: dict[str, tuple[int, int]] = {}
        self.parties: dict[str, str] = {}  # whose runs are not the client's
        self.lose_frame: Callable[[str, ActivationId, str], bool] = lambda a, b, c: False
        self.starts = 0
        self.client_there = True
        self.gather_s: float | None = None  # so long what comes waits, and is handled at once
        self.mail: list[ev.Event] = []

    def begin(self, *agents: str, **of: object) -> World:
        """The orchestrator starts, then these agents, all of this kind."""
        self.start_orchestrator()
        for name in agents:
            self.agents[name] = FakeAgent(self, name, **of)  # type: ignore[arg-type] # its fields
            self.agents[name].start()
        self.run_for(0.5)
        return self

    def start_orchestrator(self) -> None:
        self.starts += 1
        self.mail.clear()
        self.machine = OrchestratorMachine(self.options)
        runs = tuple(
            replace(
                run,
                inputs=tuple(self.inputs.get(name, {})),
                outcomes=tuple(self.finals.get(name, {}).values()),
            )
            for name, run in self.runs.items()
        )
        absences = tuple(self.absences.items())
        times = tuple(self.times.values())
        self._handle(ev.Started(f"o{self.starts}", self.starts, runs, "http://:1", times, absences))
        self._handle(ev.ModelAdded(self.manifest))
        self._handle(ev.Connected(f"oc{self.starts}"))
        for name, assignment in list(self.retained.items()):
            listed = tuple(each.partition for each in assignment.partitions)
            self._handle(ev.AssignmentSeen(name, assignment.generation, listed))
        for agent in self.agents.values():
            status = "online" if agent.online else "offline"
            self._handle(ev.DeviceStateSeen(agent.name, agent.state(status), True))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now + seconds, next(self.order), act))

    def tell(self, event: ev.Event, after_s: float = HOP_S) -> None:
        self.later(after_s, lambda: self._take(event))

    def _take(self, event: ev.Event) -> None:
        if self.gather_s is None:
            self._handle(event)
            return
        if not self.mail:
            self.later(self.gather_s, self._turn)
        self.mail.append(event)

    def _turn(self) -> None:
        mail, self.mail = self.mail, []
        self._handle(*mail)

    def _handle(self, *events: ev.Event) -> None:
        for instruction in self.machine.handle_all(events, self.now):
            self.carried_out.append((self.now, instruction))
            self._carry_out(instruction)
        self.machine.validate()

    def run_for(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        end = self.now + seconds
        beat_at = self.now
        while not until():
            wake = self.machine.wake_at()
            ahead = min(self.queue[0][0] if self.queue else end, end if wake is None else wake, end)
            if beat_at <= ahead:
                self.now = max(self.now, beat_at)
                for agent in self.agents.values():
                    agent.beat()
                    agent.flush_events()
                if self.client_there:
                    self._renew()
                beat_at += 5.0
            elif self.queue and self.queue[0][0] <= ahead:
                at, _, act = heapq.heappop(self.queue)
                self.now = max(self.now, at)
                act()
            elif wake is not None and wake <= ahead < end:
                self.now = max(self.now, wake)
                self._handle(ev.Ticked())
                assert self.machine.wake_at() is None or self.machine.wake_at() > self.now  # type: ignore[operator] # just checked
            else:
                self.now = end
                return

    def _renew(self) -> None:
        runs: dict[str, list[str]] = {}
        for name, run in self.runs.items():
            runs.setdefault(run.party, []).append(name)
        for party, names in runs.items():
            self.ask(Renew(tuple(names)), party)

    def submit(
        self,
        run: str = "r1",
        items: int = 3,
        options: RunOptions | None = None,
        attached: int = 0,
        party: str = CLIENT,
    ) -> None:
        """Submit it, with its first inputs right behind."""
        self.feeding[run], self.parties[run] = (0, items), party
        self.ask(Submit(run, self.manifest.name, options or RunOptions(), items, attached), party)
        for item in range(attached):
            self.feed(run, item)

    def ask(self, request: Request, party: str = CLIENT) -> None:
        self.tell(ev.RequestArrived(party, request))

    def head(self, activation: ActivationId, shape: tuple[int, ...] = (1, 8)) -> FrameHead:
        cut = self.manifest.cuts[activation.cut]
        tensors = tuple(TensorHead(name, Element.FLOAT, shape) for name in cut.names)
        return FrameHead(
            self.manifest.digest,
            activation,
            0,
            exact=False,
            barrier=False,
            nbytes=100,
            raw_nbytes=32,
            tensors=tensors,
        )

    def feed(self, run: str, item: int, shape: tuple[int, ...] = (1, 8)) -> None:
        party = self.parties.get(run, CLIENT)
        self.tell(ev.InputArrived(party, self.head(ActivationId(run, item, 0), shape)))

    def finished(self, run: str = "r1", items: int = 3) -> bool:
        return all((run, item) in self.outcomes for item in range(items))

    def complete(self, run: str = "r1", items: int = 3, limit_s: float = 60.0) -> float:
        """Go on until the run has all outcomes; seconds that took."""
        began = self.now
        self.run_for(limit_s, lambda: self.finished(run, items))
        assert self.finished(run, items), f"after {limit_s} s only {self.outcomes}"
        took_s = self.now - began
        self.run_for(0.3)
        return took_s

    def carry(
        self, sender: str, activation: ActivationId, to: str, barrier: bool, attempt: int
    ) -> None:
        if self.lose_frame(sender, activation, to):
            return
        if to == ORCHESTRATOR:
            self.tell(ev.ResultArrived(sender, self.head(activation)))
        elif to in self.agents:
            self.later(HOP_S, lambda: self.agents[to].frame(activation, sender, barrier, attempt))

    def _carry_out(self, instruction: ins.Instruction) -> None:
        getattr(self, f"_do_{type(instruction).__name__}", lambda _: None)(instruction)

    def _do_StoreRun(self, each: ins.StoreRun) -> None:  # noqa: N802 (named as the instruction)
        self.runs[each.run] = ev.StoredRun(
            each.run, each.party, each.model_name, each.model, each.options, each.count, (), (), 0.0
        )
        self.inputs.setdefault(each.run, {}).update(dict.fromkeys(each.inputs))
        self.tell(ev.RunStored(each.run, each.inputs), 0.001)

    def _do_StoreInput(self, each: ins.StoreInput) -> None:  # noqa: N802
        at = each.activation
        self.inputs.setdefault(at.run, {})[at.item] = None
        self.tell(ev.InputStored(at.run, at.item), 0.001)

    def _do_StoreOutcome(self, each: ins.StoreOutcome) -> None:  # noqa: N802
        finals = self.finals.setdefault(each.run, {})
        assert each.outcome.item not in finals, "a second outcome for one item"
        finals[each.outcome.item] = each.outcome
        self.tell(ev.OutcomeStored(each.run, each.outcome), 0.001)

    def _do_ForgetInputs(self, each: ins.ForgetInputs) -> None:  # noqa: N802
        for item in each.items:
            self.inputs.get(each.run, {}).pop(item, None)

    def _do_StoreAbsence(self, each: ins.StoreAbsence) -> None:  # noqa: N802
        self.absences[each.device] = each.absent_s

    def _do_ForgetAbsence(self, each: ins.ForgetAbsence) -> None:  # noqa: N802
        self.absences.pop(each.device, None)

    def _do_StoreTimes(self, each: ins.StoreTimes) -> None:  # noqa: N802
        for time in each.times:
            self.times[time.model, time.exact, time.device, time.segment] = time

    def _do_SearchPlan(self, each: ins.SearchPlan) -> None:  # noqa: N802
        self.tell(answered(each), 0.0)

    def _do_StoreEnding(self, each: ins.StoreEnding) -> None:  # noqa: N802
        self.runs[each.run] = replace(self.runs[each.run], fault=(each.kind, each.reason))

    def _do_StoreParty(self, each: ins.StoreParty) -> None:  # noqa: N802
        self.runs[each.run] = replace(self.runs[each.run], party=each.party)
        self.tell(ev.PartyStored(each.run, each.party), 0.001)

    def _do_StoreCount(self, each: ins.StoreCount) -> None:  # noqa: N802
        self.runs[each.run] = replace(self.runs[each.run], count=each.count)

    def _do_ForgetRun(self, each: ins.ForgetRun) -> None:  # noqa: N802
        self.runs.pop(each.run, None)

    def _do_SendInput(self, each: ins.SendInput) -> None:  # noqa: N802
        assert each.activation.item in self.inputs.get(each.activation.run, {})
        if self.lose_frame(ORCHESTRATOR, each.activation, each.to):
            return
        agent, barrier = self.agents[each.to], each.options.barrier
        self.later(HOP_S, lambda: agent.frame(each.activation, ORCHESTRATOR, barrier, each.attempt))

    def _do_SendResult(self, each: ins.SendResult) -> None:  # noqa: N802
        self._outcome(each.activation.run, each.activation.item, "result")

    def _outcome(self, run: str, item: int, what: str) -> None:
        self.outcomes.setdefault((run, item), []).append(what)

    def _do_Respond(self, each: ins.Respond) -> None:  # noqa: N802
        self.told.append(each.response)
        if isinstance(each.response, ItemFailed):
            self._outcome(each.response.run, each.response.item, each.response.kind)
        credit = getattr(each.response, "credit", 0)
        if isinstance(each.response, Accepted) or credit:
            self._feed_more(each.response.run, each.response)  # type: ignore[union-attr] # both have it

    def _feed_more(self, run: str, response: Response) -> None:
        sent, items = self.feeding.get(run, (0, 0))
        ranges = response.stored if isinstance(response, Accepted) else response.ranges  # type: ignore[union-attr] # the other with credit
        stored = sum(last - first + 1 for first, last in ranges)
        sent = max(sent, stored)
        credit: int = response.credit  # type: ignore[union-attr] # checked by the caller
        while sent < items and sent < stored + credit:
            self.feed(run, sent)
            sent += 1
        self.feeding[run] = (sent, items)

    def finish(self, run: str, count: int) -> None:
        self.ask(Finish(run, count))

    def _do_PublishAssignment(self, each: ins.PublishAssignment) -> None:  # noqa: N802
        self.retained[each.device] = each.assignment
        self.assignments.append((self.now, each.device, each.assignment))
        agent = self.agents.get(each.device)
        if agent is not None:
            self.later(HOP_S, lambda: agent.obey(each.assignment))

    def _do_PublishCommands(self, each: ins.PublishCommands) -> None:  # noqa: N802
        agent = self.agents.get(each.device)
        if agent is not None:
            self.later(HOP_S, lambda: agent.command(each.batch))

    def first_assigned(self, first: int) -> float:
        """When the partition that begins with this segment was first assigned."""
        return next(
            at
            for at, _, assignment in self.assignments
            if any(each.partition.first == first for each in assignment.partitions)
        )

    def happened(self, what: str) -> list[tuple[float, str, str]]:
        """All events of this name, by time: when, on which device, and the whole."""
        return sorted(
            (at, agent.name, text)
            for agent in self.agents.values()
            for at, name, text in agent.history
            if name == what
        )

    def instructions(self, kind: type[Told]) -> list[Told]:
        return [each for _, each in self.carried_out if isinstance(each, kind)]
