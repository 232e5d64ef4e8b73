"""From an assignment to a partition in memory: warm, with the import, and over a slow link.

The partition is the range of segments that comes nearest to 85 MB. *Warm*: everything is on the
device's disk and ONNX Runtime is imported. *With import*: a fresh process of the agent. The rival
of both is a plain session of the same partition in a process of its own, which takes turns. *Cold*:
nothing is on disk, and the way to the store has a rate; a plain download of the same bytes over
the same way is the rival. What is prepared once after a fetch is told apart.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench, Outcome
from benchmarks.cells import plain_file
from benchmarks.desk import Desk, Span, given
from benchmarks.plain_load import PlainLoad, fresh_load
from benchmarks.relay import Relay, Route
from benchmarks.rounds import Measure, shares, take_turns
from benchmarks.row import Rival, Row, at_least, at_most, measured
from benchmarks.spread import spread
from wire.errors import OperatorError, TimedOut
from wire.manifest import Manifest
from wire.messages.assignment import PartitionAssignment

MB = 1e6
MS = 1e3
WANTED_NBYTES = 85e6
WARM_MS = 100.0
IMPORT_MS = 200.0
SHARE_OF_PLAIN = 1.0
LINK_SHARE = 0.9
RESUMED_SHARE = 1.05
KILLED_AT = 0.4  # of the download
ROOMY_NBYTES = 1 << 30
FULL_NBYTES_PER_S, QUICK_NBYTES_PER_S = 6.25e6, 25e6  # 50 and 200 Mbit/s
LIMIT_S = 120.0
POLL_S = 0.01


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    with Desk(bench.folder("loading")) as desk:
        manifest = desk.cut(bench.given)
        span = nearest_span(manifest, WANTED_NBYTES)
        wanted = given(manifest, span)
        plain = plain_file(desk, bench.given, manifest, span)
        outcome.rows += _warm_rows(bench, desk, wanted, plain)
        outcome.rows += _cold_rows(bench, desk, wanted)
        outcome.rows += _again_rows(desk, manifest, span)
    return outcome


def nearest_span(manifest: Manifest, nbytes: float) -> Span:
    """The consecutive segments whose weights together come nearest to so many bytes; the last
    such range, since a table of words at the beginning is read by row and not as a whole."""
    size = [segment.weight_nbytes for segment in manifest.segments]
    spans = [Span(a, b) for a in range(len(size)) for b in range(a, len(size))]
    return min(
        reversed(spans), key=lambda span: abs(sum(size[span.first : span.last + 1]) - nbytes)
    )


def _nbytes(wanted: PartitionAssignment) -> int:
    return sum(blob.nbytes for blob in wanted.blobs)


# --- warm -------------------------------------------------------------------------------------


def _warm_rows(bench: Bench, desk: Desk, wanted: PartitionAssignment, plain: Path) -> Iterator[Row]:
    with desk.agent("warm", ROOMY_NBYTES), PlainLoad(plain) as rival:
        first = desk.load("warm", wanted)
        rival.load()
        contenders: dict[str, Measure] = {
            "ours": lambda: _again(desk, wanted),
            "plain": rival.load,
        }
        warm = take_turns(contenders, bench.pick(6, 20))
    contenders = {"ours": lambda: _fresh(desk, wanted), "plain": lambda: fresh_load(plain)}
    imported = take_turns(contenders, bench.pick(3, 8))
    size = f"{_nbytes(wanted) / MB:.0f} MB"
    note = "streamed" if first.loaded.streamed else ""
    yield from _beside_plain("warm", f"{size}: cached, runtime imported", warm, WARM_MS, note)
    yield from _beside_plain("with_import", f"{size}: cached, fresh process", imported, IMPORT_MS)
    yield measured(
        "loading.preparation",
        f"preparing it at the first load after a fetch, {size}, once per device",
        [MS * first.loaded.prepare_s],
        "ms",
    )


def _beside_plain(
    name: str, what: str, found: dict[str, list[float]], most_ms: float, note: str = ""
) -> Iterator[Row]:
    yield measured(
        f"loading.{name}",
        f"from assignment to ready, {what}",
        [MS * each for each in found["ours"]],
        "ms",
        at_most(most_ms),
        Rival("plain session", MS * spread(found["plain"]).median),
        note,
    )
    yield measured(
        f"loading.{name}_share_of_plain",
        "the same, as a share of making a plain session of it",
        shares(found["ours"], found["plain"]),
        "",
        at_most(SHARE_OF_PLAIN),
    )


def _again(desk: Desk, wanted: PartitionAssignment) -> float:
    desk.unload("warm")
    return desk.load("warm", wanted).after_s


def _fresh(desk: Desk, wanted: PartitionAssignment) -> float:
    with desk.agent("warm", ROOMY_NBYTES):
        return desk.load("warm", wanted).after_s


# --- cold -------------------------------------------------------------------------------------


def _cold_rows(bench: Bench, desk: Desk, wanted: PartitionAssignment) -> Iterator[Row]:
    rate = QUICK_NBYTES_PER_S if bench.options.quick else FULL_NBYTES_PER_S
    ours, plain, after_s = [], [], []
    nbytes = _nbytes(wanted)
    with Relay([Route(("127.0.0.1", 0), ("127.0.0.1", desk.store.port))], rate) as relay:
        base = f"http://127.0.0.1:{relay.port}"
        for number in range(bench.pick(2, 5)):
            name = f"cold{number}"
            with desk.agent(name, ROOMY_NBYTES):
                ready = desk.load(name, wanted, base)
            ours.append(nbytes / ready.loaded.fetch_s)
            after_s.append(ready.after_s)
            plain.append(nbytes / _download(desk, name, relay.port, wanted))
        yield _resumed(desk, relay, base, wanted)
    link = f"a link of {rate * 8 / MB:.0f} Mbit/s"
    yield measured(
        "loading.cold_share_of_link",
        f"fetching {nbytes / MB:.0f} MB, digests checked: bytes a second as a share of {link}",
        [each / rate for each in ours],
        "",
        at_least(LINK_SHARE),
        Rival("plain download", spread(plain).median / rate),
    )
    yield measured(
        "loading.cold",
        f"from assignment to ready over {link}, nothing cached, runtime not imported",
        after_s,
        "s",
        rival=Rival("plain download, not loaded", nbytes / spread(plain).median),
    )


def _download(desk: Desk, user: str, port: int, wanted: PartitionAssignment) -> float:
    """Seconds of a plain download of all blobs over one connection, hashed as they come."""
    login = desk.login(user)
    token = base64.b64encode(f"{login.user}:{login.secret}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    begun = time.monotonic()
    try:
        for blob in wanted.blobs:
            headers = {"Authorization": f"Basic {token}"}
            connection.request("GET", f"/blobs/{blob.digest}", headers=headers)
            answer = connection.getresponse()
            digest = hashlib.sha256()
            while chunk := answer.read(1 << 18):
                digest.update(chunk)
            if digest.hexdigest() != blob.digest:
                raise OperatorError(f"the store answered {answer.status} for {blob.digest[:12]}")
    finally:
        connection.close()
    return time.monotonic() - begun


def _resumed(desk: Desk, relay: Relay, base: str, wanted: PartitionAssignment) -> Row:
    """The agent is killed amid the download, and started again."""
    before, nbytes = relay.delivered_nbytes(), _nbytes(wanted)
    with desk.agent("killed", ROOMY_NBYTES) as pid:
        desk.assign("killed", [wanted], base)
        deadline = time.monotonic() + LIMIT_S
        while relay.delivered_nbytes() - before < KILLED_AT * nbytes:
            if time.monotonic() > deadline:
                raise TimedOut(f"waited {LIMIT_S:g} s for a download to begin")
            time.sleep(POLL_S)
        os.kill(pid, signal.SIGKILL)
    with desk.agent("killed", ROOMY_NBYTES):
        desk.load("killed", wanted, base)
    return measured(
        "loading.resumed_share",
        "bytes over the link when the agent is killed amid the download, as a share of the "
        "partition's",
        [(relay.delivered_nbytes() - before) / nbytes],
        "",
        at_most(RESUMED_SHARE),
    )


# --- another plan -----------------------------------------------------------------------------


def _again_rows(desk: Desk, manifest: Manifest, span: Span) -> Iterator[Row]:
    """Another range that overlaps: only what is new may be fetched."""
    other = overlapping(span, len(manifest.segments))
    brought, wanted = given(manifest, span), given(manifest, other)
    known = {blob.digest for blob in brought.blobs}
    missing = sum(blob.nbytes for blob in wanted.blobs if blob.digest not in known)
    with desk.agent("again", ROOMY_NBYTES):
        desk.load("again", brought)
        ready = desk.load("again", wanted)
    yield measured(
        "loading.fetched_again",
        f"bytes fetched again for segments {other.first} to {other.last} when {span.first} to "
        f"{span.last} were there",
        [max(0.0, (ready.loaded.fetched_nbytes - missing) / MB)],
        "MB",
        at_most(0.0),
    )


def overlapping(span: Span, segments: int) -> Span:
    """Another range that has something of `span` and, if there is more, something else."""
    if span.first > 0:
        return Span(span.first - 1, max(span.first, span.last - 1))
    return Span(0, min(span.last + 1, segments - 1))
