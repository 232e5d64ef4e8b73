"""From what real connections took to rows. Arithmetic only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.crowd.live import KNOWN, RATE, Live
from benchmarks.row import Rival, Row, Target, at_most, measured, skipped

CORE_PERCENT = 20.0
START_S = 10.0
KB = 1e3


def live_rows(live: Live) -> Iterator[Row]:
    few = f"{live.connected:,} devices"
    yield _row(
        live,
        "start",
        f"from starting the orchestrator until it has read all that {KNOWN:,} devices retain",
        [live.start_s] if live.start_s is not None else [],
        "s",
        at_most(START_S),
        Rival("nothing retained", live.empty_start_s) if live.empty_start_s else None,
    )
    yield _row(
        live,
        "memory_per_device",
        f"memory of the orchestrator after that, for each of {KNOWN:,} devices",
        [(live.start_nbytes - live.empty_nbytes) / KNOWN / KB] if live.start_nbytes else [],
        "KB",
    )
    yield _row(
        live,
        "idle_core",
        f"{few} connected and silent: the orchestrator's share of a core",
        _percent(live.idle),
        "%",
    )
    yield from _telemetry_rows(live, few)


def _telemetry_rows(live: Live, few: str) -> Iterator[Row]:
    rate = f"{RATE:,.0f} telemetry messages a second, as of {KNOWN:,} devices"
    heard = _percent(live.few.orchestrator)
    yield _row(
        live,
        "telemetry_core",
        f"{rate}, all of whom are known: the orchestrator's share of a core",
        _percent(live.all.orchestrator),
        "%",
        at_most(CORE_PERCENT),
        Rival(f"{few} known", median(heard)) if heard else None,
    )
    yield _row(
        live,
        "telemetry_core_few",
        f"{rate}, of whom {live.connected:,} are known: the orchestrator's share of a core",
        heard,
        "%",
    )
    yield _row(
        live,
        "telemetry",
        "a telemetry message, from the socket to the machine's last word: processor time",
        [1e6 * core / RATE for core in live.all.orchestrator or live.few.orchestrator],
        "us",
    )
    yield _row(
        live,
        "broker_core",
        f"{rate}: the broker's share of a core",
        _percent(live.all.broker or live.few.broker),
        "%",
    )


def _percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def _row(
    live: Live,
    name: str,
    says: str,
    values: Sequence[float],
    unit: str,
    target: Target | None = None,
    rival: Rival | None = None,
) -> Row:
    whole = f"growth.mqtt_{name}"
    if values:
        return measured(whole, says, values, unit, target, rival)
    return skipped(whole, says, unit, live.why, target)
