"""The bounds and delays that the agent keeps by itself; an assignment's `Limits` come on top."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """Durations in seconds.

    `fetch_tries` counts the first try too; between tries the pause doubles from `backoff_s` to
    `backoff_max_s`. Whoever holds frames and hears nothing of them for `restate_s` says again
    what it holds. Events that only inform wait for others to go with, since each message costs
    more than its content: `gather_s` from the newest, and while a task runs up to `gather_busy_s`
    from the first that waits, since more will follow. `log_events` and `remembered`
    bound what is kept in memory of the past; the classes that use them say what happens at the
    bound. Loading, running and evicting may take their floor, and `patience` times what `Pace`
    expects by `load_nbytes_per_s` (of the slowest flash) and by `cost_per_s` (multiply-adds of an
    old phone, until there is a measurement). A task waits `room_s` for room for its output.
    `frame_overhead_nbytes` is what a frame takes beyond its raw bytes at most, as the orchestrator
    reserves it.
    """

    parallel_fetches: int = 2
    fetch_tries: int = 5
    backoff_s: float = 0.5
    backoff_max_s: float = 8.0
    corrupt_refetches: int = 2
    gather_s: float = 0.02
    gather_busy_s: float = 0.1
    repeat_s: float = 5.0
    restate_s: float = 60.0
    repeat_batches: int = 5
    batch_events: int = 200
    log_events: int = 10_000
    remembered: int = 65_536
    remembered_runs: int = 4_096
    residency_s: float = 0.5
    telemetry_s: float = 10.0
    telemetry_least_s: float = 1.0
    stop_s: float = 10.0
    room_s: float = 1.0
    load_floor_s: float = 120.0
    execute_floor_s: float = 240.0
    evict_s: float = 120.0
    patience: float = 20.0
    load_nbytes_per_s: float = 5e6
    cost_per_s: float = 2e9
    least_cost_per_s: float = 1e8
    frame_overhead_nbytes: int = 4096
