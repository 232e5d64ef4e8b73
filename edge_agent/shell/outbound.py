"""The machine's instructions, carried out by the adapters. One function each, none waits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from bus.connection import Connection
from bus.courier import Courier
from edge_agent.adapters.runtime.executor import Executor
from edge_agent.adapters.runtime.executor_answers import LoadJob
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.fetch import Fetcher
from edge_agent.adapters.store.obeyed import Obeyed
from edge_agent.adapters.store.spool import Spool
from edge_agent.machine.records.events import BlobsRemoved
from edge_agent.machine.records.instructions import (
    CancelFetch,
    Execute,
    FetchBlob,
    ForgetFrame,
    GiveUp,
    Instruction,
    Load,
    ObeyAssignment,
    PublishEvents,
    PublishResidency,
    PublishState,
    PublishTelemetry,
    RememberGeneration,
    RemoveBlobs,
    SendFrame,
    StayDisconnected,
    Stop,
    Unload,
)
from edge_agent.shell.inbound import Inbound
from edge_agent.shell.mailbox import Mailbox
from edge_agent.shell.spooled_frames import SpooledFrames
from wire.errors import CrowdpipeError, QueueFull, Replaced, from_kind
from wire.outbox import Message
from wire.record import encode
from wire.topics import JSON_CONTENT_TYPE, Topics

_log = logging.getLogger("crowdpipe.agent")


class Outbound:
    """`ended` is true once the machine instruction that everything is over, `failure` why if badly.
    `stuck`: a thread of ONNX Runtime will never end."""

    def __init__(
        self,
        mailbox: Mailbox,
        topics: Topics,
        name: str,
        cache: BlobCache,
        spool: Spool,
        frames: SpooledFrames,
        fetcher: Fetcher,
        executor: Executor,
        courier: Courier,
        connection: Connection,
        inbound: Inbound,
        obeyed: Obeyed | None,
    ) -> None:
        self._mailbox = mailbox
        self._topics = topics
        self._name = name
        self._cache = cache
        self._spool = spool
        self._fetcher = fetcher
        self._executor = executor
        self._frames = frames
        self._courier = courier
        self._connection = connection
        self._inbound = inbound
        self._obeyed = obeyed
        self.ended = self.stuck = False
        self.failure: CrowdpipeError | None = None
        self._actions: dict[type, Callable[[Any], None]] = {
            FetchBlob: lambda each: fetcher.fetch(each.blob, each.store_base),
            CancelFetch: lambda each: fetcher.cancel(each.digest),
            RemoveBlobs: self._remove_blobs,
            Load: self._load,
            Unload: lambda each: executor.unload(each.number, each.partition),
            Execute: self._execute,
            SendFrame: self._send_frame,
            ForgetFrame: self._forget_frame,
            ObeyAssignment: self._obey_assignment,
            RememberGeneration: self._remember_generation,
            PublishState: lambda each: self._publish("state", each.state),
            PublishResidency: lambda each: self._publish("residency", each.residency),
            PublishEvents: lambda each: self._publish("events", each.batch),
            PublishTelemetry: lambda each: self._publish("telemetry", each.telemetry),
            StayDisconnected: self._stay_disconnected,
            GiveUp: self._give_up,
            Stop: self._stop,
        }

    def carry_out(self, instruction: Instruction) -> None:
        self._actions[type(instruction)](instruction)

    def _load(self, instruction: Load) -> None:
        self._executor.load(
            LoadJob(
                instruction.number,
                instruction.assigned,
                instruction.streamed,
                instruction.budget_nbytes,
                instruction.prepare_nbytes,
            )
        )

    def _execute(self, instruction: Execute) -> None:
        group = tuple((each.task, each.sender) for each in instruction.group)
        self._executor.execute(instruction.number, instruction.assigned, group)

    def _remove_blobs(self, instruction: RemoveBlobs) -> None:
        try:
            self._cache.remove(instruction.digests)
        except OSError as error:  # what cannot be removed lies there still, and is scanned at start
            _log.warning("cannot remove what is cached: %s", error)
        self._mailbox.put(BlobsRemoved(instruction.digests))

    def _send_frame(self, instruction: SendFrame) -> None:
        """What we need ourselves does not take the way through the broker."""
        at = instruction.activation
        if instruction.to == self._name:
            self._frames.loop_back(at, self._name, self._inbound)
            return
        try:
            self._courier.send(instruction.to, at, self._frames.output(at))
        except QueueFull as error:  # the orchestrator misses it, and asks for it
            _log.error("not sent to %s: %s", instruction.to, error)

    def _forget_frame(self, instruction: ForgetFrame) -> None:
        if instruction.side == "output":
            self._courier.forget(instruction.activation)
        at = instruction.activation
        self._spool.forget(at, instruction.side, instruction.sender, instruction.number)

    def _obey_assignment(self, instruction: ObeyAssignment) -> None:
        assignment = instruction.assignment
        served = ", ".join(str(entry.partition) for entry in assignment.partitions) or "nothing"
        _log.info("assignment %d.%d: serve %s", *assignment.stamp, served)
        self._courier.limit_reassembly(assignment.limits.reassembly_s)

    def _remember_generation(self, instruction: RememberGeneration) -> None:
        """Not without a key: then anybody's word would count as the desk's, for ever."""
        if self._obeyed is not None:
            self._obeyed.remember(instruction.generation)

    def _publish(self, leaf: str, record: Any) -> None:
        """At the outbox's bound it is dropped: the machine repeats events until they are
        acknowledged, and what is retained with its next change."""
        message = Message(
            topic=self._topics.device(self._name, leaf),
            payload=encode(record),
            qos=0 if leaf == "telemetry" else 1,
            retain=leaf != "events",
            content_type=JSON_CONTENT_TYPE,
            coalesce=leaf in ("residency", "telemetry"),
        )
        try:
            self._connection.publish(message)
        except QueueFull as error:
            _log.warning("%s", error)

    def _stay_disconnected(self, instruction: StayDisconnected) -> None:
        self.failure = Replaced(instruction.reason)
        self.ended = True

    def _give_up(self, instruction: GiveUp) -> None:
        self.failure = from_kind(instruction.kind, instruction.reason)
        self.ended = self.stuck = True

    def _stop(self, instruction: Stop) -> None:
        _log.info("stopping: %s", instruction.reason)
        self.ended = True
