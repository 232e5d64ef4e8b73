"""All runs by id, by model and by plan, and which of them have work."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping

from orchestrator.machine.records.agenda import Agenda
from orchestrator.machine.records.input_budget import InputBudget
from orchestrator.machine.records.plan import PlanKey
from orchestrator.machine.records.run import Run

ROOMY = 64  # runs that stopped working and are not worth sweeping out
LOOKS = ("attached", "client", "model", "waiting", "barrier", "credit", "obstacle", "end")
ENDINGS = ("progress", "expiry")


class Runs(Mapping[str, Run]):
    """A run works while it has items without an outcome, is open, and its client is there. It is
    laden while it has such items, whoever waits for them."""

    def __init__(self, agenda: Agenda, budget: InputBudget) -> None:
        self._agenda, self._budget = agenda, budget
        self._runs: dict[str, Run] = {}
        self._of_model: dict[str, dict[str, Run]] = {}
        self._working: dict[PlanKey, dict[str, Run]] = {}  # no key has an empty entry
        self._laden: dict[PlanKey, dict[str, Run]] = {}  # nor here
        # Per plan by age. Those that stopped working meanwhile are taken out when they come up.
        self._oldest: dict[PlanKey, list[tuple[int, str]]] = {}
        self._turns: dict[PlanKey, dict[str, Run]] = {}  # per plan, who may have an item admitted
        self._order = 0

    def __getitem__(self, run: str) -> Run:
        return self._runs[run]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, run: Run) -> None:
        self._order += 1
        run.order, run.keeper = self._order, self
        self._runs[run.run] = run
        self._of_model.setdefault(run.model, {})[run.run] = run
        self.run_changed(run)

    def remove(self, run: Run) -> None:
        """Nothing of it is needed any more."""
        for item in list(run.items.values()):
            item.leave()
        run.keeper = None
        del self._runs[run.run]
        siblings = self._of_model[run.model]
        del siblings[run.run]
        if not siblings:
            del self._of_model[run.model]
        self._stop(run)
        self._note_laden(run, laden=False)
        self.hold_back(run)
        self._budget.forget(run)
        for look in (*LOOKS, *ENDINGS):
            self._agenda.forget(look, run.run)  # type: ignore[arg-type] # literals of `Look`

    def of_model(self, digest: str) -> list[Run]:
        return list(self._of_model.get(digest, {}).values())

    def laden(self, key: PlanKey) -> list[Run]:
        """Those with items without an outcome in the plan, also if their client is silent."""
        return list(self._laden.get(key, {}).values())

    def working(self, key: PlanKey) -> list[Run]:
        """Those with work for the plan."""
        return list(self._working.get(key, {}).values())

    @property
    def any_work(self) -> bool:
        return bool(self._working)

    def leader(self, key: PlanKey) -> Run | None:
        """The oldest run with work for the plan; its wish counts."""
        working, heap = self._working.get(key), self._oldest.get(key)
        if working is None or heap is None:
            return None
        while heap[0][1] not in working:
            heapq.heappop(heap)
        return working[heap[0][1]]

    # --- whose item enters next ---------------------------------------------------------------

    def may_enter(self, run: Run) -> None:
        """It has an item that waits, and nothing of its own holds it back any more."""
        if run.waiting and run.attended:
            self._turns.setdefault(run.plan_key, {}).setdefault(run.run, run)
            self._agenda.look("admission", run.plan_key)

    def all_in_turn(self, key: PlanKey) -> None:
        for run in self._working.get(key, {}).values():
            self.may_enter(run)

    def next_in_turn(self, key: PlanKey) -> Run | None:
        """Runs with items that wait come one after another."""
        turns = self._turns.get(key, {})
        while turns:
            name = next(iter(turns))
            run = turns.pop(name)
            if run.waiting and run.attended:
                turns[name] = run
                return run
        self._turns.pop(key, None)
        return None

    def hold_back(self, run: Run) -> None:
        """It has as much under way as it may: others enter, until something of it ends."""
        self._turns.get(run.plan_key, {}).pop(run.run, None)

    # --- what runs tell -----------------------------------------------------------------------

    def run_changed(self, run: Run) -> None:
        """It may have begun or stopped to work, or have its first item, or none any more."""
        self._note_laden(run, laden=bool(run.items))
        if run.working == (run.run in self._working.get(run.plan_key, {})):
            return
        if run.working:
            self._start(run)
        else:
            self._stop(run)
        self._agenda.look("plan", run.plan_key)

    def _note_laden(self, run: Run, *, laden: bool) -> None:
        runs = self._laden.setdefault(run.plan_key, {})
        if laden:
            runs[run.run] = run
        else:
            runs.pop(run.run, None)
        if not runs:
            del self._laden[run.plan_key]

    def _start(self, run: Run) -> None:
        key = run.plan_key
        self._working.setdefault(key, {})[run.run] = run
        heap = self._oldest.setdefault(key, [])
        heapq.heappush(heap, (run.order, run.run))
        if len(heap) > 2 * len(self._working[key]) + ROOMY:
            heap[:] = sorted((each.order, each.run) for each in self._working[key].values())
        self._agenda.look("idle", "")  # there is work: devices may have to be asked
        self._agenda.look("admission", key)

    def _stop(self, run: Run) -> None:
        working = self._working.get(run.plan_key, {})
        working.pop(run.run, None)
        if not working:
            self._working.pop(run.plan_key, None)
            self._oldest.pop(run.plan_key, None)
