"""The orchestrator's disk: survives its crashes. Refuses a second outcome for an item."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from orchestrator.machine.records.events import Outcome, StoredRun
from orchestrator.machine.records.instructions import StoreRun
from orchestrator.planner.times import SegmentTime


@dataclass
class KeptRun:
    record: StoreRun
    stored_at: float
    count: int | None
    fault: tuple[str, str] | None = None
    inputs: dict[int, str] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    deaths: dict[tuple[int, str, str], None] = field(default_factory=dict)
    came_at: dict[int, float] = field(default_factory=dict)


class Journal:
    def __init__(self) -> None:
        self.generation = 0
        self.times: dict[tuple[str, bool, str, int], SegmentTime] = {}
        self.absences: dict[str, float] = {}
        self.runs: dict[str, KeptRun] = {}
        self.ever: dict[tuple[str, int], str | None] = {}
        self.told: set[tuple[str, int]] = set()  # errors that a full disk did not keep

    def store_run(self, record: StoreRun, now: float) -> None:
        if record.run not in self.runs:
            self.runs[record.run] = KeptRun(record, now, record.count)

    def store_input(self, run: str, item: int, value: str, now: float) -> None:
        self.runs[run].inputs[item] = value
        self.runs[run].came_at[item] = now

    def store_outcome(self, run: str, outcome: Outcome, value: str | None) -> None:
        key = (run, outcome.item)
        assert key not in self.ever, f"a second outcome for {key}"
        self.ever[key] = outcome.kind
        self.runs[run].outcomes[outcome.item] = outcome
        if value is not None:
            self.runs[run].results[outcome.item] = value

    def acknowledge(self, run: str, items: tuple[int, ...]) -> None:
        known = self.runs.get(run)
        for item in items if known else ():
            assert known is not None
            if item in known.outcomes:
                known.outcomes[item] = replace(known.outcomes[item], acknowledged=True)
            known.results.pop(item, None)

    def replay(self, now: float) -> tuple[StoredRun, ...]:
        return tuple(
            StoredRun(
                run=name,
                party=run.record.party,
                model_name=run.record.model_name,
                model=run.record.model,
                options=run.record.options,
                count=run.count,
                inputs=tuple(sorted(run.inputs)),
                outcomes=tuple(run.outcomes.values()),
                age_s=now - run.stored_at,
                fault=run.fault,
                deaths=tuple(run.deaths),
            )
            for name, run in self.runs.items()
        )
