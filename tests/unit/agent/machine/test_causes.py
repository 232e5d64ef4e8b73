"""Every step of every life says what it answered, and every event can be put into words."""

from __future__ import annotations

from typing import get_args

import pytest

from edge_agent.machine.records import events as happened
from edge_agent.machine.records.cause import _LARGE, _WORDS, in_words, stimulus_of
from edge_agent.machine.records.instructions import Execute, FetchBlob, Load
from edge_agent.machine.records.instructions import in_words as instruction_in_words
from edge_agent.machine.records.transitions import life_of
from tests.support.agent_bench import Bench, partition, route
from wire.ids import ActivationId
from wire.lifecycle import Cause, IllegalTransition
from wire.messages import commands as cmd
from wire.messages.assignment import Assignment

A = partition(0, 1)


def test_every_event_and_command_has_its_words() -> None:
    known = _LARGE.keys() | _WORDS.keys()
    assert known == set(get_args(happened.Event)) | set(get_args(cmd.Command))
    assert not _LARGE.keys() & _WORDS.keys()


def test_a_history_says_why_each_state_was_entered() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "tablet"),))
    bench.arrive(3, sender="laptop")
    entry = bench.machine._agent.held.inputs[ActivationId("r", 3, 0)]
    assert entry.life.told[1] == "waiting at 100.000, as frame r/3@0 arrived from laptop"
    bench.executed(bench.running)
    output = bench.machine._agent.held.outputs[ActivationId("r", 3, 2)]
    bench.command(cmd.Send("r", 2, (3,), "desk"))
    assert [why for _, _, why in output.life.history[1:]] == ["tablet", "desk"]
    assert output.life.told[1].endswith("as task r/3[0-1]#0 was executed")
    assert output.life.told[2].endswith("as told to send r/3@2 to desk")


def test_an_illegal_step_tells_what_was_answered_and_all_steps_before() -> None:
    cause = Cause(in_words)
    life = life_of("task", "r/0@0", "arrived", cause)
    life.move("waiting", 1.0)
    cause.stimulus = happened.StopAsked("the battery is low")
    with pytest.raises(IllegalTransition, match="waiting -> done, as asked to stop: the battery"):
        life.move("done", 2.0)


def test_no_history_keeps_an_assignment_in_memory() -> None:
    assignment = Assignment(4, 17, "http://store", (A,))
    assert stimulus_of(happened.AssignmentArrived(assignment)) == "assignment 4.17 arrived"


def test_many_items_are_put_into_few_words() -> None:
    assert in_words(cmd.Release("r", 2, tuple(range(100)))) == (
        "told to release r/0, 1, 2 and 97 more@2"
    )
    assert in_words(cmd.Cancel("r")) == "told to cancel r/all items"


def test_instructions_are_shown_by_what_they_are_about() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A)
    assert instruction_in_words(bench.all_last(FetchBlob)[0]) == f"FetchBlob {A.blobs[0].digest}"
    bench.fetch_all()
    assert instruction_in_words(bench.the_last(Load)) == f"Load {A.partition}"
    bench.ready(A)
    bench.arrive(0)
    assert instruction_in_words(bench.the_last(Execute)) == "Execute r/0[0-1]#0"
