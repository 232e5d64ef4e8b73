"""Whether a run's client is still there, and what becomes of its run if not.

A client says every so often that it is (`Renew`), and every other word of its counts as well. One
that says nothing for `client_lease_s` may be killed, or cut off: nothing more of its runs is let
in, and what is under way is sent home, so that others have the room. Its next word takes that
back. A run that was submitted to go on without a client, and has all its inputs, does so: its
outcomes are kept, and not sent, until another session collects it. Of others, after
`client_gone_s`, as long as its session at the broker lasts, the runs end, and their inputs go from
our disk; results that were made stay for as long as the run's lifetime says, errors alone do not.
Silence counts only while we could hear.
"""

from __future__ import annotations

from orchestrator.machine.records.run import Run
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import aborting, admission
from wire.errors import TimedOut

NEVER = float("inf")


def check(state: State, name: str) -> float:
    """Whether the run's client fell silent; when to look again."""
    run = state.runs.get(name)
    if run is None or state.connection is None:
        return NEVER
    if run.over:
        return _check_reader(state, run)
    if not run.open:
        return NEVER
    if run.goes_alone and run.unread:
        return NEVER
    options = state.options
    since = max(run.heard_at, state.heard_at)
    if state.now >= since + options.client_gone_s:
        _end(state, run)
        return NEVER
    if run.silent:
        return since + options.client_gone_s
    if state.now >= since + options.client_lease_s and run.goes_alone:
        run.leave()
        return NEVER
    if state.now >= since + options.client_lease_s:
        let_wait(state, run)
        return since + options.client_gone_s
    return since + options.client_lease_s


def _check_reader(state: State, run: Run) -> float:
    """It ended, and is kept for its reader. A detached one's outcomes stay for its lifetime."""
    since, options = max(run.heard_at, state.heard_at), state.options
    if not run.unread:
        if state.now < since + options.client_lease_s:
            return since + options.client_lease_s
        run.leave()
    if run.options.detached:
        return NEVER
    if state.now < since + options.client_gone_s:
        return since + options.client_gone_s
    if not run.items and all(outcome.kind is not None for outcome in run.outcomes.values()):
        run.disown()
    return state.now + options.client_gone_s if run.items else NEVER


def let_wait(state: State, run: Run) -> None:
    """Nothing more of it is let in, and what is under way is sent home."""
    run.fall_silent()
    state.budget.promise(run, 0, 0)
    state.counts["silent_client"] += 1
    plan = state.plans.get(run.plan_key)
    for item in list(run.in_flight.values()):
        assert plan is not None, "items in flight are in their run's plan"
        admission.send_home(state, plan, item)


def _end(state: State, run: Run) -> None:
    state.counts["gone_client"] += 1
    limit_s = state.options.client_gone_s
    reason = f"nothing was heard of this run's client for {limit_s:.0f} s, so it ended"
    aborting.end(state, run, TimedOut.kind, reason)
