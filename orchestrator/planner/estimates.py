"""How long things take: fetch, load, compute and transfer, in seconds.

What was measured here comes first (tasks done, segments profiled, partitions loaded), then what
the device reads off itself, then what the other devices show, then a stated default. Of measured
values the middle one of the last few counts, so that one slow task on a busy phone does not turn
a plan over. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from orchestrator.planner.crowd import Crowd
from orchestrator.planner.measured import LEAST_S, Measured
from orchestrator.planner.rates import LINK_NBYTES_PER_S, Rates, rtt_s
from orchestrator.planner.recent import Recent
from orchestrator.planner.stages import BATCH, Work
from orchestrator.planner.times import SegmentTime
from wire.ids import PartitionId
from wire.manifest import Manifest, SegmentSpec
from wire.messages.telemetry import Telemetry

COST_PER_S = 2e10  # multiply-adds; a laptop's core does 1e11 in fp32, an old phone's 5e9
LOAD_NBYTES_PER_S = 3e8  # mapping and prepacking from flash
SESSION_S = 0.02  # creating one ONNX Runtime session, without its weights
RATED_NBYTES = 1 << 20
HOP_S = 0.003  # unpacking a frame, packing another

ModelKey = tuple[str, bool]  # the model's digest, and whether outputs are exact


class Estimates:
    """Bounded by devices times segments and partitions. `news` rises with every measurement of
    something that was not measured before."""

    def __init__(self) -> None:
        self._models: dict[ModelKey, Measured] = {}
        self._restored: dict[ModelKey, dict[str, list[SegmentTime]]] = {}  # by device
        self._task_s: dict[ModelKey, dict[str, dict[PartitionId, Recent]]] = {}  # by device
        # Which devices those three may have of a model, and the same the other way round.
        self._devices_of: dict[ModelKey, set[str]] = {}
        self._models_of: dict[str, set[ModelKey]] = {}
        self._cost_per_s: dict[str, Recent] = {}
        self._at_work: dict[str, float] = {}  # of the same, the middle ones
        self._speeds = Crowd()  # of the same, those heard last
        self._fetch_rate: dict[str, Recent] = {}
        self._fetches: dict[str, float] = {}  # of the same, the middle ones
        self._load_rate: dict[str, Recent] = {}
        self._ratios: dict[ModelKey, tuple[tuple[int, int], float]] = {}  # with what they are of
        self._learned = 0  # rises when a speed changes that ratios are made of
        self.news = 0

    # --- learning -----------------------------------------------------------------------------

    def learn_task(self, device: str, partition: PartitionId, cost: float, compute_s: float) -> int:
        """How many tasks of this partition the device has been seen to do lately."""
        seconds = max(compute_s, LEAST_S)
        key = (partition.model, partition.exact)
        self._note(device, key)
        by_device = self._task_s.setdefault(key, {})
        known = by_device.setdefault(device, {}).setdefault(partition, Recent())
        self.news += not known
        known.add(seconds)
        if cost > 0:
            speed = _add(self._cost_per_s, device, cost / seconds)
            self._at_work[device] = speed.middle
            self._speeds.tell(device, speed.middle)
            self._learned += 1
        return len(known)

    def slowed(self, device: str, partition: PartitionId, cost: float, factor: float) -> None:
        """Its tasks, of so many multiply-adds each, take `factor` times as long as before: what it
        was measured at before that would keep a plan from it for a long time. What has been
        measured since is slow already and does not become slower."""
        key = (partition.model, partition.exact)
        task = self._task_s.get(key, {}).get(device, {}).get(partition)
        if task is None:
            return
        lately_s = task.lately
        task.scale(lately_s / task.middle)
        speed = self._cost_per_s.get(device)
        if speed is not None and cost > 0:
            speed.scale(min(1.0, cost / lately_s / speed.middle))
            self._at_work[device] = speed.middle
            self._speeds.tell(device, speed.middle)
        for model in self._models_of.get(device, ()):
            if model in self._models:
                seen = range(partition.first, partition.last + 1) if model == key else range(0)
                self._models[model].slowed(device, factor, seen, lately_s)
        self._learned += 1

    def lately_s(self, device: str, partition: PartitionId) -> float | None:
        """The quickest of the last few tasks; None if none was done."""
        key = (partition.model, partition.exact)
        task = self._task_s.get(key, {}).get(device, {}).get(partition)
        return task.lately if task is not None else None

    def tasks_seen(self, device: str, partition: PartitionId) -> int:
        """How many of this partition's tasks there the expected time comes from."""
        key = (partition.model, partition.exact)
        return len(self._task_s.get(key, {}).get(device, {}).get(partition, ()))

    def learn_frames(
        self,
        device: str,
        manifest: Manifest,
        partition: PartitionId,
        hop_s: float,
        nbytes: tuple[int, int],
    ) -> None:
        """A task's input and output: bytes of their frames, seconds to unpack and pack."""
        measured = self.of(manifest, partition.exact)
        self._note(device, (partition.model, partition.exact))
        measured.hop_took(device, hop_s)
        measured.crossed(partition.first, nbytes[0])
        measured.crossed(partition.last + 1, nbytes[1])

    def learn_profile(
        self,
        device: str,
        manifest: Manifest,
        partition: PartitionId,
        segment_s: Sequence[float],
        *,
        streamed: bool = False,
    ) -> None:
        measured = self.of(manifest, partition.exact)
        self._note(device, (partition.model, partition.exact))
        self.news += measured.seconds(device, partition.first) is None
        measured.segments_took(device, partition.first, segment_s, streamed=streamed)

    def learn_load(
        self, device: str, fetched_nbytes: int, fetch_s: float, loaded_nbytes: int, load_s: float
    ) -> None:
        """Of less than a mebibyte a load or a fetch shows what any costs, and no rate: a tiny
        model would make its devices look a thousand times too slow for a large one."""
        if fetched_nbytes >= RATED_NBYTES and fetch_s > LEAST_S:
            rate = _add(self._fetch_rate, device, fetched_nbytes / fetch_s)
            self._fetches[device] = rate.middle
        if loaded_nbytes >= RATED_NBYTES and load_s > LEAST_S:
            _add(self._load_rate, device, loaded_nbytes / load_s)

    def restore(self, times: Sequence[SegmentTime]) -> None:
        """What was measured before a restart; used once the model is told."""
        for each in times:
            key = (each.model, each.exact)
            self._note(each.device, key)
            by_device = self._restored.setdefault(key, {})
            by_device.setdefault(each.device, []).append(each)

    def _note(self, device: str, key: ModelKey) -> None:
        """Something is known of the device and the model: one of them that goes finds the other."""
        self._devices_of.setdefault(key, set()).add(device)
        self._models_of.setdefault(device, set()).add(key)

    def forget(self, device: str) -> None:
        for recent in (self._cost_per_s, self._fetch_rate, self._load_rate):
            recent.pop(device, None)
        for middles in (self._at_work, self._fetches):
            middles.pop(device, None)
        self._speeds.forget(device)
        self._learned += 1
        for key in self._models_of.pop(device, ()):
            self._devices_of[key].discard(device)
            for table in (self._task_s, self._restored):
                table.get(key, {}).pop(device, None)
            if key in self._models:
                self._models[key].forget(device)

    def forget_model(self, digest: str) -> None:
        for key in ((digest, False), (digest, True)):
            for table in (self._models, self._restored, self._task_s, self._ratios):
                table.pop(key, None)
            for device in self._devices_of.pop(key, ()):
                self._models_of[device].discard(key)

    def unlisted(self) -> list[tuple[str, ModelKey]]:
        """For those who check: of whom something is known that would not be found."""
        tables = (self._task_s, self._restored, {k: m.devices for k, m in self._models.items()})
        known = ((device, key) for table in tables for key, has in table.items() for device in has)
        pairs = {(device, key) for key, has in self._devices_of.items() for device in has}
        mirrored = {(device, key) for device, has in self._models_of.items() for key in has}
        return sorted(({*known} - pairs) | (pairs ^ mirrored))

    # --- models -------------------------------------------------------------------------------

    def of(self, manifest: Manifest, exact: bool) -> Measured:
        """What was measured of the model in this mode."""
        key = (manifest.digest, exact)
        measured = self._models.get(key)
        if measured is None:
            measured = Measured(
                [segment.cost for segment in manifest.segments],
                [cut.bound_nbytes for cut in manifest.cuts],
            )
            for times in self._restored.pop(key, {}).values():
                for each in times:
                    measured.restore(each.device, each.segment, each.seconds)
            self._models[key] = measured
        return measured

    def work(self, manifest: Manifest, exact: bool, items: int = BATCH) -> Work:
        """One item's cost, segment by segment and cut by cut."""
        measured = self.of(manifest, exact)
        return Work(measured.costs, measured.cut_nbytes, items)

    def cut_nbytes(self, manifest: Manifest, exact: bool, cut: int) -> int:
        """What one frame at the cut takes, as seen so far; else a share of its bound."""
        return int(self.of(manifest, exact).cut_nbytes[cut])

    def unkept(self, device: str, partition: PartitionId) -> tuple[SegmentTime, ...]:
        """What is new of the device's segments of the partition since this was asked before."""
        measured = self._models.get((partition.model, partition.exact))
        if measured is None:
            return ()
        times = []
        for index in range(partition.first, partition.last + 1):
            seconds = measured.unkept(device, index)
            if seconds is not None:
                key = (partition.model, partition.exact, device, index)
                times.append(SegmentTime(*key, seconds))
        return tuple(times)

    # --- devices ------------------------------------------------------------------------------

    def cost_per_s(self, device: str, readings: Telemetry | None) -> float:
        """Multiply-adds a second of any work: its own, or the middle one of those heard last."""
        own = self._own_speed(device, readings)
        return own if own is not None else self._speeds.middle or COST_PER_S

    def _own_speed(self, device: str, readings: Telemetry | None) -> float | None:
        told = readings.cost_per_s if readings is not None else None
        measured = self._cost_per_s.get(device)
        return measured.middle if measured is not None else told or None

    def _ratio(self, manifest: Manifest, exact: bool) -> float:
        """How much faster the devices that told of the model last are on it than at other work."""
        key, measured = (manifest.digest, exact), self.of(manifest, exact)
        of = (measured.revision, self._learned)
        known = self._ratios.get(key)
        if known is None or known[0] != of:
            ratios = [
                speed / self._cost_per_s[device].middle
                for device in measured.heard
                if device in self._cost_per_s and (speed := measured.speed(device))
            ]
            known = self._ratios[key] = of, median(ratios) if ratios else 1.0
        return known[1]

    def rates(self, manifest: Manifest, exact: bool) -> Rates:
        """Of all devices, as they are now: for offers."""
        measured = self.of(manifest, exact)
        ran = measured.devices
        speeds = {device: speed for device in ran if (speed := measured.speed(device))}
        hops = {device: s for device in ran if (s := measured.hop_s(device)) is not None}
        return Rates(
            usual=self._speeds.middle or COST_PER_S,
            ratio=self._ratio(manifest, exact),
            on_model=speeds,
            at_work=self._at_work.copy(),
            fetches=self._fetches.copy(),
            hops=hops,
            usual_hop_s=measured.usual_hop_s or HOP_S,
        )

    def rates_on(self, manifest: Manifest, exact: bool, device: str) -> Rates:
        """Of one device alone."""
        measured = self.of(manifest, exact)
        speed, hop_s = measured.speed(device), measured.hop_s(device)
        return Rates(
            usual=self._speeds.middle or COST_PER_S,
            ratio=self._ratio(manifest, exact),
            on_model={device: speed} if speed else {},
            at_work=self._at_work,
            fetches=self._fetches,
            usual_hop_s=HOP_S if hop_s is None else hop_s,
        )

    def link_nbytes_per_s(self, device: str, readings: Telemetry | None) -> float:
        told = readings.link_nbytes_per_s if readings is not None else None
        return told or self._fetches_at(device) or LINK_NBYTES_PER_S

    def _fetches_at(self, device: str) -> float | None:
        known = self._fetch_rate.get(device)
        return known.middle if known is not None else None

    # --- durations ----------------------------------------------------------------------------

    def compute_s(
        self,
        device: str,
        readings: Telemetry | None,
        partition: PartitionId,
        segments: Sequence[SegmentSpec],
    ) -> float:
        """One task: this partition as measured, its segments as profiled, or by its cost."""
        key = (partition.model, partition.exact)
        task = self._task_s.get(key, {}).get(device, {}).get(partition)
        if task is not None:
            return task.middle
        measured = self._models.get(key)
        if measured is None:
            rate = self.cost_per_s(device, readings)
            return sum(segment.cost for segment in segments) / rate
        rate = measured.speed(device) or self.cost_per_s(device, readings)
        total = 0.0
        for segment in segments:
            seconds = measured.seconds(device, segment.index)
            total += measured.costs[segment.index] / rate if seconds is None else seconds
        return total

    def fetch_s(self, device: str, readings: Telemetry | None, missing_nbytes: int) -> float:
        if missing_nbytes <= 0:
            return 0.0
        rate = self._fetches_at(device) or self.link_nbytes_per_s(device, readings)
        return rtt_s(readings) + missing_nbytes / rate

    def load_s(self, device: str, readings: Telemetry | None, nbytes: int, segments: int) -> float:
        told = readings.load_nbytes_per_s if readings is not None else None
        known = self._load_rate.get(device)
        rate = known.middle if known is not None else told or LOAD_NBYTES_PER_S
        return SESSION_S * segments + nbytes / rate

    def transfer_s(self, device: str, readings: Telemetry | None, nbytes: int) -> float:
        """Until `nbytes` of a frame have come to the device; the slower end is taken as its."""
        return rtt_s(readings) + nbytes / self.link_nbytes_per_s(device, readings)


def _add(table: dict[str, Recent], device: str, value: float) -> Recent:
    known = table.setdefault(device, Recent())
    known.add(value)
    return known
