"""Places: which device is or was told to serve which range of a model, in which mode.

Only orchestrators write assignments, so that what is noted here is proven, and what a device says
of frames, tasks and results is believed where it has or had a place alone. A place lasts when its
range goes elsewhere: what was made there is as good as before. It goes with its model, with its
device, or once a device has had too many others since.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from orchestrator.machine.records.plan import PlanKey
from wire.ids import PartitionId

MOST = 256  # places of a device: more are only kept if one assignment lists them
Cut = tuple[str, bool, int]  # model digest, exact, cut


class Places:
    def __init__(self) -> None:
        self._of: dict[str, dict[PartitionId, None]] = {}  # by device, the newest last; none empty
        # How many ranges of each device begin or end at a cut, who was told last last; none is 0.
        self._takers: dict[Cut, dict[str, int]] = {}
        self._makers: dict[Cut, dict[str, int]] = {}

    def devices(self) -> Iterator[str]:
        return iter(self._of)

    def of(self, device: str) -> tuple[PartitionId, ...]:
        """All its places, the one that was noted last last."""
        return tuple(self._of.get(device, ()))

    def serves(self, device: str, part: PartitionId) -> bool:
        """It is or was told to serve this very range."""
        return part in self._of.get(device, ())

    def takes(self, device: str, key: PlanKey, cut: int) -> bool:
        """It has or had a place behind the cut."""
        return device in self._takers.get((*key, cut), ())

    def makes(self, device: str, key: PlanKey, cut: int) -> bool:
        """It has or had a place before the cut."""
        return device in self._makers.get((*key, cut), ())

    def makers(self, key: PlanKey, cut: int, most: int) -> list[str]:
        """Who has or had a place before the cut; of more than `most`, those who were told last."""
        return list(islice(reversed(self._makers.get((*key, cut), {})), most))

    def by_cut(self, what: Literal["takers", "makers"]) -> dict[Cut, set[str]]:
        """All who have a place at a cut, as a copy."""
        table = self._takers if what == "takers" else self._makers
        return {cut: set(there) for cut, there in table.items()}

    # --- what changes it ----------------------------------------------------------------------

    def note(self, device: str, parts: tuple[PartitionId, ...]) -> bool:
        """It is told to serve these; whether any of them is news."""
        if not parts:
            return False
        there = self._of.setdefault(device, {})
        before = len(there)
        for part in parts:
            self._count(device, part, 0 if part in there else 1)
            there.pop(part, None)
            there[part] = None
        news = len(there) > before
        for old in list(islice(there, max(0, len(there) - max(MOST, len(parts))))):
            self._drop(device, old)
        return news

    def forget_device(self, device: str) -> None:
        for part in self.of(device):
            self._drop(device, part)

    def forget_model(self, model: str) -> None:
        for device in list(self._of):
            for part in self.of(device):
                if part.model == model:
                    self._drop(device, part)

    def _drop(self, device: str, part: PartitionId) -> None:
        del self._of[device][part]
        if not self._of[device]:
            del self._of[device]
        self._count(device, part, -1)

    def _count(self, device: str, part: PartitionId, by: int) -> None:
        for table, cut in ((self._takers, part.first), (self._makers, part.cut)):
            there = table.setdefault((part.model, part.exact, cut), {})
            there[device] = there.pop(device, 0) + by
            if not there[device]:
                del there[device]
            if not there:
                del table[part.model, part.exact, cut]
