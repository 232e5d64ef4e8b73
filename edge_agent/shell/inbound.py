"""What adapters report, as the machine's events. Runs in the adapters' threads, decides nothing.

Bytes from the network are decoded here and refused with a log line when they are not what the
format says: a malformed message must not end the agent, nor be believed.
"""

from __future__ import annotations

import logging

from bus.listener import InboundMessage
from edge_agent.adapters.runtime.executor_answers import Executed, Loaded
from edge_agent.adapters.runtime.frame_tensors import OutputTooLarge
from edge_agent.adapters.store.spool import FrameMissing, Spool
from edge_agent.machine.records.events import (
    AssignmentArrived,
    BlobFetched,
    BlobsRemoved,
    CommandsArrived,
    Connected,
    Disconnected,
    ExecutionFailed,
    FetchFailed,
    FetchProgressed,
    FrameArrived,
    FrameLost,
    LoadRefused,
    OrchestratorSeen,
    OrderRefused,
    PartitionGone,
    PartitionReady,
    SegmentsPrepared,
    StateCleared,
    TaskExecuted,
)
from edge_agent.shell.mailbox import Mailbox
from edge_agent.shell.orders import Orders
from wire.errors import CrowdpipeError, Refused
from wire.frame_head import FrameHead
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages.assignment import Assignment
from wire.messages.commands import CommandBatch
from wire.messages.state import DeviceState, OrchestratorState
from wire.outbox import Message
from wire.record import decode, encode
from wire.topics import JSON_CONTENT_TYPE, Topics
from wire.versions import OURS

_log = logging.getLogger("crowdpipe.agent")


class Inbound:
    """The listener of connection, courier, fetcher and executor in one."""

    def __init__(
        self,
        mailbox: Mailbox,
        topics: Topics,
        name: str,
        boot: str,
        agent_version: str,
        spool: Spool,
        orders: Orders,
    ) -> None:
        self._mailbox = mailbox
        self._topics = topics
        self._name = name
        self._boot = boot
        self._agent_version = agent_version
        self._spool = spool
        self._orders = orders
        self._own_state: DeviceState | None = None
        self.failure: CrowdpipeError | None = None
        self._readers = {
            topics.device(name, "state"): self._own_state_seen,
            topics.device(name, "assignment"): self._assignment,
            topics.device(name, "commands"): self._commands,
            topics.orchestrator_state: self._orchestrator_state,
        }

    # --- the connection -----------------------------------------------------------------------

    def will(self, connection: str) -> Message:
        self._own_state = None
        state = DeviceState(
            status="offline",
            connection=connection,
            boot=self._boot,
            agent_version=self._agent_version,
            wire_version=OURS.newest,
            oldest_wire_version=OURS.oldest,
            reason="the connection was lost",
        )
        topic = self._topics.device(self._name, "state")
        return Message(topic, encode(state), retain=True, content_type=JSON_CONTENT_TYPE)

    def connected(self, connection: str, reconnect: bool) -> None:
        self._mailbox.put(Connected(connection, reconnect, self._own_state))

    def disconnected(self, reason: str) -> None:
        _log.warning("not connected: %s", reason)
        self._mailbox.put(Disconnected(reason))

    def received(self, message: InboundMessage) -> None:
        try:
            read = self._readers[message.topic]
            if read == self._own_state_seen or self._is_order(message):
                read(message)
        except CrowdpipeError as error:
            _log.warning("refused a message on %s: %s", message.topic, error)
        except KeyError:
            _log.warning("a message on %s, which we did not ask for", message.topic)

    def _is_order(self, message: InboundMessage) -> bool:
        """Whether it is the desk's; what is none is counted. One without a payload says nothing."""
        fault = self._orders.fault(message) if message.payload else None
        if fault is not None:
            _log.warning(
                "not obeyed on %s: it is %s, not by the desk we know", message.topic, fault
            )
            self._mailbox.put(OrderRefused(fault))
        return bool(message.payload) and fault is None

    def refused(self, topic: str, error: CrowdpipeError) -> None:
        """What we may not say about ourselves ends us; a frame to somebody is that frame's end,
        and the orchestrator will miss it."""
        if self._topics.is_data(topic) or not isinstance(error, Refused):
            _log.error("%s", error)
        else:
            self.ended(Refused(f"{error}; is {self._name!r} the user in the broker's address?"))

    def ended(self, error: CrowdpipeError) -> None:
        self.failure = self.failure or error
        self._mailbox.wake()

    def _own_state_seen(self, message: InboundMessage) -> None:
        """Of our own messages only what was retained before tells anything. An empty one says
        that somebody cleared it."""
        if not message.payload:
            self._mailbox.put(StateCleared())
        elif message.retained:
            self._own_state = decode(DeviceState, message.payload)

    def _assignment(self, message: InboundMessage) -> None:
        self._mailbox.put(AssignmentArrived(decode(Assignment, message.payload)))

    def _commands(self, message: InboundMessage) -> None:
        self._mailbox.put(CommandsArrived(decode(CommandBatch, message.payload)))

    def _orchestrator_state(self, message: InboundMessage) -> None:
        state = decode(OrchestratorState, message.payload)
        self._mailbox.put(OrchestratorSeen(state, message.retained))

    # --- the courier --------------------------------------------------------------------------

    def frame_arrived(self, sender: str, header: FrameHead) -> None:
        self._mailbox.put(FrameArrived(header, sender, self._spool.inputs))

    def frame_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None:
        self._mailbox.put(FrameLost(activation, error.kind, error.reason, sender))

    def frame_given_up(self, to: str, activation: ActivationId, error: CrowdpipeError) -> None:
        self._mailbox.put(FrameLost(activation, error.kind, error.reason, self._name))

    # --- fetching -----------------------------------------------------------------------------

    def blob_progressed(self, digest: str, nbytes: int) -> None:
        self._mailbox.put(FetchProgressed(digest, nbytes))

    def blob_fetched(self, digest: str, nbytes: int, fetch_s: float) -> None:
        self._mailbox.put(BlobFetched(digest, nbytes, fetch_s))

    def blob_failed(self, digest: str, error: CrowdpipeError, retryable: bool) -> None:
        _log.warning("fetching %s failed: %s", digest[:12], error)
        self._mailbox.put(FetchFailed(digest, error.kind, error.reason, retryable))

    # --- the executor -------------------------------------------------------------------------

    def segments_prepared(self, prepared: dict[str, int]) -> None:
        self._mailbox.put(SegmentsPrepared(prepared))

    def partition_ready(self, number: int, partition: PartitionId, loaded: Loaded) -> None:
        how = "streamed" if loaded.streamed else "resident"
        _log.info(
            "loaded %s in %.2f s, %s, after %.2f s of preparing",
            partition,
            loaded.load_s,
            how,
            loaded.prepare_s,
        )
        self._mailbox.put(
            PartitionReady(
                number,
                partition,
                loaded.streamed,
                loaded.load_s,
                loaded.rss_before_nbytes,
                loaded.rss_nbytes,
                loaded.prepare_s,
            )
        )

    def load_refused(
        self, number: int, partition: PartitionId, error: CrowdpipeError, corrupt: tuple[str, ...]
    ) -> None:
        _log.error("cannot load %s: %s", partition, error)
        self._mailbox.put(LoadRefused(number, partition, error.kind, error.reason, corrupt))

    def partition_gone(
        self, number: int, partition: PartitionId, evict_s: float, rss_nbytes: int
    ) -> None:
        _log.info("evicted %s in %.2f s", partition, evict_s)
        self._mailbox.put(PartitionGone(number, partition, evict_s, rss_nbytes))

    def task_executed(self, number: int, task: TaskId, executed: Executed) -> None:
        _log.debug("executed %s in %.3f s", task, executed.compute_s)
        self._mailbox.put(
            TaskExecuted(
                number=number,
                task=task,
                emitted=executed.emitted,
                decode_s=executed.decode_s,
                compute_s=executed.compute_s,
                encode_s=executed.encode_s,
                segment_s=executed.segment_s,
                began_s=executed.began_s,
            ),
            wake=False,
        )

    def execution_failed(
        self, number: int, task: TaskId, error: CrowdpipeError, fatal: bool
    ) -> None:
        # Without its input it was cancelled, or its group abandoned, before its turn came.
        level = logging.INFO if isinstance(error, FrameMissing) else logging.ERROR
        _log.log(level, "task %s failed: %s", task, error)
        made = error.made if isinstance(error, OutputTooLarge) else ()
        failed = ExecutionFailed(number, task, error.kind, error.reason, fatal, made)
        self._mailbox.put(failed, wake=False)

    def told(self) -> None:
        self._mailbox.wake()

    def blob_rotten(self, digest: str) -> None:
        _log.error("the cached blob %s has rotted on disk; it was removed", digest[:12])
        self._mailbox.put(BlobsRemoved((digest,)))
