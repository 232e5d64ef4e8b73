"""One agent process: builds the adapters, joins them to the machine, and turns until told to end.

The main thread owns the network: it takes what has come and happened, has the machine decide, and
carries out what it says. A thread between the two would cost every hop of every item two changes of
threads. Everything that takes time happens in the adapters' threads and comes back as an event.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, NoReturn

from bus.connection import Connection
from bus.connection_policy import ConnectionPolicy
from bus.courier import Courier
from bus.link import Link
from bus.listener import Subscription
from bus.trust import Trust
from edge_agent import __version__
from edge_agent.adapters.device.battery import Battery
from edge_agent.adapters.device.memory import collect_and_trim
from edge_agent.adapters.device.readings import Sensors
from edge_agent.adapters.device.settings import AgentSettings
from edge_agent.adapters.runtime.executor import Executor
from edge_agent.adapters.store.agent_folder import AgentFolder
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.fetch import Fetcher
from edge_agent.adapters.store.obeyed import Obeyed
from edge_agent.adapters.store.replacements import STEADY_S, Replacements
from edge_agent.adapters.store.spool import Spool
from edge_agent.adapters.store.work_note import WorkNote
from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records.events import (
    Event,
    PartitionGone,
    PartitionReady,
    Started,
    StopAsked,
    TaskExecuted,
    TelemetryRead,
    Ticked,
)
from edge_agent.machine.records.instructions import in_words
from edge_agent.machine.records.limits import AgentLimits
from edge_agent.shell.capabilities import capabilities_of
from edge_agent.shell.inbound import Inbound
from edge_agent.shell.mailbox import Mailbox
from edge_agent.shell.orders import Orders
from edge_agent.shell.outbound import Outbound
from edge_agent.shell.spooled_frames import SpooledFrames
from edge_agent.shell.telemetry import TelemetryReader
from wire.errors import CrowdpipeError, Replaced, TimedOut
from wire.ids import mint
from wire.signed_orders import write_bytes
from wire.topics import Topics

SAMPLE_S = 5.0  # between readings; the machine decides which are published
MOVED_SAMPLE_S = 0.5  # after something that changes how much memory we take
MOVING = (PartitionReady, PartitionGone, TaskExecuted)
VERIFY_S = 600.0  # between looks for a cached blob that was not verified for long
DRAIN_S = 10.0  # what is left to say at the end may take this long
NEVER = float("inf")
ONE_NAME = "stop one of the two, or give this one a name of its own"
DEVICE = ConnectionPolicy(
    first_delay_s=0.5,
    longest_delay_s=30.0,
    largest_packet_nbytes=8 << 20,
    max_in_flight=16,
    ahead_nbytes=1 << 20,
    repeats=False,  # whenever it connects, the machine says everything about itself anew
    one_identity="give each agent its own name",
)

_log = logging.getLogger("crowdpipe.agent")


def run(
    settings: AgentSettings, limits: AgentLimits | None = None, *, validated: bool = False
) -> int:
    """The exit status. Raises a `CrowdpipeError` if the agent could not go on. Ends the process
    itself if a native thread would keep it from ending. `validated`: every invariant is checked
    after every event."""
    capabilities = capabilities_of(settings)
    folder = AgentFolder(settings.folder)
    try:
        machine = AgentMachine(settings.name, capabilities, limits)
        shell = AgentShell(settings, folder, machine, validated)
        with StopSignals(shell):
            return _status_of(shell)
    finally:
        folder.close()


def _status_of(shell: AgentShell) -> int:
    try:
        status, failure = shell.run(), None
    except CrowdpipeError as error:
        status, failure = error.exit_code, error
    if shell.unclean:
        _end_now(status, failure)
    if failure is not None:
        raise failure
    return status


def _end_now(status: int, failure: CrowdpipeError | None) -> NoReturn:
    """Without the interpreter's own end, which would wait for ONNX Runtime, or crash under it.
    The kernel gives back all else that we hold: files, the folder's lock, memory."""
    if failure is not None:
        print(f"crowdpipe-agent: {failure}", file=sys.stderr)
    logging.shutdown()
    sys.stderr.flush()
    os._exit(status)


class AgentShell:
    """`unclean`: a native thread is still at work, so that the interpreter may not come to its end
    by itself."""

    def __init__(
        self, settings: AgentSettings, folder: AgentFolder, machine: AgentMachine, validated: bool
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._validated = validated
        self._boot = mint()
        self._note = WorkNote(folder.work_note, self._boot)
        self._replacements = Replacements(folder.replacements)
        self._mailbox = Mailbox(lambda: self._connection.wake())
        topics = Topics(settings.control_root, settings.data_root)
        name, broker = settings.name, settings.broker
        self._cache = BlobCache(folder.blobs)
        spool = Spool(folder.spool, settings.hold_nbytes)
        link, trust = Link(), Trust(broker.authority, folder.authority)
        key = settings.desk_key
        self._obeyed = None if key is None else Obeyed(folder.obeyed, write_bytes(key))
        orders = Orders(key)
        inbound = Inbound(self._mailbox, topics, name, self._boot, __version__, spool, orders)
        frames = SpooledFrames(spool)
        self._courier = Courier(
            topics, name, frames, inbound, bound_nbytes=settings.hold_nbytes, link=link
        )
        self._connection = Connection(
            broker,
            client_id=name,
            first=(Subscription(topics.device(name, "state")),),
            then=(
                Subscription(topics.orchestrator_state),
                Subscription(topics.device(name, "assignment")),
                Subscription(topics.device(name, "commands")),
                Subscription(topics.inbox(name)),
            ),
            listener=inbound,
            policy=DEVICE,
            courier=self._courier,
            link=link,
            trust=trust,
        )
        self._fetcher = Fetcher(
            self._cache,
            link,
            inbound,
            lambda: self._connection.peer_host,
            broker.user,
            broker.secret,
            trust,
        )
        self._executor = Executor(self._cache, spool, link, inbound, self._note, settings.threads)
        sensors = Sensors(folder.path, Battery())
        self._telemetry = TelemetryReader(sensors, self._executor, spool, link)
        self._inbound = inbound
        self._outbound = Outbound(
            self._mailbox,
            topics,
            name,
            self._cache,
            spool,
            frames,
            self._fetcher,
            self._executor,
            self._courier,
            self._connection,
            inbound,
            self._obeyed,
        )
        self._sample_at = self._verify_at = 0.0
        self._connect_at: float | None = None
        self._steady_at = NEVER
        self.unclean = False

    def ask_to_stop(self, reason: str) -> None:
        """Safe to call from a signal handler: the main thread may hold the mailbox's lock there,
        so a thread of its own puts the event."""
        threading.Thread(target=self._stop, args=(reason,), name="stop", daemon=True).start()

    def _stop(self, reason: str) -> None:
        self._note.close()  # whoever asked may not wait for the end
        self._mailbox.put(StopAsked(reason))

    def run(self) -> int:
        """Until the machine says stop, the broker refuses us for good, or we are replaced."""
        cached = self._cache.scan()
        collect_and_trim()  # starting leaves some 0.7 MB behind
        self._executor.start()
        generation = self._obeyed.generation if self._obeyed is not None else 0
        self._handle(Started(self._boot, cached, self._note.last_work, generation))
        self._connect_at = time.monotonic() + self._replacements.pause_s
        self._say_pause()
        _log.info("agent %s: %d blobs cached", self._settings.name, len(cached))
        self._verify_at = time.monotonic() + VERIFY_S
        try:
            while not self._outbound.ended and self._inbound.failure is None:
                self._turn()
        finally:
            self._close()
            counts = ", ".join(f"{n} {word}" for word, n in self._machine.counts.items() if n)
            _log.info("ignored, dropped or failed in this boot: %s", counts or "nothing")
        failure = self._outbound.failure or self._inbound.failure
        if failure is not None:
            raise self._explained(failure)
        return 0

    def _say_pause(self) -> None:
        count, pause_s = self._replacements.count, self._replacements.pause_s
        if count:
            _log.warning(
                "%s, and took it over %s: waiting %.0f s before taking it back; %s",
                self._another,
                "once" if count == 1 else f"{count} times",
                pause_s,
                ONE_NAME,
            )

    @property
    def _another(self) -> str:
        return f"another agent uses the name {self._settings.name}"

    def _explained(self, failure: CrowdpipeError) -> CrowdpipeError:
        if not isinstance(failure, Replaced):
            return failure
        self._replacements.add()
        return Replaced(f"{self._another}: {ONE_NAME}")

    def _keep_name(self, now: float) -> None:
        """Connect when it is time to, and note when nobody else has had our name for long."""
        if self._connect_at is not None and now >= self._connect_at:
            self._connect_at = None
            self._steady_at = now + STEADY_S
            self._connection.open()
        if now >= self._steady_at:
            self._steady_at = NEVER
            self._replacements.clear()

    def _turn(self) -> None:
        """Wait for the network, the next event, or the next time that something is due; handle
        what has come. What that says goes out with the next turn, together."""
        courier_at = self._courier.wake_at()
        due_at = self._due_at() if courier_at is None else min(courier_at, self._due_at())
        self._connection.turn(max(0.0, due_at - time.monotonic()))
        self._take_mail()
        self._look_at_the_time(courier_at)
        self._take_mail()  # what this thread put itself wakes nobody

    def _take_mail(self) -> None:
        while events := self._mailbox.take():
            self._handle(*events)

    def _look_at_the_time(self, courier_at: float | None) -> None:
        """Act on what is due."""
        now = time.monotonic()
        self._keep_name(now)
        if now >= self._sample_at:
            self._sample_at = now + SAMPLE_S
            self._handle(TelemetryRead(self._telemetry.read()))
        if now >= self._verify_at:
            self._verify_at = now + VERIFY_S
            self._executor.verify_in_idle_time()
        if courier_at is not None and now >= courier_at:
            self._courier.expire(now)
        wake_at = self._machine.wake_at()
        if wake_at is not None and now >= wake_at:
            self._handle(Ticked())

    def _due_at(self) -> float:
        times = (self._machine.wake_at(), self._sample_at)
        ours = (self._verify_at, self._connect_at, self._steady_at)
        return min(time_s for time_s in (*times, *ours) if time_s is not None)

    def _handle(self, *events: Event) -> None:
        if any(isinstance(event, MOVING) for event in events):
            self._sample_at = min(self._sample_at, time.monotonic() + MOVED_SAMPLE_S)
        instructions = self._machine.handle_all(events, time.monotonic())
        if self._validated:
            self._machine.validate()
        explained = _log.isEnabledFor(logging.DEBUG)
        for instruction in instructions:
            if explained:
                _log.debug("%s, as %s", in_words(instruction), self._machine.cause)
            self._outbound.carry_out(instruction)

    def _close(self) -> None:
        """In order: what is said is said before the connection ends."""
        self._note.close()
        replaced = isinstance(self._outbound.failure, Replaced)
        try:
            self._connection.close(0.0 if replaced else DRAIN_S)
        except TimedOut as error:
            _log.warning("%s; it ends with the process", error)
        self._fetcher.close()
        if not self._executor.close(0.0 if self._outbound.stuck else DRAIN_S):
            _log.warning("what ONNX Runtime was doing does not end; it is given up")
            self.unclean = True


class StopSignals:
    """SIGTERM, SIGINT and a closed terminal ask for an orderly end once; a second one ends at
    once. Under nohup a closed terminal is none of our business."""

    def __init__(self, shell: AgentShell) -> None:
        self._shell = shell
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        for number in (signal.SIGTERM, signal.SIGINT, *(() if nohup else (signal.SIGHUP,))):
            self._before[number] = signal.signal(number, self._asked)

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        self._restore()
        self._shell.ask_to_stop(f"asked by {signal.Signals(number).name}")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __exit__(self, *exc: object) -> None:
        self._restore()
