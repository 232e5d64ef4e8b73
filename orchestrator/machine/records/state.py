"""All that the machine knows, in one place; the modules beside it read and change it.

Nothing here decides. `emit` collects instructions in the order in which they are to be carried
out: records for the journal and answers first, then assignments, then commands, then inputs.
"""

from __future__ import annotations

from collections import Counter

from orchestrator.machine.records.agenda import Agenda
from orchestrator.machine.records.cause import in_words
from orchestrator.machine.records.command_queue import CommandQueue
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.devices import Devices
from orchestrator.machine.records.input_budget import InputBudget
from orchestrator.machine.records.instructions import (
    ForgetInputs,
    Instruction,
    Respond,
    SendInput,
)
from orchestrator.machine.records.item import Involved, Item
from orchestrator.machine.records.models import Models
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.machine.records.places import Places
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.plans import Plans
from orchestrator.machine.records.quotas import Quotas
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.runs import Runs
from orchestrator.machine.records.search import Searches
from orchestrator.machine.records.settling import Settling
from orchestrator.planner.estimates import Estimates
from wire.errors import UnknownModel
from wire.frame_head import ATTEMPTS
from wire.lifecycle import Cause
from wire.manifest import Manifest
from wire.messages.assignment import Assignment
from wire.messages.commands import Report
from wire.messages.requests import Response

TOMBSTONES_LIMIT = 1000  # forgotten runs, and devices, that are still known to have been
REPORT_EVERY_S = 2.0
GENERATIONS = 4_000_000  # after so many attempts begin anew: a frame has 32 bits for one


class State:
    def __init__(self, options: OrchestratorOptions) -> None:
        self.options = options
        self.now = 0.0
        self.boot = ""
        self.generation = 0  # on disk before anybody is told
        self.store_base = ""
        self.connection: str | None = None
        self.met_broker = False
        self.raising = 0  # the generation that ours is being raised above
        self.settling = Settling()
        self.orphans_looked_at = False  # devices that serve a model which did not come back
        self.models_by = float("inf")  # when every model in the store has been told
        self.models = Models()  # by name
        self.manifests = self.models.by_digest
        self.agenda = Agenda()
        self.budget = InputBudget(options.input_spool_nbytes, options.user_spool_share, self.agenda)
        self.cause = Cause(in_words)
        self.devices = Devices(self.agenda, options.lease_s, self.cause)
        self.plans = Plans(self.agenda)
        self.places = Places()
        self.runs = Runs(self.agenda, self.budget)
        self.involved = Involved()
        self.searches = Searches()
        self.quotas = Quotas(options)
        self.gathering: dict[str, Run] = {}  # their attached inputs are still coming
        self.pings = 0
        self.estimates = Estimates()
        self.commands = CommandQueue(options.coalesce_s)
        self.counts: Counter[str] = Counter()  # what was dropped or refused, by name
        # Ids of forgotten runs, with user, kind and reason: what to answer to those of that user's
        # who still ask.
        self.tombstones: dict[str, tuple[str, str, str]] = {}
        self.contested: dict[str, float] = {}  # names that two agents use, and until when we say so
        self.contested_said: tuple[str, ...] = ()
        self.clear_at: dict[str, float] = {}  # when progress of forgotten runs is cleared
        self.published: dict[str, Assignment] = {}  # as each device was told last
        # The last revision that forgotten devices were told, the newest last.
        self.revisions: dict[str, int] = {}
        self.out: list[Instruction] = []
        self.inputs: list[SendInput] = []
        self.unneeded: dict[str, list[int]] = {}  # stored inputs of items with an outcome, by run

    def advance(self, now: float) -> None:
        """The time never falls."""
        self.now = self.devices.now = max(now, self.now)

    @property
    def heard_at(self) -> float:
        """Since when nothing kept us from hearing devices and clients."""
        return self.devices.heard_at

    @property
    def first_attempt(self) -> int:
        """Above any that an orchestrator of a lower generation gave, until they begin anew."""
        return self.generation % GENERATIONS * ATTEMPTS

    def emit(self, instruction: Instruction) -> None:
        self.out.append(instruction)

    def forget_input(self, run: str, item: int) -> None:
        """Its outcome is on disk."""
        self.unneeded.setdefault(run, []).append(item)

    def take_out(self) -> list[Instruction]:
        """All but inputs and commands. What is forgotten first: its run may go in the same step."""
        unneeded, self.unneeded = self.unneeded, {}
        out, self.out = self.out, []
        return [*(ForgetInputs(run, tuple(items)) for run, items in unneeded.items()), *out]

    def take_inputs(self) -> list[SendInput]:
        inputs, self.inputs = self.inputs, []
        return inputs

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

    def in_flight_on(self, device: str) -> list[tuple[Plan, Item]]:
        """Admitted items that the device may hold something of, each with its plan."""
        pairs = [(self.plan_of(item), item) for item in self.involved.of(device)]
        return [
            (plan, item) for plan, item in pairs if plan is not None and item.key in plan.in_flight
        ]

    def is_engaged(self, device: Device) -> bool:
        """It holds tasks or frames, or is about to."""
        name = device.name
        if any(plan.in_flight and name in plan.devices() for plan in self.plans.on(name)):
            return True
        return any(name in item.holders() for _, item in self.in_flight_on(name))

    def usable(self, device: Device) -> bool:
        """May be given work now."""
        return self.devices.is_usable(device)

    def ask_report(self, device: Device) -> None:
        """Have it say what it holds, at most once in a while."""
        if device.reachable and self.now - device.reported_at >= REPORT_EVERY_S:
            device.reported_at = self.now
            self.commands.post(device.name, Report())

    def keep_revision(self, device: str, revision: int) -> None:
        """Of a device that is forgotten. One of which it is not known any more says it itself."""
        self.revisions.pop(device, None)
        self.revisions[device] = revision
        while len(self.revisions) > TOMBSTONES_LIMIT:
            del self.revisions[next(iter(self.revisions))]

    def tombstone_of(self, run: str, user: str) -> tuple[str, str] | None:
        """Kind and reason of how the user's run ended, if that is remembered."""
        found = self.tombstones.get(run)
        return found[1:] if found is not None and found[0] == user else None

    def leave_tombstone(self, run: Run, kind: str, reason: str) -> None:
        """Remember how it ended, for a client that did not hear it."""
        self.tombstones[run.run] = (run.user, kind, reason)
        while len(self.tombstones) > TOMBSTONES_LIMIT:
            del self.tombstones[next(iter(self.tombstones))]
