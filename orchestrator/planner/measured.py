"""What devices took for segments and cuts of one model in one mode, and what follows from it.

Seconds are kept per device and segment. A device's speed on the model is what its segments cost
over what they took; a segment's measured cost is what it took times that speed, the middle of all
devices (`fitting`); at first costs are the estimate's. So costs stay in the unit of the estimate:
measured and estimated ones add up, and a segment that nobody has run stands beside one that
somebody has. Bytes at a cut are what frames had; where none passed, the bound shrinks as it does
elsewhere.

What this costs depends on the model alone. Speeds and costs are fitted to the few devices that were
heard last of each segment, and anew only when one of them has changed by more than a measurement
is worth. Keeps numbers and divides them; which plan follows is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from statistics import median

from orchestrator.planner.crowd import Crowd
from orchestrator.planner.recent import Recent
from orchestrator.planner.speed_fit import Fit, fit
from orchestrator.planner.stages import STREAMED_FACTOR

LEAST_S = 1e-6  # a clock's resolution: nothing takes no time
UNLIKE = 0.2  # measurements differ by so much on a phone that does other things as well
WORTH = 0.02  # a measurement that moved by less changes no plan
HEARD = 5  # devices of each segment that costs are fitted to


@dataclass(slots=True)
class _Device:
    """What one device took. `streamed_s` counts only where nothing else is known."""

    segment_s: dict[int, Recent] = field(default_factory=dict)
    streamed_s: dict[int, Recent] = field(default_factory=dict)
    hop_s: Recent = field(default_factory=Recent)
    took: dict[int, float] = field(default_factory=dict)  # within WORTH of the middle ones
    kept: dict[int, float] = field(default_factory=dict)  # what was asked for to be kept last
    speed: tuple[int, float] | None = None  # the fit's revision, and what it made of `took`

    def seconds(self, index: int) -> float | None:
        known = self.segment_s.get(index)
        if known is not None:
            return known.undisturbed
        streamed = self.streamed_s.get(index)
        return streamed.undisturbed / STREAMED_FACTOR if streamed is not None else None

    def believe(self, index: int) -> bool:
        """Whether what the segment takes has changed by more than a measurement is worth."""
        seconds, before = self.seconds(index), self.took.get(index)
        if seconds is None or (before is not None and abs(seconds - before) <= WORTH * before):
            return False
        self.took[index] = seconds
        return True


class Measured:
    """`costs` and `bounds` are the manifest's: multiply-adds per segment, bytes per cut."""

    def __init__(self, costs: Sequence[float], bounds: Sequence[int]) -> None:
        self.heard = Crowd(HEARD)  # devices that told what any segment took
        self._estimated = tuple(max(cost, 1.0) for cost in costs)
        self._bounds = tuple(bounds)
        self._devices: dict[str, _Device] = {}
        self._hops = Crowd()
        self._cut_nbytes: dict[int, Recent] = {}
        self._cuts: tuple[float, ...] | None = None  # of all cuts; None: to be found anew
        self._runs: dict[int, Crowd] = {}  # by segment, the seconds of those heard last
        self._runners = Counter[int]()  # by segment, how many devices have run it
        self._fit: Fit | None = None  # None: to be found anew
        self._revision = 0  # of the fit

    # --- telling ------------------------------------------------------------------------------

    def segments_took(
        self, device: str, first: int, seconds: Sequence[float], *, streamed: bool = False
    ) -> None:
        """One task: what segments `first`, `first` + 1, … took."""
        known = self._devices.setdefault(device, _Device())
        table = known.streamed_s if streamed else known.segment_s
        for index, each in enumerate(seconds, start=first):
            if index < len(self._estimated):
                table.setdefault(index, Recent()).add(max(each, LEAST_S))
                self._heard_of(device, known, index)

    def restore(self, device: str, index: int, seconds: float) -> None:
        """What an orchestrator before us had measured."""
        if 0 <= index < len(self._estimated) and seconds > 0:
            known = self._devices.setdefault(device, _Device())
            known.segment_s.setdefault(index, Recent([seconds]))
            known.kept[index] = seconds
            self._heard_of(device, known, index)

    def _heard_of(self, device: str, known: _Device, index: int) -> None:
        self._runners[index] += index not in known.took
        if known.believe(index):
            self._fit = None
        self._runs.setdefault(index, Crowd(HEARD)).tell(device, known.took[index])
        self.heard.tell(device, known.took[index])

    def slowed(
        self, device: str, factor: float, seen: range = range(0), seen_s: float = 0.0
    ) -> None:
        """All that it does takes `factor` times as long as before, but for the segments of `seen`:
        they were run since, and take `seen_s` together."""
        known = self._devices.get(device)
        if known is None:
            return
        took_s = [known.seconds(index) for index in seen]
        believed_s = sum(each for each in took_s if each is not None)
        seen_factor = factor if None in took_s or not seen else max(1.0, seen_s / believed_s)
        for table in (known.segment_s, known.streamed_s):
            for index, recent in table.items():
                recent.scale(seen_factor if index in seen else factor)
        for index in list(known.took):
            self._heard_of(device, known, index)

    def hop_took(self, device: str, seconds: float) -> None:
        """Unpacking an input and packing an output."""
        known = self._devices.setdefault(device, _Device())
        known.hop_s.add(max(seconds, LEAST_S))
        self._hops.tell(device, known.hop_s.undisturbed)

    def crossed(self, cut: int, nbytes: int) -> None:
        """A frame passed the cut."""
        if 0 <= cut < len(self._bounds):
            self._cut_nbytes.setdefault(cut, Recent(first=False)).add(float(max(nbytes, 1)))
            self._cuts = None

    def forget(self, device: str) -> None:
        known = self._devices.pop(device, None)
        if known is None:
            return
        self._hops.forget(device)
        self.heard.forget(device)
        for index in known.took:
            self._runs[index].forget(device)
            self._runners[index] -= 1
            self._fit = None

    # --- asking -------------------------------------------------------------------------------

    def seconds(self, device: str, index: int) -> float | None:
        """What the segment takes on the device when it is loaded; None if it never ran there."""
        known = self._devices.get(device)
        return known.seconds(index) if known is not None else None

    def unkept(self, device: str, index: int) -> float | None:
        """The seconds, if they are unlike those that were asked for to be kept before."""
        known = self._devices.get(device)
        seconds = known.seconds(index) if known is not None else None
        if known is None or seconds is None:
            return None
        kept = known.kept.get(index)
        if kept is not None and abs(seconds - kept) <= UNLIKE * kept:
            return None
        known.kept[index] = seconds
        return seconds

    @property
    def measured(self) -> frozenset[int]:
        """Segments that any device has run."""
        return frozenset(index for index, count in self._runners.items() if count > 0)

    def speed(self, device: str) -> float | None:
        """Multiply-adds a second, if the device has run any of it."""
        known = self._devices.get(device)
        if known is None or not known.took:
            return None
        fitted = self._fitted()
        if known.speed is None or known.speed[0] != self._revision:
            speed = fitted.speeds.get(device) or fitted.speed(known.took)
            known.speed = self._revision, speed
        return known.speed[1]

    @property
    def revision(self) -> int:
        """Rises with each fit: what followed from speeds and costs before is stale."""
        self._fitted()
        return self._revision

    @property
    def costs(self) -> tuple[float, ...]:
        """Multiply-adds per segment, as measured where they were."""
        return self._fitted().costs

    def segment_s(self, index: int) -> float | None:
        """Seconds on the middle one of the few devices that were heard last of it."""
        known = self._runs.get(index)
        return known.middle if known is not None else None

    @property
    def devices(self) -> Collection[str]:
        """Those that have run any of it."""
        return self._devices.keys()

    @property
    def usual_hop_s(self) -> float | None:
        """On the middle one of some that were heard last."""
        return self._hops.middle

    def hop_s(self, device: str) -> float | None:
        """On this device, or on the middle one of some others."""
        known = self._devices.get(device)
        return known.hop_s.undisturbed if known is not None and known.hop_s else self._hops.middle

    @property
    def cut_nbytes(self) -> tuple[float, ...]:
        """Of a frame at each cut, as measured where one passed."""
        if self._cuts is None:
            self._cuts = self._all_cuts()
        return self._cuts

    def _all_cuts(self) -> tuple[float, ...]:
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

    def _fitted(self) -> Fit:
        if self._fit is None:
            sample = dict.fromkeys(device for run in self._runs.values() for device in run)
            took = {device: self._devices[device].took for device in sample}
            self._fit = fit(took, self._estimated)
            self._revision += 1
        return self._fit
