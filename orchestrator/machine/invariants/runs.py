"""Runs, their items, the room for inputs, and which items each device may hold something of."""

from __future__ import annotations

from collections import Counter

from orchestrator.machine.invariants.checks import check, check_same
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.item_turns import ItemTurns
from orchestrator.machine.records.plan import PlanKey
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State


def check_runs(state: State) -> None:
    for run in state.runs.values():
        _check_items(run)
        _check_numbers(run)
        if run.wave:
            flying = all(index in run.in_flight for index in run.wave)
            check(run.options.barrier and flying, f"run {run.run}: its wave is not in flight")
    _check_budget(state)
    _check_whose(state)
    _check_working(state)
    _check_turns(state)
    _check_involved(state)


def _check_items(run: Run) -> None:
    by_state: dict[str, list[int]] = {}
    for index, item in run.items.items():
        check(item.key == (run.run, index), f"item {item.key} is filed as {run.run}/{index}")
        check(index not in run.ended, f"item {item.key} is listed, and ended")
        by_state.setdefault(item.state, []).append(index)
        _check_suspicion(item)
        beyond = item.hedges.keys() - item.detours.keys()
        check(not beyond, f"item {item.key} is done twice at stages {beyond}, and on one device")
    check_same(f"run {run.run}: waiting items", run.waiting, sorted(by_state.get("stored", [])))
    admitted = sorted(by_state.get("admitted", []))
    check_same(f"run {run.run}: items in flight", sorted(run.in_flight), admitted)


def _check_suspicion(item: Item) -> None:
    suspicion = item.suspicion
    check(item.state != "suspect" or suspicion is not None, f"item {item.key}: suspect of nothing")
    if suspicion is not None:
        check(bool(suspicion.deaths), f"item {item.key}: suspect without a death")
        known = suspicion.alone is None or suspicion.alone in suspicion.deaths
        check(known, f"item {item.key}: tried alone by {suspicion.alone}, who did not end")


def _check_numbers(run: Run) -> None:
    ended = len(run.ended)
    check_same(f"run {run.run}: items done and failed", run.done + run.failed, ended)
    kept = run.ended.without(run.acknowledged)
    lost = [index for index in run.outcomes if index not in kept]
    check(not lost, f"run {run.run}: outcomes of items that did not end, or are fetched: {lost}")
    check_same(f"run {run.run}: outcomes that are kept", len(run.outcomes), len(kept))
    check(run.highest >= max(run.items, default=-1), f"run {run.run}: an item beyond its highest")
    check(run.active_at >= run.heard_at, f"run {run.run}: heard after its last activity")
    left = run.unread and run.open and not run.silent
    check(run.options.detached or not left, f"run {run.run}: goes on, and nobody reads it")
    untold = run.happenings.count - run.happenings.told
    check(untold >= 0, f"run {run.run}: more was told of it than happened")
    if run.count is not None:
        check(ended <= run.count, f"run {run.run}: {ended} of {run.count} items ended")


def _check_budget(state: State) -> None:
    runs, budget = list(state.runs.values()), state.budget
    spooled = sum(run.spooled_nbytes for run in runs)
    check_same("bytes of inputs on disk", budget.spooled_nbytes, spooled)
    promised = sum(run.promised_nbytes for run in runs)
    check_same("bytes that clients may send", budget.promised_nbytes, promised)
    of_users: dict[str, int] = {}
    for run in runs:
        nbytes = run.spooled_nbytes + run.promised_nbytes
        of_users[run.user] = of_users.get(run.user, 0) + nbytes
    of_users = {user: nbytes for user, nbytes in of_users.items() if nbytes}
    check_same("bytes of each user's inputs", dict(budget.taken_nbytes), of_users)
    for run in runs:
        held = sum(item.nbytes for item in run.items.values() if item.has_input)
        check_same(f"run {run.run}: bytes of inputs on disk", run.spooled_nbytes, held)
        check(
            run.attended or not run.granted or not run.open, f"run {run.run}: silent, and granted"
        )
    gone = [name for name in budget.refused if name not in state.runs]
    check(not gone, f"runs that are gone wait for room: {gone}")


def _check_whose(state: State) -> None:
    """How many runs each party and user has."""
    under_way = [run for run in state.runs.values() if not run.over]
    expected = Counter(name for run in under_way for name in (run.party, run.user))
    check_same("runs under way", dict(state.runs.under_way), dict(expected))
    known = Counter(run.user for run in state.runs.values())
    for user, count in known.items():
        kept = {run.run for run in state.runs.newest_of(user, len(state.runs))}
        theirs = {run.run for run in state.runs.values() if run.user == user}
        check_same(f"runs of {user}", kept, theirs)
        check_same(f"how many runs {user} has", len(kept), count)
    check_same("runs of each user", dict(state.runs.known), dict(known))


def _check_turns(state: State) -> None:
    """Whose items are under way, and who has work, by plan."""
    flying: dict[PlanKey, Counter[str]] = {}
    working: dict[PlanKey, Counter[str]] = {}
    for run in state.runs.values():
        flying.setdefault(run.plan_key, Counter())[run.party] += len(run.in_flight)
        working.setdefault(run.plan_key, Counter())[run.party] += run.working
    for key in {*flying, *state.runs.turns}:
        turns = state.runs.turns.get(key, ItemTurns())
        for what, found, expected in (
            ("items in flight", turns.in_flight, +flying.get(key, Counter())),
            ("runs with work", turns.working, +working.get(key, Counter())),
        ):
            check_same(f"{what} of each party in {key}", dict(found), dict(expected))
        for party in turns.held:
            check(party in turns.in_flight, f"{party} is held back in {key}, and has nothing there")


def _check_working(state: State) -> None:
    keys = {run.plan_key for run in state.runs.values()}
    for key in keys:
        working = [run for run in state.runs.values() if run.plan_key == key and run.working]
        kept = sorted(run.order for run in state.runs.working(key))
        check_same(f"runs with work for {key}", kept, sorted(run.order for run in working))
        oldest = min(working, key=lambda run: run.order, default=None)
        check(state.runs.leader(key) is oldest, f"the oldest run with work for {key} does not lead")
        laden = {run.run for run in state.runs.values() if run.plan_key == key and run.items}
        check_same(f"runs with items in {key}", {run.run for run in state.runs.laden(key)}, laden)
    check_same("any work", state.runs.any_work, any(run.working for run in state.runs.values()))


def _check_involved(state: State) -> None:
    expected: dict[str, set[tuple[str, int]]] = {}
    for run in state.runs.values():
        for item in run.items.values():
            for device in item.touched:
                expected.setdefault(device, set()).add(item.key)
            holders = [*item.holders(), *(device for _, device in item.strays)]
            beyond = [device for device in holders if device not in item.touched]
            check(not beyond, f"item {item.key} is held by {beyond}, who were never involved")
    found = {
        device: {item.key for item in state.involved.of(device)}
        for device in state.involved.devices()
    }
    check_same("items that devices are involved in", found, expected)
