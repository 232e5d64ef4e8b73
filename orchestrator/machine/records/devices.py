"""All devices that were ever heard of and not forgotten: by name, by what they hold, and which of
them may be given work now.

Indices only. What proves life, and what ends it, is decided in `devices.liveness`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter

from orchestrator.machine.records.agenda import Agenda
from orchestrator.machine.records.answers import Answers
from orchestrator.machine.records.device import Device, Refusal, Residencies
from orchestrator.machine.records.refusals import Refusals
from orchestrator.machine.records.transitions import lifecycle_of
from orchestrator.machine.records.turns import Turns
from orchestrator.planner.rates import Fact
from wire.ids import PartitionId
from wire.lifecycle import Cause

Mode = tuple[str, bool]  # a model's digest, and whether outputs are exact
NEWEST = 16
WAIT_EVERY_S = 30.0  # plans wait no more often for devices that were asked
FACTS = attrgetter("name", "capabilities", "telemetry", "budget_nbytes", "cached")
ASKED_OF = ("alive", "unproven")


class Devices:
    """`usable`: alive, known to be able to do something, and heard of within the lease. `hopeful`:
    those and the ones that have yet to prove life. Both are true once the agenda's looks are done;
    one that fell silent this moment may still be listed."""

    def __init__(self, agenda: Agenda, lease_s: float, cause: Cause) -> None:
        self._agenda, self._lease_s, self._cause = agenda, lease_s, cause
        self._devices: dict[str, Device] = {}
        self._holders: dict[Mode, dict[str, Device]] = {}  # report a partition of the model
        self.now = 0.0
        self.heard_at = float("-inf")  # since when nothing kept us from hearing them
        self.usable: dict[str, Device] = {}
        self.hopeful: dict[str, Device] = {}
        self.away: dict[str, Device] = {}  # known, and not to be given work now
        self.newest: deque[str] = deque(maxlen=NEWEST)  # came last
        self.revision = 0  # rises whenever `usable` changes
        self.silent: dict[str, Device] = {}  # alive or unproven, not fresh: asked when work waits
        self.refusals = Refusals()
        self._left_alone: dict[str, Device] = {}  # of those, no look at them is due
        self.answers = Answers()
        self.doubted_until = float("-inf")  # somebody who was doubted may yet be back
        self.turns = Turns()  # unproven, and to be asked in turn
        self._asked: dict[str, None] = {}  # and asked, and not heard of since
        self._asked_until = float("-inf")

    def __iter__(self) -> Iterator[Device]:
        return iter(self._devices.values())

    def __len__(self) -> int:
        return len(self._devices)

    def __contains__(self, name: str) -> bool:
        return name in self._devices

    def get(self, name: str | None) -> Device | None:
        return self._devices.get(name) if name is not None else None

    def met(self, name: str, now: float) -> Device:
        """The device, added as unproven if it is new."""
        device = self._devices.get(name)
        if device is None:
            life = lifecycle_of("device", name, "unproven", now, self._cause)
            device = self._devices[name] = Device(name, life, self)
            self.device_changed(device)
            self._agenda.look("device", name)
            self._agenda.look("absence", name)
        return device

    def forget(self, name: str) -> None:
        device = self._devices.pop(name, None)
        if device is not None:
            device.reside({})
            device.forgive()
            device.keeper = None
            self._list(device, usable=False, hopeful=False)
            self._agenda.forget("device", name)
            self._agenda.forget("absence", name)

    def reachable(self, name: str | None) -> bool:
        device = self.get(name)
        return device is not None and device.reachable

    def fresh(self, device: Device) -> bool:
        """Heard of within the lease; an idle device that is not must answer a ping first."""
        return self.now - max(device.last_life, self.heard_at) <= self._lease_s

    def is_usable(self, device: Device) -> bool:
        """May be given work now."""
        able = device.life.state == "alive" and device.may_be_able
        return able and self.fresh(device) and self.now >= device.benched_until

    def last_refusal(self, partition: PartitionId) -> Refusal | None:
        """If all that may have work refused it: what the last one said."""
        refusing = self.refusals.usable.get(partition, {})
        if not refusing or len(refusing) < len(self.usable):
            return None
        return next(reversed(refusing.values())).refused[partition]

    def any_silent_for(self, partition: PartitionId) -> bool:
        """Somebody who did not refuse it is only silent."""
        return len(self.refusals.silent.get(partition, ())) < len(self.silent)

    def holders(self, mode: Mode) -> list[Device]:
        """Those that report a partition of this model."""
        return list(self._holders.get(mode, {}).values())

    def facts(self, *, hopeful: bool = False) -> tuple[Fact, ...]:
        """What is known of those that may have work now, or later; in one step, however many."""
        known = self.hopeful if hopeful else self.usable
        return tuple(map(FACTS, known.values()))

    # --- who is asked for a sign of life ------------------------------------------------------

    def ask(self, device: Device, until: float) -> None:
        """It was asked; plans wait for its answer until then. Of many that are asked one after
        another they wait for the first: the dead among them would keep the others from working."""
        if device.life.state in ASKED_OF and not self.fresh(device):
            self._asked[device.name] = None
            if until > self._asked_until + WAIT_EVERY_S:
                self._asked_until = until

    def leave_alone(self, device: Device) -> None:
        """It is silent, and nobody needs it now."""
        self._left_alone[device.name] = device

    def take_left_alone(self, most: int) -> list[Device]:
        """Some that were left alone, and are not any more."""
        some = list(islice(self._left_alone.values(), most))
        for device in some:
            del self._left_alone[device.name]
        return some

    @property
    def any_left_alone(self) -> bool:
        return bool(self._left_alone)

    @property
    def unsettled_until(self) -> float:
        """Until when somebody who was asked may still answer."""
        return self._asked_until if self._asked else float("-inf")

    # --- what devices tell --------------------------------------------------------------------

    def enabled(self, device: Device) -> None:
        """It says anew what it is able to."""
        self.revision += 1
        self._agenda.look("overfull", device.name)
        self._agenda.look("fleet", device.name)

    def device_changed(self, device: Device) -> None:
        hopeful = device.life.state in ASKED_OF and device.may_be_able
        self._list(device, usable=self.is_usable(device), hopeful=hopeful)

    def heard_again(self) -> None:
        """We were away or asleep: nobody's silence meant anything."""
        self.heard_at = self.now
        for device in self._devices.values():
            self.device_changed(device)
            self._agenda.look("device", device.name)

    def _list(self, device: Device, *, usable: bool, hopeful: bool) -> None:
        name = device.name
        before = (name in self.usable, name in self.silent)
        if usable != before[0]:
            self.revision += 1
            _put(self.usable, device, usable)
            if not usable:
                self._agenda.look("unproven", "")
            else:
                self._agenda.look("device", name)
                if name in self.newest:
                    self.newest.remove(name)
                self.newest.append(name)
            self._agenda.look("fleet", name)
        _put(self.hopeful, device, hopeful)
        if device.life.state != "unproven" or name not in self._devices:
            self.turns.leave(name)
        silent = device.life.state in ASKED_OF and not self.fresh(device)
        if device.refused and (usable, silent) != before:
            self.refusals.listed(device, usable=usable, silent=silent)
        _put(self.silent, device, silent)
        away = device.life.state != "alive" or device.foreign
        _put(self.away, device, away and device.name in self._devices)
        if not silent:
            self._asked.pop(name, None)
            self._left_alone.pop(name, None)

    def refusal_changed(
        self, device: Device, partition: PartitionId, before: Refusal | None
    ) -> None:
        self.revision += 1  # it may be asked for the partition again, or for less
        self.refusals.changed(device, partition, before)
        usable, silent = device.name in self.usable, device.name in self.silent
        self.refusals.listed(device, partition, usable=usable, silent=silent)
        refusal = device.refused.get(partition)
        if refusal is not None:
            self._agenda.look_at("refusal", (device.name, partition), refusal.until)

    def residency_changed(self, device: Device, before: Residencies) -> None:
        was = {(part.model, part.exact) for part in before}
        now = {(part.model, part.exact) for part in device.residency}
        for mode in was - now:
            there = self._holders[mode]
            del there[device.name]
            if not there:
                del self._holders[mode]
        for mode in now - was:
            self._holders.setdefault(mode, {})[device.name] = device


def _put(table: dict[str, Device], device: Device, there: bool) -> None:
    if there:
        table[device.name] = device
    else:
        table.pop(device.name, None)
