"""The bounds and delays that the agent has by itself; an assignment's `Limits` come on top."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """What happens at a bound is said by the class that uses it."""

    parallel_fetches: int = 2
    fetch_tries: int = 5  # of a blob, the first one included
    backoff_s: float = 0.5  # after the first failed try; doubles with each …
    backoff_max_s: float = 8.0  # … up to this
    corrupt_refetches: int = 2  # of a partition whose blobs are found corrupt
    # Each message costs more than its content, so events that only inform wait for others: so long
    # after the newest, and while a task runs, whose end will follow, so long after the first.
    gather_s: float = 0.02
    gather_busy_s: float = 0.25
    # Tasks that take less than `group_s` together are executed in one go, at most so many: each
    # change between threads and each message costs as much as a small task.
    group_s: float = 0.02
    group_tasks: int = 32
    # After a load, so many starts of tasks are told at once: who took over from a device that died
    # may die of the same, and then nothing that waits is told any more.
    told_starts: int = 8
    repeat_s: float = 5.0  # between repeats of what was not acknowledged
    repeat_batches: int = 5  # in one repeat
    batch_events: int = 200  # in one batch
    restate_s: float = 60.0  # after which what is held, and nobody mentions, is reported again
    log_events: int = 10_000  # kept until they are acknowledged
    remembered: int = 65_536  # finished tasks, opened inputs, requested sends, cancelled runs
    residency_s: float = 0.5  # between residencies of which only numbers differ
    telemetry_s: float = 10.0  # between telemetry messages …
    telemetry_least_s: float = 1.0  # … if no threshold is crossed; and if one is
    stop_s: float = 10.0  # for draining
    room_s: float = 1.0  # that a task waits for room for its output
    # Loading, running and evicting may take their floor, and `patience` times what `Pace` expects.
    load_floor_s: float = 120.0
    execute_floor_s: float = 240.0
    evict_s: float = 120.0
    patience: float = 20.0
    load_nbytes_per_s: float = 5e6  # of the slowest flash
    cost_per_s: float = 2e9  # multiply-adds of an old phone, until one was measured
    least_cost_per_s: float = 1e8  # whatever was measured
    # What a frame takes beyond its raw bytes at most, as the orchestrator reserves it.
    frame_overhead_nbytes: int = 4096
