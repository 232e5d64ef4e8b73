"""What devices took for segments and cuts of one model in one mode, and what follows from it.

Seconds are kept per device and segment. A device's speed on the model is what its segments cost
over what they took; a segment's measured cost is what it took times that speed, the middle of all
devices; at first costs are the estimate's. So costs stay in the unit of the estimate: measured
and estimated ones add up, and a segment that nobody has run stands beside one that somebody has.
Bytes at a cut are what frames had; where none passed, the bound shrinks as it does elsewhere.
Keeps numbers and divides them; which plan follows is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from orchestrator.planner.recent import Recent
from orchestrator.planner.stages import STREAMED_FACTOR

LEAST_S = 1e-6  # a clock's resolution: nothing takes no time
ROUNDS = 12  # of fitting speeds and costs to each other; most of it is there after three
UNLIKE = 0.2  # measurements differ by so much on a phone that does other things as well


class Measured:
    """`costs` and `bounds` are the manifest's: multiply-adds per segment, bytes per cut."""

    def __init__(self, costs: Sequence[float], bounds: Sequence[int]) -> None:
        self._estimated = tuple(max(cost, 1.0) for cost in costs)
        self._bounds = tuple(bounds)
        self._segment_s: dict[str, dict[int, Recent]] = {}
        self._streamed_s: dict[str, dict[int, Recent]] = {}
        self._kept: dict[tuple[str, int], float] = {}
        self._hop_s: dict[str, Recent] = {}
        self._cut_nbytes: dict[int, Recent] = {}
        self._speeds: dict[str, float] | None = None
        self._costs: tuple[float, ...] | None = None

    # --- telling ------------------------------------------------------------------------------

    def segments_took(
        self, device: str, first: int, seconds: Sequence[float], *, streamed: bool = False
    ) -> None:
        """One task: what segments `first`, `first` + 1, … took."""
        table = (self._streamed_s if streamed else self._segment_s).setdefault(device, {})
        for index, each in enumerate(seconds, start=first):
            if index < len(self._estimated):
                table.setdefault(index, Recent()).add(max(each, LEAST_S))
        self._speeds = self._costs = None

    def restore(self, device: str, index: int, seconds: float) -> None:
        """What an orchestrator before us had measured."""
        if 0 <= index < len(self._estimated) and seconds > 0:
            known = Recent([seconds])
            self._segment_s.setdefault(device, {}).setdefault(index, known)
            self._kept[device, index] = seconds
            self._speeds = self._costs = None

    def hop_took(self, device: str, seconds: float) -> None:
        """Unpacking an input and packing an output."""
        self._hop_s.setdefault(device, Recent()).add(max(seconds, LEAST_S))

    def crossed(self, cut: int, nbytes: int) -> None:
        """A frame passed the cut."""
        if 0 <= cut < len(self._bounds):
            self._cut_nbytes.setdefault(cut, Recent(first=False)).add(float(max(nbytes, 1)))

    def forget(self, device: str) -> None:
        for table in (self._segment_s, self._streamed_s):
            table.pop(device, None)
        self._hop_s.pop(device, None)
        self._kept = {key: seconds for key, seconds in self._kept.items() if key[0] != device}
        self._speeds = self._costs = None

    # --- asking -------------------------------------------------------------------------------

    def seconds(self, device: str, index: int) -> float | None:
        """What the segment takes on the device when it is loaded; None if it never ran there."""
        known = self._segment_s.get(device, {}).get(index)
        if known is not None:
            return known.middle
        streamed = self._streamed_s.get(device, {}).get(index)
        return streamed.middle / STREAMED_FACTOR if streamed is not None else None

    def unkept(self, device: str, index: int) -> float | None:
        """The seconds, if they are unlike those that were asked for to be kept before."""
        seconds, kept = self.seconds(device, index), self._kept.get((device, index))
        if seconds is None or (kept is not None and abs(seconds - kept) <= UNLIKE * kept):
            return None
        self._kept[device, index] = seconds
        return seconds

    def indices(self, device: str) -> list[int]:
        """Segments that the device has run."""
        run = {*self._segment_s.get(device, ()), *self._streamed_s.get(device, ())}
        return sorted(run)

    @property
    def devices(self) -> Iterable[str]:
        return {**self._segment_s, **self._streamed_s}

    @property
    def measured(self) -> frozenset[int]:
        """Segments that any device has run."""
        return frozenset(index for device in self.devices for index in self.indices(device))

    @property
    def speeds(self) -> dict[str, float]:
        """Multiply-adds a second of each device that has run any of it."""
        self._weigh()
        assert self._speeds is not None
        return self._speeds

    @property
    def costs(self) -> tuple[float, ...]:
        """Multiply-adds per segment, as measured where they were."""
        self._weigh()
        assert self._costs is not None
        return self._costs

    def segment_s(self, index: int) -> float | None:
        """Seconds on the middle one of the devices that have run it."""
        known = [self.seconds(device, index) for device in self.devices]
        listed = [seconds for seconds in known if seconds is not None]
        return median(listed) if listed else None

    def hop_s(self, device: str) -> float | None:
        """On this device, or on the middle one of the others."""
        if device in self._hop_s:
            return self._hop_s[device].middle
        known = [each.middle for each in self._hop_s.values()]
        return median(known) if known else None

    @property
    def cut_nbytes(self) -> tuple[float, ...]:
        shares = [
            known.middle / self._bounds[cut]
            for cut, known in self._cut_nbytes.items()
            if self._bounds[cut]
        ]
        share = median(shares) if shares else 1.0
        return tuple(
            self._cut_nbytes[cut].middle if cut in self._cut_nbytes else share * bound
            for cut, bound in enumerate(self._bounds)
        )

    def _weigh(self) -> None:
        if self._speeds is not None and self._costs is not None:
            return
        groups = [self._fitted(group) for group in self._groups()]
        self._speeds = {}
        costs = list(self._estimated)
        usual = _mean([speed for speeds, _ in groups for speed in speeds.values()])
        for speeds, told in groups:
            # Of devices that no segment connects, nobody can tell the fast from those whose
            # segments are cheaper than estimated: half of the difference is taken to be either.
            factor = math.sqrt(usual / _mean(list(speeds.values())))
            self._speeds.update({device: factor * speed for device, speed in speeds.items()})
            for index, cost in told.items():
                costs[index] = factor * cost
        self._costs = tuple(costs)

    def _groups(self) -> list[set[str]]:
        """Devices that can be compared, since they ran the same segments or those of a third."""
        groups: list[tuple[set[str], set[int]]] = []
        for device in self.devices:
            names, indices = {device}, set(self.indices(device))
            for group in [each for each in groups if each[1] & indices]:
                groups.remove(group)
                names, indices = names | group[0], indices | group[1]
            groups.append((names, indices))
        return [names for names, _ in groups]

    def _fitted(self, group: Iterable[str]) -> tuple[dict[str, float], dict[int, float]]:
        """Speeds by the costs, costs by these speeds, and again: a device that ran dear segments
        is not slow for it, as the others show. The sum of the costs stays that of the estimate."""
        took = {
            device: {
                index: self.seconds(device, index) or LEAST_S for index in self.indices(device)
            }
            for device in sorted(group)
        }
        costs = {index: self._estimated[index] for each in took.values() for index in each}
        total = sum(costs.values())
        speeds: dict[str, float] = {}
        for _ in range(ROUNDS):
            speeds = {
                device: sum(costs[index] for index in each) / sum(each.values())
                for device, each in took.items()
            }
            costs = {
                index: median(
                    each[index] * speeds[device] for device, each in took.items() if index in each
                )
                for index in costs
            }
            scale = total / sum(costs.values())
            costs = {index: scale * cost for index, cost in costs.items()}
            speeds = {device: scale * speed for device, speed in speeds.items()}
        return speeds, costs


def _mean(values: Sequence[float]) -> float:
    """The geometric one; 1 of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0
