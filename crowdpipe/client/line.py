"""A client's line to the orchestrator: connection, courier and machine, and what people wait on.

One thread turns the machine; the connection has its own. Whoever calls (any thread) begins runs,
offers inputs and waits for outcomes through a `Handle`. Frames lie here under their activation:
inputs until the orchestrator has them on disk, results until they are taken. Decides nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from bus.arrived_frames import ArrivedFrames
from bus.connection import Connection
from bus.connection_policy import ConnectionPolicy
from bus.courier import Courier
from bus.link import Link
from bus.listener import InboundMessage, Subscription
from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.handle import MARGIN_S, Handle, Result
from crowdpipe.client.kept_input import KeptInput
from crowdpipe.client.machine import ClientMachine
from crowdpipe.client.mailbox import Mailbox
from crowdpipe.client.readers import Readers
from crowdpipe.client.unreachable import unreachable
from wire.broker_url import BrokerUrl
from wire.errors import (
    CrowdpipeError,
    OperatorError,
    QueueFull,
    Refused,
    UserError,
    from_kind,
)
from wire.frame_head import FrameHead
from wire.ids import ActivationId, check_name, mint
from wire.messages.model import ModelSummary
from wire.messages.requests import Planned, Request, Response, RunOptions, RunsListed
from wire.messages.state import OrchestratorState
from wire.outbox import Message
from wire.record import decode, encode
from wire.topics import JSON_CONTENT_TYPE, ORCHESTRATOR, Topics, client_party

REQUEST_EXPIRY_S = 300
CONNECT_LIMIT_S = 5.0
RETRY_LIMIT_S = 2.0  # a broker that refuses connections for so long is not there
DRAIN_S = 5.0
POLICY = ConnectionPolicy(refused_s=3.0)
SOMEBODY = "anyone"  # our user name where the broker asks for none

OnWait = Callable[[str], None]
_log = logging.getLogger("crowdpipe.client")


class Line:
    """Connected inside a `with`, to `broker`, as a client of its user's. `on_wait` is told, in the
    thread here, what keeps a run from going on, and an empty text once it goes on; `on_news`, what
    happened to a run."""

    def __init__(
        self,
        broker: BrokerUrl,
        topics: Topics | None = None,
        on_wait: OnWait | None = None,
        on_news: OnWait | None = None,
    ) -> None:
        self.broker = broker
        self._on_wait, self._on_news = on_wait, on_news
        self.topics = Topics() if topics is None else topics
        # Of what concerns all who use this line: the connection, models, the orchestrator, its
        # failure. Who waits for one run or one plan is woken by that alone.
        self._changed = threading.Condition()
        self.failure: CrowdpipeError | None = None
        self.models: dict[str, ModelSummary] = {}
        self.orchestrator_online = False
        self._user = check_name(broker.user or SOMEBODY, "user name")
        self._session = mint()
        self.party = client_party(self._user, self._session)
        self._machine = ClientMachine()
        self._mailbox = Mailbox()
        self._inputs: dict[ActivationId, bytes] = {}
        self._arrived = ArrivedFrames()
        self._readers = Readers()
        self._connected = False
        self._why_not = ""
        self._closing = False
        link = Link()
        self._courier = Courier(self.topics, self.party, self, self, link=link)
        self._connection = self._make_connection(link)
        self._thread = threading.Thread(target=self._run, name="crowdpipe-client", daemon=True)

    def _make_connection(self, link: Link) -> Connection:
        retained = (self.topics.subscription("model"), self.topics.orchestrator_state)
        ours = (self.topics.client(self.party, "responses"), self.topics.inbox(self.party))
        return Connection(
            self.broker,
            f"{self._user}-{self._session}",
            tuple(map(Subscription, retained)),
            tuple(map(Subscription, ours)),
            self,
            policy=POLICY,
            courier=self._courier,
            link=link,
        )

    # --- for whoever calls --------------------------------------------------------------------

    def open(self, limit_s: float = CONNECT_LIMIT_S) -> None:
        """Connect. Raises `BrokerUnreachable`, or `Refused` if the broker does not let us in."""
        self._thread.start()
        self._connection.start()
        begun = time.monotonic()
        with self._changed:
            while not self._connected and self.failure is None:
                waited = time.monotonic() - begun
                if waited >= (RETRY_LIMIT_S if self._why_not else limit_s):
                    break
                self._changed.wait(0.1)
        if self.failure is not None or not self._connected:
            error = self.failure or unreachable(self.broker, self._why_not, limit_s)
            self.close(0.0)
            raise error

    def begin(
        self,
        model: str,
        options: RunOptions,
        count: int | None,
        window: int,
        limit_s: float,
        total: bool = False,
    ) -> Handle:
        """Submit a run; its outcomes come to the handle."""
        return self._begin(ev.RunAsked(mint(), model, options, count, window, limit_s, total))

    def collect(self, run: str, digest: str, limit_s: float) -> Handle:
        """Take over a run of the same user, if it is of this model; its outcomes come to the
        handle, and are acknowledged when that is left. Raises `UserError` if it is read here."""
        asked = ev.RunAsked(run, digest, RunOptions(), None, 0, limit_s, collect=True)
        return self._begin(asked)

    def _begin(self, asked: ev.RunAsked) -> Handle:
        if self._closing:
            raise UserError("this session is closed; open a new one")
        handle = Handle(self, asked.run, asked.limit_s, asked.window)
        self._readers.add(handle)
        self.tell(asked)
        return handle

    def ask(self, asked: ev.PlanAsked | ev.RunsAsked) -> Planned | RunsListed:
        """The answer. Raises what the orchestrator says against it."""
        answer = self._readers.expect_answer(asked.request)
        self.tell(asked)
        return self._readers.await_answer(asked.request, answer, asked.limit_s + MARGIN_S)

    def wait_for(self, until: Callable[[], bool], limit_s: float) -> bool:
        """Whether `until`, asked again when the connection, the orchestrator's state or the models
        change, holds within the limit."""
        with self._changed:
            return self._changed.wait_for(until, limit_s)

    def end(self, handle: Handle) -> None:
        """Nobody reads this run any more; what still runs of it is cancelled."""
        known = self._readers.remove(handle.run)
        if known is not None and not handle.ended and self.failure is None:
            self.tell(ev.RunAbandoned(handle.run))
        self._readers.release(handle.run)

    def leave(self, handle: Handle, kept: tuple[int, ...]) -> None:
        """These outcomes of a collected run are safe; the others are for whoever is next."""
        self._readers.remove(handle.run)
        if self.failure is None:
            self.tell(ev.RunLeft(handle.run, kept))
        self._readers.release(handle.run)

    def tell(self, event: ev.Event) -> None:
        self._mailbox.put(event)

    def keep_input(self, activation: ActivationId, frame: bytes) -> None:
        with self._changed:
            self._inputs[activation] = frame

    def close(self, limit_s: float = DRAIN_S) -> None:
        """Cancel what runs, say it, and disconnect. May be called twice."""
        if self._closing:
            return
        self._closing = True
        handles = self._readers.handles()
        for handle in handles:
            self.end(handle)
        self._mailbox.close(limit_s)
        if self._thread.ident is not None:
            self._thread.join(limit_s)
        self._connection.close(limit_s if self._connected else 0.0)
        closed = UserError("this session is closed; open a new one")
        self._fail(closed)
        for handle in handles:  # another thread may still wait for one
            handle.fail(self.failure or closed)

    def __enter__(self) -> Line:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                events = self._next()
                with self._connection.said_together():
                    self._handle(*(each for each in events if each is not None))
                if None in events:
                    return
        except Exception as error:  # a fault of ours: whoever waits must hear of it
            _log.exception("the client's thread failed")
            self._fail(OperatorError(f"the client failed: {error!r}"))

    def _next(self) -> list[ev.Event | None]:
        """What waits, the time that something is due, or None for the end."""
        times = (self._machine.wake_at(), self._courier.wake_at())
        due = min((each for each in times if each is not None), default=None)
        limit_s = None if due is None else max(0.0, due - time.monotonic())
        events = self._mailbox.take(limit_s)
        if not events:
            self._courier.expire(time.monotonic())
        return events or [ev.Ticked()]

    def _handle(self, *events: ev.Event) -> None:
        for instruction in self._machine.handle_all(events, time.monotonic()):
            _log.debug("%s", instruction)
            _WAYS[type(instruction)](self, instruction)

    def _say(self, said: ins.Say) -> None:
        request: Request = said.request
        topic = self.topics.client(self.party, "requests")
        message = Message(
            topic, encode(request), expiry_s=REQUEST_EXPIRY_S, content_type=JSON_CONTENT_TYPE
        )
        try:
            self._connection.publish(message)
        except QueueFull as error:
            _log.warning("a request waits for the next repetition: %s", error)

    def _send_input(self, said: ins.SendInput) -> None:
        at = said.activation
        self._courier.send(ORCHESTRATOR, at, KeptInput(self._inputs, at))

    def _forget_input(self, said: ins.ForgetInput) -> None:
        with self._changed:
            self._inputs.pop(said.activation, None)
        self._courier.forget(said.activation)

    def _grant(self, said: ins.Grant) -> None:
        self._readers.grant(said.run, said.total)

    def _give_result(self, said: ins.GiveResult) -> None:
        at = said.activation
        self._readers.give(at.run, at.item, Result(self._arrived.take(at)))

    def _give_error(self, said: ins.GiveError) -> None:
        self._readers.give(said.run, said.item, Result(None, from_kind(said.kind, said.reason)))

    def _drop_result(self, said: ins.DropResult) -> None:
        self._arrived.take(said.activation)

    def _tell_wait(self, said: ins.TellWait) -> None:
        _log.info("run %s %s", said.run, f"waits: {said.reason}" if said.reason else "goes on")
        self._call(self._on_wait, said.reason)

    def _tell_news(self, said: ins.TellNews) -> None:
        _log.info("run %s: %s", said.run, said.text)
        self._call(self._on_news, said.text)

    def _call(self, who: OnWait | None, text: str) -> None:
        if who is None:
            return
        try:
            who(text)
        except Exception:  # theirs, and no reason to end the runs
            _log.exception("what was to be told of a run failed")

    def _end_run(self, said: ins.EndRun) -> None:
        self._readers.end(said.run, from_kind(said.kind, said.reason) if said.kind else None)

    def _give_answer(self, said: ins.GiveAnswer) -> None:
        self._readers.give_answer(said)

    def _fail(self, error: CrowdpipeError) -> None:
        """Whoever waits for anything hears of it; the first failure stands."""
        with self._changed:
            self.failure = failure = self.failure or error
            self._changed.notify_all()
        self._readers.fail(failure)

    # --- the connection's and the courier's listener ------------------------------------------

    def will(self, connection: str) -> Message | None:
        """A client has no will: that its runs are wanted is said by `Renew`, and silence counts."""
        return None

    def connected(self, connection: str, reconnect: bool) -> None:
        self.tell(ev.Connected())
        with self._changed:
            self._connected, self._why_not = True, ""
            self._changed.notify_all()

    def disconnected(self, reason: str) -> None:
        with self._changed:
            self._connected, self._why_not = False, reason
            self._changed.notify_all()
        self.tell(ev.Disconnected(reason))

    def received(self, message: InboundMessage) -> None:
        try:
            self._read(message)
        except CrowdpipeError as error:
            _log.warning("refused a message on %s: %s", message.topic, error)

    def refused(self, topic: str, error: CrowdpipeError) -> None:
        who = f"; is {self._user!r} a client in the broker's access list?"
        self._fail(Refused(f"{error}{who}") if isinstance(error, Refused) else error)

    def ended(self, error: CrowdpipeError) -> None:
        self._fail(error)

    @property
    def held_nbytes(self) -> int:
        return self._arrived.held_nbytes

    def keep(self, sender: str, header: FrameHead, frame: bytes) -> None:
        if sender != ORCHESTRATOR:
            raise Refused(f"{sender} sends us no results")
        self._arrived.keep(sender, header, frame)

    def frame_arrived(self, sender: str, header: FrameHead) -> None:
        self.tell(ev.ResultArrived(header.activation))

    def frame_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None:
        """Nothing to do: what is not acknowledged is asked for again."""

    def frame_given_up(self, to: str, activation: ActivationId, error: CrowdpipeError) -> None:
        """Nothing to do: what the orchestrator does not store is sent again."""

    def _read(self, message: InboundMessage) -> None:
        if message.topic == self.topics.orchestrator_state:
            self._orchestrator_state(message.payload)
        elif message.topic == self.topics.client(self.party, "responses"):
            self.tell(ev.ResponseArrived(decode(Response, message.payload)))
        else:
            self._model(message)

    def _orchestrator_state(self, payload: bytes) -> None:
        state: OrchestratorState | None = decode(OrchestratorState, payload) if payload else None
        online = state is not None and state.status == "online"
        with self._changed:
            self.orchestrator_online = online
            self._changed.notify_all()
        self.tell(ev.OrchestratorSeen(online, state.connection if state is not None else ""))

    def _model(self, message: InboundMessage) -> None:
        name = self.topics.parse(message.topic).variables["m"]
        with self._changed:
            if message.payload:
                self.models[name] = decode(ModelSummary, message.payload)
            else:
                self.models.pop(name, None)
            self._changed.notify_all()


_WAYS: dict[type[ins.Instruction], Callable[[Line, Any], None]] = {
    ins.Say: Line._say,
    ins.SendInput: Line._send_input,
    ins.ForgetInput: Line._forget_input,
    ins.Grant: Line._grant,
    ins.GiveResult: Line._give_result,
    ins.DropResult: Line._drop_result,
    ins.GiveError: Line._give_error,
    ins.TellWait: Line._tell_wait,
    ins.TellNews: Line._tell_news,
    ins.TellExpected: lambda line, said: line._readers.expect(said.run, said.count, said.had),
    ins.EndRun: Line._end_run,
    ins.GiveAnswer: Line._give_answer,
}
