"""All runs by id, by model and by plan, which of them have work, and how many are whose."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice

from orchestrator.machine.records.agenda import Agenda
from orchestrator.machine.records.input_budget import InputBudget
from orchestrator.machine.records.item_turns import ItemTurns
from orchestrator.machine.records.plan import PlanKey
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.tally import Tally

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
        self.turns: dict[PlanKey, ItemTurns] = {}  # no key has one that is idle
        self._under_way: dict[str, Run] = {}  # those that did not end
        self.under_way = Tally()  # how many, by party and by user
        self.known = Tally()  # also those that ended and are kept, by user
        self._of_user: dict[str, dict[str, Run]] = {}  # in their order; no user has none
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
        self.known.change(run.user, 1)
        self._of_user.setdefault(run.user, {})[run.run] = run
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
        self._note_under_way(run, there=False)
        self.known.change(run.user, -1)
        theirs = self._of_user[run.user]
        del theirs[run.run]
        if not theirs:
            del self._of_user[run.user]
        self._stop(run)
        self._note_laden(run, laden=False)
        self.hold_back(run)
        self._fly(run, -len(run.in_flight))
        self._budget.forget(run)
        for look in (*LOOKS, *ENDINGS):
            self._agenda.forget(look, run.run)  # type: ignore[arg-type] # literals of `Look`

    def of_model(self, digest: str) -> list[Run]:
        return list(self._of_model.get(digest, {}).values())

    def newest_of(self, user: str, count: int) -> list[Run]:
        """The user's last ones, the newest first."""
        return list(islice(reversed(self._of_user.get(user, {}).values()), count))

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
            self._turns_of(run.plan_key).add(run)
            self._agenda.look("admission", run.plan_key)

    def all_in_turn(self, key: PlanKey) -> None:
        for run in self._working.get(key, {}).values():
            self.may_enter(run)

    def next_in_turn(self, key: PlanKey) -> Run | None:
        """Parties with items that wait come one after another, and so do the runs of each."""
        turns = self.turns.get(key)
        while turns is not None and (run := turns.next()) is not None:
            if run.waiting and run.attended:
                return run
            self.hold_back(run)
        return None

    def hold_back(self, run: Run) -> None:
        """It has as much under way as it may: others enter, until something of it ends."""
        turns = self.turns.get(run.plan_key)
        if turns is not None:
            turns.hold_run(run)
            self._clear_turns(run.plan_key)

    def hold_party_back(self, run: Run) -> None:
        """Its party has as much under way in the plan as it may, until something of that ends."""
        self._turns_of(run.plan_key).hold_party(run.party)

    def in_flight_of_party(self, run: Run) -> int:
        """Items of the run's party under way in its plan, whatever run they are of."""
        turns = self.turns.get(run.plan_key)
        return turns.in_flight[run.party] if turns is not None else 0

    def is_alone(self, run: Run) -> bool:
        """No other party has work for its plan."""
        turns = self.turns.get(run.plan_key)
        return turns is None or turns.parties <= 1

    def took_off(self, run: Run) -> None:
        self._fly(run, 1)

    def landed(self, run: Run) -> None:
        self._fly(run, -1)

    def handed_over(self, run: Run, party: str) -> None:
        """Another session of its user has it: what is counted by party is counted there."""
        flying, working = len(run.in_flight), run.working
        self._note_under_way(run, there=False)
        self._stop(run)
        self.hold_back(run)
        self._fly(run, -flying)
        run.party = party
        self._note_under_way(run, there=not run.over)
        self._fly(run, flying)
        if working:
            self._start(run)
        self.may_enter(run)

    def _fly(self, run: Run, count: int) -> None:
        if count:
            if self._turns_of(run.plan_key).fly(run.party, count):
                self._agenda.look("admission", run.plan_key)
            self._clear_turns(run.plan_key)

    def _turns_of(self, key: PlanKey) -> ItemTurns:
        return self.turns.setdefault(key, ItemTurns())

    def _clear_turns(self, key: PlanKey) -> None:
        if key in self.turns and self.turns[key].idle:
            del self.turns[key]

    # --- what runs tell -----------------------------------------------------------------------

    def run_changed(self, run: Run) -> None:
        """It may have begun or stopped to work, or have its first item, or none any more."""
        self._note_under_way(run, there=not run.over)
        self._note_laden(run, laden=bool(run.items))
        if run.working == (run.run in self._working.get(run.plan_key, {})):
            return
        if run.working:
            self._start(run)
        else:
            self._stop(run)
        self._agenda.look("plan", run.plan_key)

    def _note_under_way(self, run: Run, *, there: bool) -> None:
        if there == (run.run in self._under_way):
            return
        if there:
            self._under_way[run.run] = run
        else:
            del self._under_way[run.run]
        for name in (run.party, run.user):
            self.under_way.change(name, 1 if there else -1)

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
        self._turns_of(key).works(run.party, 1)
        heap = self._oldest.setdefault(key, [])
        heapq.heappush(heap, (run.order, run.run))
        if len(heap) > 2 * len(self._working[key]) + ROOMY:
            heap[:] = sorted((each.order, each.run) for each in self._working[key].values())
        self._agenda.look("idle", "")  # there is work: devices may have to be asked
        self._agenda.look("admission", key)

    def _stop(self, run: Run) -> None:
        working = self._working.get(run.plan_key, {})
        if working.pop(run.run, None) is not None:
            if self._turns_of(run.plan_key).works(run.party, -1):
                self._agenda.look("admission", run.plan_key)
            self._clear_turns(run.plan_key)
        if not working:
            self._working.pop(run.plan_key, None)
            self._oldest.pop(run.plan_key, None)
