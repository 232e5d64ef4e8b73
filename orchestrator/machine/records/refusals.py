"""Which devices refused which partition: those that may have work, those that are silent, and all
of them by what they failed with.

Indices only. How long a refusal holds, and what follows if nobody is left, is decided by the rules.
"""

from __future__ import annotations

from typing import TypeVar

from orchestrator.machine.records.device import Device, Refusal
from wire.ids import PartitionId

Grounds = tuple[str, bool, str]  # a model's digest, whether outputs are exact, and a failure's kind
_Key = TypeVar("_Key")
_Name = TypeVar("_Name")


class Refusals:
    """In each table who came last is last, and no entry is empty."""

    def __init__(self) -> None:
        self.usable: dict[PartitionId, dict[str, Device]] = {}  # may have work, and not this
        self.silent: dict[PartitionId, dict[str, Device]] = {}
        self.by_grounds: dict[Grounds, dict[tuple[str, PartitionId], Device]] = {}

    # --- what devices tell --------------------------------------------------------------------

    def changed(self, device: Device, partition: PartitionId, before: Refusal | None) -> None:
        """It refused the partition, or may be asked for it again."""
        after = device.refused.get(partition)
        for refusal in (before, after):
            if refusal is not None:
                grounds = (partition.model, partition.exact, refusal.failure.kind)
                _put(self.by_grounds, grounds, (device.name, partition), device, refusal is after)

    def listed(self, device: Device, *partitions: PartitionId, usable: bool, silent: bool) -> None:
        """Whether it may have work now, and whether it is silent; for all it refused if none of
        the partitions is named."""
        for part in partitions or device.refused:
            there = part in device.refused
            _put(self.usable, part, device.name, device, there and usable)
            _put(self.silent, part, device.name, device, there and silent)


def _put(
    table: dict[_Key, dict[_Name, Device]], key: _Key, name: _Name, device: Device, there: bool
) -> None:
    devices = table.setdefault(key, {})
    devices.pop(name, None)
    if there:
        devices[name] = device
    elif not devices:
        del table[key]
