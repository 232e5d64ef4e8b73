"""The client's machine against an orchestrator and a network that lose, double and delay."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from crowdpipe.client import events as happened
from crowdpipe.client import instructions as told
from crowdpipe.client import surroundings
from crowdpipe.client.machine import ClientMachine
from tests.support.effort import schedules
from wire.ids import ActivationId
from wire.messages.requests import (
    Accepted,
    AcknowledgeResults,
    CancelRun,
    Finish,
    InputsStored,
    ItemFailed,
    Rejected,
    Request,
    Response,
    Resume,
    RunOptions,
    Submit,
)

RUN, END_CUT, WINDOW, COUNT = "run", 3, 6, 9
NBYTES = 100
LIMIT_S = 1e6  # of the run: here nothing is given up
MOST_ROUNDS = 400

Message = Request | Response | ActivationId


class Desk:
    """The orchestrator, as far as a client sees it. What is stored outlives a restart."""

    def __init__(self) -> None:
        self.known = False
        self.count: int | None = None
        self.stored: set[int] = set()
        self.outcomes: dict[int, bool] = {}
        self.acknowledged: set[int] = set()
        self.cancelled = False
        self.credit = 2
        self.granted = 0
        self.finishes: set[int] = set()

    def hear(self, message: Message) -> list[Message]:
        if isinstance(message, Submit):
            self.known, self.granted = True, max(1, self.credit)
            self.count = message.count if self.count is None else self.count
            return [Accepted(RUN, "digest", self.granted, self._ranges())]
        if isinstance(message, ActivationId):
            return self._input(message.item)
        if isinstance(message, Resume):
            return [self.say(), *map(self.tell, sorted(self.outcomes.keys() - self.acknowledged))]
        if isinstance(message, AcknowledgeResults):
            assert set(message.items) <= self.outcomes.keys(), "only what came is acknowledged"
            self.acknowledged |= set(message.items)
        elif isinstance(message, Finish):
            self.finishes.add(message.count)
        elif isinstance(message, CancelRun):
            self.cancelled = True
        return []

    def _input(self, item: int) -> list[Message]:
        if not self.known:
            return [Rejected(RUN, "timed_out", "not known", doubtful=True)]
        if self.credit or not self.stored - self.outcomes.keys():
            self.stored.add(item)
        return [self.say()]

    def say(self) -> InputsStored:
        starving = not self.stored - self.outcomes.keys()
        self.granted = max(self.credit, int(starving))
        return InputsStored(RUN, self._ranges(), self.granted)

    def _ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple((item, item) for item in sorted(self.stored))

    def tell(self, item: int) -> Message:
        if self.outcomes[item]:
            return ActivationId(RUN, item, END_CUT)
        return ItemFailed(RUN, item, "compute_failed", "it did not work")


def _event(message: Message) -> happened.Event:
    if isinstance(message, ActivationId):
        return happened.ResultArrived(message)
    return happened.ResponseArrived(message)


class AnyNetwork(RuleBasedStateMachine):
    """The person takes outcomes and offers inputs at will; messages wait until a rule delivers,
    doubles or loses them."""

    counted = False

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(surroundings, "ANSWER_LIMIT_S", LIMIT_S)
        self.machine = ClientMachine(validate=True)
        self.desk = Desk()
        self.now = 0.0
        self.life = 1
        self.connected = False
        self.to_desk: list[Message] = []
        self.to_client: list[Message] = []
        self.inputs: set[int] = set()
        self.offered = 0
        self.granted = 0
        self.given: dict[int, str] = {}
        self.untaken = 0
        self.ended: told.EndRun | None = None
        count = COUNT if self.counted else None
        options = RunOptions()
        self.do(happened.RunAsked(RUN, "model", options, count, WINDOW, LIMIT_S))

    def do(self, *events: happened.Event) -> None:
        for instruction in self.machine.handle_all(events, self.now):
            self._carry_out(instruction)

    def _carry_out(self, instruction: told.Instruction) -> None:
        if isinstance(instruction, told.Say):
            self.to_desk.append(instruction.request)
        elif isinstance(instruction, told.SendInput):
            assert instruction.activation.item in self.inputs, "only what is held can be sent"
            self.to_desk.append(instruction.activation)
        elif isinstance(instruction, told.ForgetInput):
            self.inputs.remove(instruction.activation.item)
        elif isinstance(instruction, told.Grant):
            assert instruction.total > self.granted, "a grant only ever rises"
            self.granted = instruction.total
        elif isinstance(instruction, told.GiveResult):
            self._give(instruction.activation.item, "result")
        elif isinstance(instruction, told.GiveError):
            self._give(instruction.item, instruction.kind)
        elif isinstance(instruction, told.EndRun):
            assert self.ended is None, "a run ends once"
            self.ended = instruction

    def _give(self, item: int, what: str) -> None:
        assert item not in self.given, "each item is given once"
        assert self.ended is None, "nothing comes after the end"
        self.given[item] = what
        self.untaken += 1

    # what may happen

    @precondition(lambda self: not self.connected)
    @rule()
    def connect(self) -> None:
        self.connected = True
        self.do(happened.OrchestratorSeen(True, f"life-{self.life}"))
        self.do(happened.Connected())

    @precondition(lambda self: self.connected)
    @rule(kept=st.booleans())
    def cut(self, kept: bool) -> None:
        """The broker may have died with everything that was under way."""
        self.connected = False
        if not kept:
            self.to_desk.clear()
            self.to_client.clear()
        self.do(happened.Disconnected("cut"))

    @precondition(lambda self: self.connected)
    @rule()
    def restart_orchestrator(self) -> None:
        """Requests under way are lost with it."""
        self.to_desk.clear()
        self.life += 1
        self.do(happened.OrchestratorSeen(True, f"life-{self.life}"))

    @precondition(lambda self: self.to_desk)
    @rule(at=st.integers(0, 20), again=st.booleans())
    def reach_desk(self, at: int, again: bool) -> None:
        index = at % len(self.to_desk)
        message = self.to_desk[index] if again else self.to_desk.pop(index)
        self.to_client += self.desk.hear(message)

    @precondition(lambda self: self.to_desk)
    @rule(at=st.integers(0, 20), again_s=st.sampled_from([0.0, 1.0, 100.0]))
    def refuse_for_now(self, at: int, again_s: float) -> None:
        """Too much was asked: the request is not looked at."""
        message = self.to_desk.pop(at % len(self.to_desk))
        if not isinstance(message, ActivationId):
            self.to_client.append(Rejected(RUN, "busy", "later", again_s=again_s))

    @precondition(lambda self: self.to_client and self.connected)
    @rule(at=st.integers(0, 20), again=st.booleans())
    def reach_client(self, at: int, again: bool) -> None:
        index = at % len(self.to_client)
        self._deliver(self.to_client[index] if again else self.to_client.pop(index))

    @precondition(lambda self: self.to_client)
    @rule(at=st.integers(0, 20))
    def lose(self, at: int) -> None:
        del self.to_client[at % len(self.to_client)]

    @precondition(lambda self: self.to_client and self.connected)
    @rule(taken=st.booleans())
    def all_reaches_client(self, taken: bool) -> None:
        """All of it waited for the client's thread, and what the person did as well."""
        came, self.to_client = [*map(_event, self.to_client)], []
        had, self.untaken = self.untaken if taken else 0, 0 if taken else self.untaken
        self.do(*came, *[happened.OutcomesTaken(RUN, had)] * bool(had))

    def _deliver(self, message: Message) -> None:
        self.do(_event(message))

    @precondition(lambda self: self.desk.stored - self.desk.outcomes.keys())
    @rule(well=st.booleans())
    def compute(self, well: bool) -> None:
        item = min(self.desk.stored - self.desk.outcomes.keys())
        self.desk.outcomes[item] = well
        self.to_client.append(self.desk.tell(item))

    @rule(credit=st.integers(0, 3))
    def lend(self, credit: int) -> None:
        self.desk.credit = credit

    @precondition(lambda self: self.offered < min(self.granted, COUNT) and self.ended is None)
    @rule()
    def offer(self) -> None:
        self.inputs.add(self.offered)
        self.offered += 1
        self.do(happened.InputOffered(RUN, self.offered - 1, NBYTES))
        if self.offered == COUNT:
            self.do(happened.InputsEnded(RUN, COUNT))

    @precondition(lambda self: self.untaken)
    @rule()
    def take(self) -> None:
        self.untaken -= 1
        self.do(happened.OutcomesTaken(RUN))

    @rule(seconds=st.sampled_from([0.0, 0.05, 1.0, 7.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.do(happened.Ticked())

    # what always holds

    @invariant()
    def the_window_is_kept(self) -> None:
        assert self.granted - (len(self.given) - self.untaken) <= WINDOW

    @invariant()
    def inputs_are_held_until_they_are_stored(self) -> None:
        if self.ended is None:
            assert set(range(self.offered)) - self.desk.stored <= self.inputs

    @invariant()
    def errors_and_results_are_what_the_desk_said(self) -> None:
        for item, what in self.given.items():
            assert (what == "result") == self.desk.outcomes[item]

    def teardown(self) -> None:
        """Once nothing goes wrong any more, every item comes, and the run ends well."""
        try:
            self._come_to_an_end()
        finally:
            self.patch.undo()

    def _come_to_an_end(self) -> None:
        self.desk.credit = 2
        if not self.connected:
            self.connect()
        for _ in range(MOST_ROUNDS):
            if self.ended is not None:
                break
            self._settle()
        assert self.ended == told.EndRun(RUN), f"still waits: {self.machine.runs}"
        assert sorted(self.given) == list(range(COUNT))
        self._drain()
        assert not self.inputs
        assert not self.desk.cancelled
        assert self.desk.finishes <= {COUNT}
        assert self.desk.acknowledged == set(range(COUNT)), "nothing is left to keep for us"
        assert self.counted or self.desk.finishes, "the orchestrator knows that this was all"

    def _settle(self) -> None:
        self._drain()
        while self.desk.stored - self.desk.outcomes.keys():
            self.compute(True)
        self._drain()
        while self.offered < min(self.granted, COUNT) and self.ended is None:
            self.offer()
        while self.untaken:
            self.take()
        due = self.machine.wake_at()
        if not self.to_desk and not self.to_client and self.ended is None:
            assert due is not None, f"waits for nothing: {self.machine.runs}"
            self.now = max(self.now, due)
            self.do(happened.Ticked())

    def _drain(self) -> None:
        while self.to_desk or self.to_client:
            if self.to_desk:
                self.to_client += self.desk.hear(self.to_desk.pop(0))
            else:
                self._deliver(self.to_client.pop(0))


class AnyNetworkCounted(AnyNetwork):
    """The same, of a run whose number of items is told when it is submitted."""

    counted = True


TestAnyNetwork = AnyNetwork.TestCase
TestAnyNetworkCounted = AnyNetworkCounted.TestCase
TestAnyNetwork.settings = schedules(60, steps=60)
TestAnyNetworkCounted.settings = TestAnyNetwork.settings


def test_a_run_that_lacks_credit_asks_again_though_nothing_is_under_way() -> None:
    """The message that says that there is room again may be lost, with a broker for instance."""
    machine = ClientMachine(validate=True)
    machine.handle(happened.RunAsked(RUN, "model", RunOptions(), None, WINDOW, 60.0), 0.0)
    machine.handle(happened.OrchestratorSeen(True, "life"), 0.0)
    machine.handle(happened.Connected(), 0.0)
    machine.handle(happened.ResponseArrived(Accepted(RUN, "digest", 1)), 1.0)
    machine.handle(happened.InputOffered(RUN, 0, NBYTES), 1.0)
    machine.handle(happened.ResponseArrived(InputsStored(RUN, ((0, 0),), 0)), 1.0)
    machine.handle(happened.ResultArrived(ActivationId(RUN, 0, END_CUT)), 2.0)
    machine.handle(happened.OutcomesTaken(RUN), 2.0)
    due = machine.wake_at()
    while due is not None and due < 20.0:
        said = machine.handle(happened.Ticked(), due)
        if told.Say(Resume(RUN)) in said:
            return
        due = machine.wake_at()
    raise AssertionError("it never asked again")
