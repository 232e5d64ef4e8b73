"""All plans by key, and by device: who serves what, and how much room items in flight reserve.

Reserved on a device is, for each item in flight, what it may take there at worst. The totals
change with what a plan tells of itself, and are never counted anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from orchestrator.machine.records.agenda import Agenda
from orchestrator.machine.records.plan import Plan, PlanKey


@dataclass(slots=True)
class _Known:
    """What the totals have of one plan."""

    hops: dict[str, int] = field(default_factory=dict)  # per item, by likely device
    serving: tuple[str, ...] = ()  # told to serve some of it
    items: int = 0


class Plans(Mapping[PlanKey, Plan]):
    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._plans: dict[PlanKey, Plan] = {}
        self._known: dict[PlanKey, _Known] = {}
        self._on: dict[str, dict[PlanKey, Plan]] = {}  # by device that serves, or is likely to
        self._reserved: dict[str, int] = {}  # by device; none is 0
        self._due: dict[str, dict[PlanKey, None]] = {}  # in flight, and to be assigned in part
        self._blocked: dict[str, dict[PlanKey, None]] = {}  # wait for room on the device
        self.unplaceable: dict[PlanKey, None] = {}  # wait for a device
        self._order = 0

    def __getitem__(self, key: PlanKey) -> Plan:
        return self._plans[key]

    def __iter__(self) -> Iterator[PlanKey]:
        return iter(self._plans)

    def __len__(self) -> int:
        return len(self._plans)

    def add(self, plan: Plan) -> None:
        self._order += 1
        plan.keeper, plan.order = self, self._order
        self._plans[plan.key], self._known[plan.key] = plan, _Known()
        self.placements_changed(plan)

    def remove(self, key: PlanKey) -> None:
        plan = self._plans.pop(key)
        plan.keeper = None
        plan.placements, plan.in_flight, plan.suspects = [], {}, {}
        plan.trial, plan.lonely = None, False
        known = self._known.pop(key)
        self._take_over(plan, known, _Known())
        for device in known.hops:
            _put(self._due, device, key, False)
        self.unplaceable.pop(key, None)

    # --- by device ----------------------------------------------------------------------------

    def on(self, device: str) -> list[Plan]:
        """Plans of which the device serves something, or is likely to."""
        there = self._on.get(device, {})
        return sorted(there.values(), key=lambda plan: plan.order) if there else []

    def first_on(self, device: str) -> Iterator[Plan]:
        """The same, those that came there first first: for who needs one of them."""
        return iter(self._on.get(device, {}).values())

    def due_on(self, device: str) -> list[PlanKey]:
        """Plans with work that have yet to be assigned in part, and that the device may serve."""
        return list(self._due.get(device, ()))

    def reserved_nbytes(self, device: str) -> int:
        """Worst-case bytes there of all items in flight."""
        return self._reserved.get(device, 0)

    def hop_nbytes(self, plan: Plan, device: str) -> int:
        """Bytes that one item of it may take there at worst."""
        return self._known[plan.key].hops.get(device, 0)

    def hops(self, plan: Plan) -> Mapping[str, int]:
        return self._known[plan.key].hops

    def wait_for_room(self, plan: Plan, device: str) -> None:
        """Nothing of it can be admitted before room comes free there."""
        self._blocked.setdefault(device, {})[plan.key] = None

    # --- what plans tell ----------------------------------------------------------------------

    def placements_changed(self, plan: Plan) -> None:
        known = self._known[plan.key]
        fresh = _Known(plan.hops(), tuple(plan.devices()), known.items)
        self._known[plan.key] = fresh
        self._take_over(plan, known, fresh)
        for device in known.hops:
            _put(self._due, device, plan.key, False)
        self._note_due(plan, fresh)
        if plan.unplaceable:
            self.unplaceable[plan.key] = None
        else:
            self.unplaceable.pop(plan.key, None)
        for look in ("plan", "admission", "assignment due"):
            self._agenda.look(look, plan.key)

    def entered(self, plan: Plan) -> None:
        known = self._known[plan.key]
        known.items += 1
        for device, nbytes in known.hops.items():
            self._reserve(device, nbytes)
        if known.items == 1:
            self._note_due(plan, known)
            for device in known.serving:
                self._agenda.look("device", device)  # it has a lease now
        self._agenda.look("assignment due", plan.key)

    def left(self, plan: Plan) -> None:
        known = self._known[plan.key]
        known.items -= 1
        for device, nbytes in known.hops.items():
            self._reserve(device, -nbytes)
        self._agenda.look("admission", plan.key)
        if not known.items:
            self._note_due(plan, known)
        self._agenda.look("plan", plan.key)  # other devices may have come meanwhile

    def _take_over(self, plan: Plan, before: _Known, after: _Known) -> None:
        for device in dict.fromkeys((*before.serving, *after.serving)):
            self._agenda.look("assignment", device)
            if after.items:
                self._agenda.look("device", device)
        for device in dict.fromkeys((*before.hops, *before.serving, *after.hops, *after.serving)):
            self._index(plan, device, device in after.hops or device in after.serving)
            was = before.items * before.hops.get(device, 0)
            nbytes = after.items * after.hops.get(device, 0) - was
            if nbytes:
                self._reserve(device, nbytes)
                if nbytes > 0:
                    self._agenda.look("overfull", device)

    def _note_due(self, plan: Plan, known: _Known) -> None:
        due = plan.unassigned and known.items > 0
        for device in known.hops:
            _put(self._due, device, plan.key, due)

    def _index(self, plan: Plan, device: str, there: bool) -> None:
        if there:
            self._on.setdefault(device, {})[plan.key] = plan
            return
        plans = self._on.get(device, {})
        plans.pop(plan.key, None)
        if not plans:
            self._on.pop(device, None)

    def _reserve(self, device: str, nbytes: int) -> None:
        total = self._reserved.get(device, 0) + nbytes
        if total:
            self._reserved[device] = total
        else:
            self._reserved.pop(device, None)
        if nbytes < 0:
            for key in self._blocked.pop(device, ()):
                self._agenda.look("admission", key)


def _put(table: dict[str, dict[PlanKey, None]], device: str, key: PlanKey, there: bool) -> None:
    """No device keeps an empty entry."""
    if there:
        table.setdefault(device, {})[key] = None
    elif device in table:
        table[device].pop(key, None)
        if not table[device]:
            del table[device]
