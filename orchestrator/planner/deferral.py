"""When a partition is to be assigned: as late as its fetch and load allow, never later.

Pure. A stage's first input comes when the stage before has had its own, is loaded, has computed
and has sent. A stage is due once its fetch and load, with a margin, take as long as that wait.
Asked again with each event, so that estimates give way to what happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LATE_SHARE = 0.5  # a task that overran its estimate is taken to need half as long again


@dataclass(frozen=True, slots=True)
class Outlook:
    """One stage as it stands. `ready_s` is what fetch and load still take (all of it if not yet
    assigned), `compute_s` one task (a whole wave in barrier mode), `transfer_s` the input's way.
    `arrived`: an input is here, or waits parked before it. `started_s` ago its first task began."""

    assigned: bool
    ready_s: float
    compute_s: float
    transfer_s: float
    arrived: bool = False
    started_s: float | None = None


def waits(stages: Sequence[Outlook], margin_s: float, margin_share: float) -> list[float | None]:
    """For each stage the seconds until it is due to be assigned; None if it is already.

    The first stage is due at once: its input was admitted.
    """
    arrival_s = 0.0
    result: list[float | None] = []
    for index, stage in enumerate(stages):
        if stage.arrived or stage.started_s is not None:
            arrival_s = 0.0
        elif index == 0:
            arrival_s = stage.transfer_s
        margin = margin_s + margin_share * stage.ready_s
        at_once = index == 0 or stage.arrived
        wait_s = 0.0 if at_once else max(0.0, arrival_s - stage.ready_s - margin)
        result.append(None if stage.assigned else wait_s)
        arrival_s = _output_s(stage, arrival_s, wait_s)
        if index + 1 < len(stages):
            arrival_s += stages[index + 1].transfer_s
    return result


def _output_s(stage: Outlook, arrival_s: float, wait_s: float) -> float:
    """Seconds until the stage's first output."""
    if stage.started_s is not None:
        late_s = LATE_SHARE * stage.started_s
        left_s = stage.compute_s - stage.started_s
        return left_s if left_s > 0 else late_s
    loaded_s = stage.ready_s if stage.assigned else wait_s + stage.ready_s
    return max(arrival_s, loaded_s) + stage.compute_s
