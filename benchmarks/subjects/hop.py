"""From one device to the next: everything but compute, and what lossless coding saves.

A hop begins when a device has computed and ends when the next begins to compute the same item:
encoding, handing to the broker, the broker, receiving, checking, decoding. Lone items only, so
that nothing waits for a device that is busy. Read off the devices' own events, whose clock is one
on one machine. The rival is the floor: as many bytes from one bare MQTT client to another, through
the same broker, right after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.bench import Bench, Outcome
from benchmarks.fleet import Fleet
from benchmarks.happenings import Stage
from benchmarks.row import Rival, Row, at_most, measured, skipped
from benchmarks.spread import spread
from wire.transport import Transport

OVERHEAD_MS = 3.0
LOSSLESS_SHARE = 0.87
WARM_UP = 5
MS = 1e3


@dataclass(frozen=True, slots=True)
class Hop:
    """Seconds from computed to computing, and of them those of the two codecs."""

    overhead_s: float
    encode_s: float
    decode_s: float
    nbytes: int
    raw_nbytes: int

    @property
    def way_s(self) -> float:
        """Neither encoding nor decoding: publishing, the broker, receiving, waking up."""
        return self.overhead_s - self.encode_s - self.decode_s


def run(bench: Bench) -> Outcome:
    fleet = bench.fleet()
    count = bench.pick(12, 40)
    found = {transport: _hops(fleet, transport, count) for transport in ("auto", "raw", "zlib")}
    if not all(found.values()):
        why = "the model is one partition: there is no way from device to device"
        return Outcome(rows=[skipped("hop.overhead_auto", "everything but compute", "ms", why)])
    nbytes = found["raw"][0].nbytes
    with fleet.bare() as (one, other):
        bare = [one.pass_to(other, nbytes) for _ in range(WARM_UP + 4 * count)][WARM_UP:]
    return Outcome(rows=list(_rows(found, bare)))


def _hops(fleet: Fleet, transport: Transport, count: int) -> list[Hop]:
    item = fleet.work.items[0]
    with fleet.session(transport=transport) as session:

        def lone(times: int) -> None:
            for _ in range(times):
                session.run(None, item)

        fleet.watched(lambda: lone(1), 1)
        return list(hops(fleet.watched(lambda: lone(count), count)))


def hops(items: Iterable[list[Stage]]) -> Iterator[Hop]:
    """Between stages that follow each other."""
    for each in items:
        for before, after in pairwise(each):
            if after.task.first == before.task.last + 1 and after.device != before.device:
                yield Hop(
                    after.compute_from_s - before.compute_until_s,
                    before.done.encode_s,
                    after.done.decode_s,
                    before.done.output_nbytes,
                    before.done.output_raw_nbytes,
                )


def _rows(found: dict[str, list[Hop]], bare: list[float]) -> Iterator[Row]:
    kib = sorted(hop.raw_nbytes for hop in found["auto"])[len(found["auto"]) // 2] / 1024
    size = f"activations of {kib:.0f} KiB"
    for name, text in (("auto", "as it is chosen"), ("raw", "raw"), ("zlib", "lossless zlib")):
        yield measured(
            f"hop.overhead_{name}",
            f"everything but compute between two devices, {text}, {size}",
            [MS * hop.overhead_s for hop in found[name]],
            "ms",
            target=at_most(OVERHEAD_MS) if name == "auto" else None,
            rival=Rival("bare MQTT clients, no codec", MS * spread(bare).median),
        )
        yield measured(
            f"hop.codec_{name}",
            f"of it, encoding and decoding, {text}",
            [MS * (hop.encode_s + hop.decode_s) for hop in found[name]],
            "ms",
        )
    yield measured(
        "hop.lossless_share",
        "bytes of a lossless frame, as a share of the raw activation",
        [hop.nbytes / hop.raw_nbytes for hop in found["zlib"]],
        "",
        target=at_most(LOSSLESS_SHARE),
    )
