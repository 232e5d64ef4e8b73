"""All that the machine knows, in one place; the modules beside it read and change it.

Nothing here decides. `emit` collects instructions in the order in which they are to be carried
out: records for the journal and answers first, then assignments, then commands, then inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from orchestrator.machine.records.command_queue import CommandQueue
from orchestrator.machine.records.device import Device, Registry
from orchestrator.machine.records.instructions import Instruction, Respond, SendInput
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.machine.records.plan import Plan, PlanKey
from orchestrator.machine.records.run import Run
from orchestrator.planner.estimates import Estimates
from wire.errors import UnknownModel
from wire.manifest import Manifest
from wire.messages.assignment import Assignment
from wire.messages.commands import Report
from wire.messages.requests import Response

TOMBSTONES_LIMIT = 1000  # ids of forgotten runs that are still known to have been
REPORT_EVERY_S = 2.0


class State:
    """`gathering`: runs whose first inputs are still coming. `counts` tells what was dropped or
    refused, by name. `tombstones` are ids of forgotten runs, with kind and reason of what to answer
    to those who still ask. `revisions`: the last that forgotten devices were told, one for each
    that a person named."""

    def __init__(self, options: OrchestratorOptions) -> None:
        self.options = options
        self.now = 0.0
        self.boot = ""
        self.generation = 0
        self.store_base = ""
        self.started = False
        self.connection: str | None = None
        self.liveness_dirty = True
        self.liveness_at = float("inf")
        self.met_broker = False
        self.raising = 0  # the generation that ours is being raised above
        self.settle_until = float("-inf")
        self.models_looked_at = False
        self.models_by = float("inf")  # when every model in the store has been told
        self.heard_at = float("-inf")  # since when nothing kept us from hearing devices
        self.models: dict[str, Manifest] = {}
        self.manifests: dict[str, Manifest] = {}
        self.devices = Registry()
        self.plans: dict[PlanKey, Plan] = {}
        self.runs: dict[str, Run] = {}
        self.gathering: dict[str, Run] = {}
        self.turn = 0
        self.pings = 0
        self.estimates = Estimates()
        self.commands = CommandQueue(options.coalesce_s)
        self.counts: Counter[str] = Counter()
        self.clear_at: dict[str, float] = {}
        self.tombstones: dict[str, tuple[str, str]] = {}
        self.published: dict[str, Assignment] = {}
        self.revisions: dict[str, int] = {}
        self.assignments_dirty = False
        self.out: list[Instruction] = []
        self.inputs: list[SendInput] = []

    def emit(self, instruction: Instruction) -> None:
        self.out.append(instruction)

    def respond(self, party: str, response: Response) -> None:
        self.emit(Respond(party, response))

    def item(self, run: str, index: int) -> Item | None:
        known = self.runs.get(run)
        return known.items.get(index) if known is not None else None

    def model_named(self, name: str) -> Manifest:
        """By its name; `UnknownModel` with the names there are."""
        if name in self.models:
            return self.models[name]
        listed = ", ".join(sorted(self.models)) or "none yet: add one with `crowdpipe model add`"
        raise UnknownModel(f"there is no model '{name}'; there is {listed}")

    def plan_of(self, item: Item) -> Plan | None:
        run = self.runs.get(item.run)
        return self.plans.get(run.plan_key) if run is not None else None

    def in_flight(self) -> Iterator[tuple[Plan, Item]]:
        """Every admitted item with its plan."""
        for plan in self.plans.values():
            for item in list(plan.in_flight.values()):
                yield plan, item

    def engaged(self) -> set[str]:
        """Devices that hold tasks or frames, or are about to."""
        busy: set[str] = set()
        for plan in self.plans.values():
            if plan.in_flight:
                busy.update(plan.devices())
        for _, item in self.in_flight():
            busy.update(item.holders())
        return busy

    def wanting(self) -> bool:
        """Whether any run has work that is not done."""
        return any(run.items for run in self.runs.values() if run.attended)

    def fresh(self, device: Device) -> bool:
        """Heard of within the lease; an idle device that is not must answer a ping first."""
        return self.now - max(device.last_life, self.heard_at) <= self.options.lease_s

    def usable(self, device: Device) -> bool:
        """May be given work now."""
        return (
            device.life.state == "alive"
            and device.capabilities is not None
            and (self.fresh(device))
        )

    def ask_report(self, device: Device) -> None:
        """Have it say what it holds, at most once in a while."""
        if device.reachable and self.now - device.reported_at >= REPORT_EVERY_S:
            device.reported_at = self.now
            self.commands.post(device.name, Report())

    def close_barriers(self, run: str | None = None) -> None:
        """Something was placed or received anew: look at every cut of the run (or of all)."""
        for each in self.runs.values():
            if run in (None, each.run):
                each.opened_cuts.clear()

    def leave_tombstone(self, run: str, kind: str, reason: str) -> None:
        """Remember how it ended, for a client that did not hear it."""
        self.tombstones[run] = (kind, reason)
        while len(self.tombstones) > TOMBSTONES_LIMIT:
            del self.tombstones[next(iter(self.tombstones))]
