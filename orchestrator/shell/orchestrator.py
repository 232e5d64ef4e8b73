"""The orchestrator as one process: builds the adapters, joins them to the machine, and turns.

One thread takes an event at a time, has the machine decide, and carries out what it says;
everything that takes time happens in the adapters' threads and comes back as an event.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import Any

from bus.connection import Connection
from bus.courier import Courier
from bus.link import Link
from bus.listener import Subscription
from orchestrator import __version__
from orchestrator.adapters.desk_key import open_desk_key
from orchestrator.adapters.home import HomeFolder
from orchestrator.adapters.journal import Journal
from orchestrator.adapters.journal_aside import open_journal
from orchestrator.adapters.plan_search import PlanSearch
from orchestrator.adapters.store_watch import StoreWatch
from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records.events import (
    Event,
    ForgetAsked,
    Started,
    Ticked,
)
from orchestrator.planner.times import SegmentTime
from orchestrator.shell.inbound import Inbound
from orchestrator.shell.mailbox import Mailbox
from orchestrator.shell.outbound import Outbound
from orchestrator.shell.settings import OrchestratorSettings
from wire.errors import CrowdpipeError, TimedOut
from wire.ids import mint
from wire.topics import ORCHESTRATOR, Topics

DRAIN_S = 5.0  # what is left to say at the end may take this long
LOOK_S = 1.0  # longest sleep of the main thread: parts of frames may time out meanwhile
GENERATION_LIMIT_S = 30.0
STOP_LIMIT_S = 60.0
READ = ("device_state", "telemetry", "residency", "events", "requests")

_log = logging.getLogger("crowdpipe.orchestrator")


class Orchestrator:
    """`start`, then `wait_ready`; `stop` in the end. `failure` says why it ended by itself.
    Once started, `notice` is a sentence for the person if its journal had to be begun anew, and
    `desk_key` the public key that its orders are signed for."""

    def __init__(self, settings: OrchestratorSettings, *, validated: bool = False) -> None:
        """`validated`: every invariant is checked after every event, at a cost."""
        self._settings, self._validated = settings, validated
        self._boot = mint()
        self._topics = Topics(settings.control_root, settings.data_root)
        self._mailbox = Mailbox()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._failure: CrowdpipeError | None = None
        self.notice: str | None = None
        self.desk_key = ""
        self._journal: Journal
        self._thread = threading.Thread(target=self._run, name="orchestrator", daemon=True)
        self._machine = OrchestratorMachine(settings.options)

    @property
    def failure(self) -> CrowdpipeError | None:
        return self._failure

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to serve; return once the journal is read and the generation is on disk.

        Raises `OperatorError` if the home folder or the journal cannot be used.
        """
        settings = self._settings
        self._home = HomeFolder(settings.home)
        try:
            self._key = open_desk_key(self._home.desk_key)
            self.desk_key = self._key.public
            self._journal, self.notice = open_journal(
                self._home.journal,
                settings.journal_limit_nbytes,
                died=lambda error: self._inbound.ended(error),
            )
            self._build()
            self._inbound.generation = self._raised()
        except BaseException:
            self._home.close()
            raise
        self._thread.start()

    def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Until the broker is connected and the store was read. Raises `TimedOut` with what it
        waited for, or the error that ended it."""
        deadline = time.monotonic() + timeout_s
        inbound = self._inbound
        for event, what in ((inbound.online, "broker"), (inbound.models_known, "store")):
            while not event.wait(min(0.1, max(0.0, deadline - time.monotonic()))):
                if self._ended.is_set():
                    raise self._failure or TimedOut("the orchestrator was stopped")
                if time.monotonic() >= deadline:
                    why = inbound.last_fault.get(what, "no answer")
                    raise TimedOut(f"waited {timeout_s:g} s for the {what}: {why}")

    def run_forever(self) -> None:
        """Start if need be, and return when stopped. Raises the error that ended it."""
        if not self._thread.is_alive() and not self._ended.is_set():
            self.start()
        while not self._ended.wait(LOOK_S):
            pass  # in slices, so that signals are handled in between
        if self._failure is not None:
            raise self._failure

    def ask_to_stop(self) -> None:
        """End soon; `stop` waits for it. Takes no lock, so signal handlers may call it."""
        self._stopping.set()

    def stop(self) -> None:
        """End in order: what is said is said, what is recorded is on disk."""
        self._stopping.set()
        if self._thread.ident is None:
            return
        self._mailbox.wake()
        self._thread.join(STOP_LIMIT_S)
        if self._thread.is_alive():
            raise TimedOut(f"the orchestrator did not end within {STOP_LIMIT_S:g} s")

    def forget(self, device: str) -> None:
        """A person says that this device will not come back: clear what it retained."""
        self._mailbox.put(ForgetAsked(device))

    def __enter__(self) -> Orchestrator:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # --- setting up ---------------------------------------------------------------------------

    def _build(self) -> None:
        settings, topics = self._settings, self._topics
        self._inbound = Inbound(self._mailbox, topics, self._journal, self._boot, __version__)
        self._inbound.store_base = settings.store_base
        self._inbound.versions = settings.options.versions
        self._inbound.sign = self._key.signed
        link = Link()
        self._courier = Courier(
            topics,
            ORCHESTRATOR,
            self._inbound.frames,
            self._inbound,
            bound_nbytes=settings.hold_nbytes,
            link=link,
        )
        self._connection = Connection(
            settings.broker,
            client_id=settings.broker.user or ORCHESTRATOR,
            first=(Subscription(topics.orchestrator_state),),
            then=self._subscriptions(),
            listener=self._inbound,
            courier=self._courier,
            link=link,
            may_wait=topics.is_telemetry,
        )
        self._planner = PlanSearch(died=self._inbound.ended)
        self._outbound = Outbound(
            self._mailbox,
            topics,
            self._journal,
            self._courier,
            self._connection,
            self._inbound,
            self._planner,
            self._key,
        )
        self._inbound.respond = self._outbound.respond
        self._watch = StoreWatch(
            settings.store,
            self._inbound,
            settings.store_user,
            settings.store_secret,
            settings.authority,
        )

    def _subscriptions(self) -> tuple[Subscription, ...]:
        """Assignments with echoes: without, a broker may hide those that we retained before."""
        topics = self._topics
        return (
            *(Subscription(topics.subscription(name)) for name in READ),
            Subscription(topics.subscription("assignment"), echoes=True),
            Subscription(topics.inbox(ORCHESTRATOR)),
        )

    def _raised(self) -> int:
        """A generation above all that the journal knows, on disk."""
        answers: queue.Queue[tuple[int | None, CrowdpipeError | None]] = queue.Queue()
        self._journal.raise_generation(0, lambda *answer: answers.put(answer))
        try:
            generation, error = answers.get(timeout=GENERATION_LIMIT_S)
        except queue.Empty:
            raise TimedOut(f"the journal did not answer in {GENERATION_LIMIT_S:g} s") from None
        if generation is None:
            raise error or TimedOut("the journal did not raise the generation")
        return generation

    # --- the main thread ----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._begin()
            while not self._stopping.is_set() and self._inbound.failure is None:
                self._turn()
            self._failure = self._inbound.failure
        except CrowdpipeError as error:
            self._failure = error
        except Exception as error:
            _log.exception("the orchestrator failed")
            self._failure = CrowdpipeError(f"the orchestrator failed: {error}")
        finally:
            self._close()
            self._ended.set()

    def _begin(self) -> None:
        runs = self._journal.replay()
        generation = self._inbound.generation
        _log.info("generation %d, %d runs in the journal", generation, len(runs))
        _log.info("orders are signed for agents with --desk-key %s", self.desk_key)
        times = tuple(SegmentTime(*each) for each in self._journal.times())
        base, absences = self._settings.store_base, self._journal.absences()
        self._handle(Started(self._boot, generation, runs, base, times, absences))
        self._planner.start()
        self._watch.start()
        self._connection.start()

    def _turn(self) -> None:
        """Wait for the next event or the next time that something is due; handle it, and what waits
        behind it. All that it says goes out together."""
        courier_at, wake_at = self._courier.wake_at(), self._machine.wake_at()
        due = (courier_at, wake_at, time.monotonic() + LOOK_S)
        due_at = min(each for each in due if each is not None)
        events = self._mailbox.take(max(0.0, due_at - time.monotonic()))
        with self._connection.said_together():
            self._act(events, courier_at)

    def _act(self, events: list[Event], courier_at: float | None) -> None:
        """On the events, and on what is due."""
        if events:
            self._handle(*events)
        now = time.monotonic()
        if courier_at is not None and now >= courier_at:
            self._courier.expire(now)
        wake_at = self._machine.wake_at()
        if wake_at is not None and now >= wake_at:
            self._handle(Ticked())

    def _handle(self, *events: Event) -> None:
        told = self._machine.handle_all(events, time.monotonic())
        if _log.isEnabledFor(logging.DEBUG):
            for instruction in told:
                _log.debug("%s, as %s", instruction, self._machine.cause)
        self._outbound.carry_out(told)
        if self._validated:
            self._machine.validate()

    def _close(self) -> None:
        steps: tuple[Any, ...] = (
            self._say_farewell,
            lambda: self._connection.close(DRAIN_S),
            self._watch.close,
            self._planner.close,
            self._journal.close,
            self._home.close,
        )
        for step in steps:
            try:
                step()
            except CrowdpipeError as error:
                _log.error("at the end: %s", error)
                self._failure = self._failure or error

    def _say_farewell(self) -> None:
        if self._inbound.online.is_set() and self._inbound.failure is None:
            self._connection.publish(self._inbound.farewell())
