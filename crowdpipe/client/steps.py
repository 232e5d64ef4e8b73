"""What follows for one run, when something about it changed or it is due: what is said and sent.

Each step changes the run and returns its instructions. Which runs are looked at, when one ends,
and what events mean is the machine's affair.
"""

from __future__ import annotations

from collections.abc import Collection

from crowdpipe.client.instructions import Grant, Instruction, Say, SendInput
from crowdpipe.client.runs import ACK_COUNT, ClientRun
from wire.due_times import NEVER
from wire.messages.requests import (
    ACKNOWLEDGED_COUNT,
    AcknowledgeResults,
    CancelRun,
    CollectRun,
    Finish,
    LeaveRun,
    Renew,
    Resume,
    Submit,
)

SUBMIT_AGAIN_S = 2.0
ASK_AGAIN_S = 5.0  # doubled each time that nothing new came
ASK_AGAIN_MOST_S = 60.0
RENEW_COUNT = 500  # runs named in one message


def advance(run: ClientRun, now: float) -> list[Instruction]:
    """There is a connection: submit it, or serve it."""
    out: list[Instruction] = []
    if run.state != "submitting":
        out += _serve(run, now)
    elif now >= run.submit_at():
        out += _submit(run, now)
    # Also before it is accepted: what says so may be lost, and the outcomes come all the same.
    if now >= run.ack_at or len(run.acks) >= ACK_COUNT:
        out += acknowledge(run)
    return [*out, *_grant(run)]


def _serve(run: ClientRun, now: float) -> list[Instruction]:
    unheard = run.unsure or (run.pending and now >= run.repeat_at)
    asked = _resume(run, now) if unheard else []
    sent = [SendInput(run.input(item)) for item in run.send_credited()]
    return [*asked, *sent, *_finish(run)]


def _submit(run: ClientRun, now: float) -> list[Instruction]:
    """Say it, and send the first inputs right behind."""
    if run.asked.collect:
        run.repeat_at = now + SUBMIT_AGAIN_S
        return [Say(CollectRun(run.name, run.asked.model))]
    asked, attached = run.asked, run.send_attached()
    run.repeat_at = now + SUBMIT_AGAIN_S
    said = Say(Submit(run.name, asked.model, asked.options, asked.count, len(attached)))
    return [said, *(SendInput(run.input(item)) for item in attached)]


def _resume(run: ClientRun, now: float) -> list[Instruction]:
    """Ask what is stored, and for every outcome that was not acknowledged."""
    acknowledged = acknowledge(run)
    run.unsure, run.resuming, run.finished = False, True, False
    run.repeat_s = min(ASK_AGAIN_MOST_S, max(ASK_AGAIN_S, 2 * run.repeat_s))
    run.repeat_at = now + run.repeat_s
    return [*acknowledged, Say(Resume(run.name, not run.leaves))]


def _finish(run: ClientRun) -> list[Instruction]:
    """Tell the count, once all inputs are there: nothing of the run comes after it."""
    if run.count is None or not run.counts_late or run.finished or run.unstored:
        return []
    run.finished = True
    return [Say(Finish(run.name, run.count))]


def finish_late(run: ClientRun) -> list[Instruction]:
    """Every outcome is here, but the orchestrator may not know yet that this was all."""
    if run.complete and run.counts_late and not run.finished:
        return [Say(Finish(run.name, run.count or 0))]
    return []


def _grant(run: ClientRun) -> list[Instruction]:
    total = run.may_offer()
    if total <= run.granted:
        return []
    run.granted = total
    return [Grant(run.name, total)]


def acknowledge(run: ClientRun) -> list[Instruction]:
    """The outcomes that were handed out and not acknowledged yet."""
    acks, run.acks, run.ack_at = run.acks, [], NEVER
    return [Say(AcknowledgeResults(run.name, tuple(acks)))] if acks else []


def abandon(run: ClientRun) -> list[Instruction]:
    """Nobody here wants more of it."""
    if run.asked.collect:
        return leave(run.name)
    return [Say(CancelRun(run.name))] if run.submitted else []


def leave(name: str, kept: tuple[int, ...] = ()) -> list[Instruction]:
    """Whoever collects the run next gets what was not kept."""
    parts = range(0, len(kept), ACKNOWLEDGED_COUNT)
    told = [Say(AcknowledgeResults(name, kept[at : at + ACKNOWLEDGED_COUNT])) for at in parts]
    return [*told, Say(LeaveRun(name))]


def come_late(name: str, item: int, over: Collection[str]) -> list[Instruction]:
    """An outcome of no run that goes on here. Of one that is over it need not be kept; of one that
    was collected and left, what nobody took is for whoever collects it next."""
    return [Say(AcknowledgeResults(name, (item,)))] if name in over else []


def renew(names: tuple[str, ...]) -> list[Instruction]:
    """These runs are still wanted."""
    parts = range(0, len(names), RENEW_COUNT)
    return [Say(Renew(names[at : at + RENEW_COUNT])) for at in parts]


def progress(run: ClientRun, now: float) -> None:
    """Something new came of it: it need not be asked after for a while."""
    run.progress_at = now
    run.repeat_s = 0.0
    run.repeat_at = now + ASK_AGAIN_S
