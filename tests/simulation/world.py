"""Both machines in one process: an orchestrator, agents, a client and a broker, in virtual time.

After every step the invariants of the design that can be seen from outside are checked: results
equal the whole model's (1), one outcome per item (2), one resident partition (3), outputs kept
until released and inputs until the outcome (5, 6), bounds kept (7).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random

from orchestrator.machine.records import events as ev
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.planner.offers import Offer
from orchestrator.planner.partitioning import partition
from tests.simulation import tensors
from tests.simulation.clockwork import Clockwork
from tests.simulation.liar import Liar
from tests.simulation.network import Broker, Weather
from tests.simulation.virtual_agent import COMPUTE_S, VirtualAgent
from tests.simulation.virtual_client import RESULT, ClientRun, VirtualClient
from tests.simulation.virtual_executor import FRAME_NBYTES, FRAME_RAW_NBYTES
from tests.simulation.virtual_orchestrator import VirtualOrchestrator
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.errors import FleetTooSmall, NoDevice
from wire.frame_head import FrameHead
from wire.ids import ActivationId, PartitionId, TaskId
from wire.manifest import Manifest
from wire.memory import resident_need
from wire.messages import commands as cmd
from wire.messages.requests import RunOptions
from wire.messages.state import Capabilities
from wire.topics import ORCHESTRATOR

SOON_S = 1e-6  # floating point
CLIENT = "clients/ann/s1"


def capabilities(memory_nbytes: int, disk_nbytes: int, hold_nbytes: int) -> Capabilities:
    return Capabilities(memory_nbytes, disk_nbytes, hold_nbytes, 2, "x86_64", "1.20", 20)


def _offer(agent: VirtualAgent) -> Offer:
    able = agent.capabilities
    return Offer(
        budget_nbytes=able.memory_budget_nbytes,
        hold_nbytes=able.hold_nbytes,
        disk_nbytes=able.disk_budget_nbytes,
        max_opset=able.max_opset,
        cost_per_s=1e9,
        link_nbytes_per_s=1e6,
        device=agent.name,
    )


class World:
    def __init__(
        self,
        *memory_mb: int,
        segments: int = 6,
        options: OrchestratorOptions | None = None,
        seed: int = 0,
        disk_mb: int = 200,
        hold_nbytes: int = 1 << 20,
        manifest: Manifest | None = None,
        part_nbytes: int | None = None,
        validate_every: int = 1,
    ) -> None:
        """An agent for each of `memory_mb`; each segment weighs 10 MB, and a little more when it
        is loaded. What loading takes for the moment comes on top, so that it changes no plan. The
        orchestrator handles what comes together at once if the seed is odd."""
        self.clock = Clockwork()
        self.broker = Broker(self.clock)
        self.random = Random(seed)
        self.manifest = manifest or tiny_manifest(weights=[10 * MB] * segments)
        self.store_up = self.model_there = True
        self.disk_full = False
        self.deadly: Callable[[str, TaskId | PartitionId], bool] = lambda device, work: False
        self.removed: set[str] = set()
        self.part_nbytes = part_nbytes
        self._validate_every, self._events = validate_every, 0
        self.furthest: dict[tuple[str, int], int] = {}
        self.orchestrator = VirtualOrchestrator(
            self, options or OrchestratorOptions(), gathers=seed % 2 == 1
        )
        self.agents = [
            VirtualAgent(self, f"phone{i}", self._able(mb, disk_mb, hold_nbytes), 1000.0 * i)
            for i, mb in enumerate(memory_mb)
        ]
        self.orchestrator.start()
        for agent in self.agents:
            agent.start()
        self.client = VirtualClient(self, CLIENT)
        self.liar = Liar(self)
        self.clock.after_each.append(self.check)
        self.clock.run_for(1.0)

    def _able(self, memory_mb: int, disk_mb: int, hold_nbytes: int) -> Capabilities:
        fitting = max(1, memory_mb // 11)
        memory_nbytes = resident_need([self.manifest.segments[0]] * fitting)
        return capabilities(memory_nbytes, disk_mb * MB, hold_nbytes)

    # what shells ask

    def received(self, device: str, activation: ActivationId) -> None:
        key = (activation.run, activation.item)
        self.furthest[key] = max(self.furthest.get(key, -1), activation.cut)

    def check_sent(self, value: str, activation: ActivationId) -> None:
        """Invariant 1, on the way: each activation is what its cut has in the whole model."""
        fed = tensors.feed(activation.run, activation.item)
        assert value == tensors.through(fed, 0, activation.cut - 1), f"{activation} is wrong"

    def ends(self, device: str, work: TaskId | PartitionId) -> bool:
        return self.deadly(device, work)

    def check_release(self, device: str, command: cmd.Release) -> None:
        """Rule 5: the next output has come to its dependent, or the outcome is on disk. An item
        sent home begins again from its input, which is on disk until then; and an output at a cut
        that the plan has no more leads nowhere, nor one of a device without a place."""
        for item in command.items:
            beyond = self.furthest.get((command.run, item), -1) > command.cut
            ended = (command.run, item) in self.orchestrator.journal.ever
            home = self._is_home(command.run, item) or self._is_astray(device, command, item)
            what = f"{command.run}/{item}@{command.cut}"
            assert beyond or ended or home, f"{what} is released too soon"

    def _is_home(self, run: str, item: int) -> bool:
        known = self.orchestrator.machine.state.item(run, item)
        journaled = self.orchestrator.journal.runs.get(run)
        stored = journaled is not None and item in journaled.inputs
        return known is not None and stored and self._was_home(known)

    def _was_home(self, item: Item) -> bool:
        """When the release was decided: releases gather for a moment before they go out."""
        gathering_s = self.orchestrator.options.coalesce_s + SOON_S
        aside = item.state in ("stored", "suspect")
        return aside or self.clock.now - item.life.since <= gathering_s

    def _is_astray(self, device: str, command: cmd.Release, item: int) -> bool:
        state = self.orchestrator.machine.state
        known = state.item(command.run, item)
        plan = state.plan_of(known) if known is not None else None
        journaled = self.orchestrator.journal.runs.get(command.run)
        stored = journaled is not None and item in journaled.inputs
        if plan is None or not stored:
            return False
        unplaced = not state.places.makes(device, plan.key, command.cut)
        return unplaced or command.cut not in plan.cuts

    def check_failure(self, run: str, item: int, kind: str, reason: str) -> None:
        """That no device was there is only right if none was, for as long as one is waited for,
        while somebody listened and an item of the run was there."""
        if kind != NoDevice.kind:
            return
        known = self.client.runs[run]
        told_at, heard_since = self.orchestrator.ended[run, item]
        since = told_at - self.orchestrator.options.no_device_s + SOON_S
        assert heard_since <= since, f"{run}/{item}: {reason}; but nobody listened for so long"
        came_at = min(self.orchestrator.journal.runs[run].came_at.values())
        assert came_at <= since, f"{run}/{item}: {reason}; but its run came a moment ago"
        there = [a for a in self.agents if a.up_since is not None and a.up_since <= since]
        offers = [_offer(agent) for agent in there]
        with contextlib.suppress(NoDevice, FleetTooSmall):
            partition(self.manifest, offers, known.options.partitions)
            names = [agent.name for agent in there]
            raise AssertionError(f"{run}/{item}: {reason}; but {names} were there all the time")

    def is_to_validate(self) -> bool:
        """Whether the machine that handled an event is to look for contradictions now: that takes a
        third of all the time, and one stays until it is seen."""
        self._events += 1
        return self._events % self._validate_every == 0

    def check(self) -> None:
        self.orchestrator.check()
        for agent in self.agents:
            agent.check()

    # what tests ask

    def submit(
        self, name: str = "r1", items: int = 6, attached: int = 0, **options: object
    ) -> ClientRun:
        if not self.model_there:
            self.removed.add(name)
        return self.client.submit(name, items, RunOptions(**options), attached)  # type: ignore[arg-type]  # as given

    def complete(self, *runs: ClientRun, limit_s: float = 120.0) -> float:
        """Until these are over; seconds that took."""
        began = self.clock.now
        done = self.clock.run_for(limit_s, lambda: all(run.over for run in runs))
        assert done, f"after {limit_s} s: {[self.describe(run) for run in runs]}"
        return self.clock.now - began

    def succeed(self, *runs: ClientRun, limit_s: float = 120.0) -> float:
        took_s = self.complete(*runs, limit_s=limit_s)
        for run in runs:
            assert run.rejected is None, run.rejected
            assert set(run.outcomes.values()) == {RESULT}, run.reasons
        return took_s

    def describe(self, run: ClientRun) -> str:
        return f"{run.name}: {len(run.outcomes)} of {run.items} are over, {run.outcomes}"

    def calm(self) -> None:
        """No more faults: everybody is there, nothing is lost."""
        self.broker.weather = Weather()
        self.store_up = True
        self.disk_full = False
        self.bring_model()
        if not self.orchestrator.running:
            self.orchestrator.start()
        for agent in self.agents:
            agent.faults.clear()
            agent.still.end()
            agent.compute_s = COMPUTE_S
            if not agent.running:
                agent.start()

    def bring_model(self) -> None:
        if not self.model_there:
            self.model_there = True
            self.orchestrator.feed(ev.ModelAdded(self.manifest))

    def remove_model(self) -> None:
        """Its runs end; what of them is over already stays as it is."""
        if self.model_there:
            self.model_there = False
            self.removed |= self.client.runs.keys()
            self.orchestrator.feed(ev.ModelRemoved(self.manifest.name))

    def forget(self, device: str) -> None:
        self.orchestrator.feed(ev.ForgetAsked(device))

    def stray(self, which: int, cut: int, count: int, run: str = "stray") -> None:
        """Frames that nobody reserved room for, of a run that the orchestrator does not know."""
        for item in range(count):
            at = ActivationId(run, item, cut)
            head = FrameHead(
                self.manifest.digest,
                at,
                0,
                exact=False,
                barrier=False,
                nbytes=FRAME_NBYTES,
                raw_nbytes=FRAME_RAW_NBYTES,
            )
            value = tensors.through(tensors.feed(at.run, at.item), 0, cut - 1)
            self.orchestrator.courier.send(self.agents[which].name, head, value)

    def lie(self, what: str, run: str, item: int, cut: int, which: int) -> None:
        """An idle device says something of an item that is none of its own. A `cut` beyond the
        last segment stands for the result. Nobody can know the id of a run before its client has
        told it to us."""
        if not self.client.runs[run].accepted:
            return
        last = len(self.manifest.segments) - 1
        at = ActivationId(run, item, min(cut, last + 1))
        exact = self.client.runs[run].options.exact
        to = ORCHESTRATOR if at.cut > last else self.agents[which].name
        self.liar.lie(what, at, to, last, exact)

    def break_broker(self, keep_retained: bool) -> None:
        self.broker.crash(keep_retained)
        self.orchestrator.lose_broker()
        for agent in self.agents:
            agent.lose_broker()

    def rest(self, limit_s: float = 200.0) -> None:
        """Once all is over, nothing of it is left on any device."""
        at_rest = self.clock.run_for(limit_s, lambda: all(map(self._is_at_rest, self.agents)))
        left = {
            agent.name: (sorted(map(str, agent.spool)), agent.memory and agent.memory.partition)
            for agent in self.agents
            if not self._is_at_rest(agent)
        }
        assert at_rest, f"left behind: {left}"

    def _is_at_rest(self, agent: VirtualAgent) -> bool:
        state = self.orchestrator.machine.state
        return agent.at_rest(state.published.get(agent.name), state.generation)
