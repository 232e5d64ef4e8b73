"""A desk that speaks no version of ours is not obeyed; the agent stays, says why, and waits."""

from __future__ import annotations

import pytest

from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from tests.support.agent_bench import Bench, partition
from wire.messages.commands import Ping
from wire.messages.events import Pong
from wire.messages.state import OrchestratorState

A, B = partition(0, 1), partition(2, 3)


def hear(bench: Bench, generation: int, oldest: int | None, newest: int) -> None:
    state = OrchestratorState(
        "online",
        f"o{generation}",
        f"b{generation}",
        generation,
        "0",
        newest,
        oldest_wire_version=oldest,
    )
    bench.do(happened.OrchestratorSeen(state, False))


def connected() -> Bench:
    bench = Bench()
    bench.connect()
    return bench


@pytest.mark.parametrize(("oldest", "newest"), [(2, 3), (None, 2), (0, 0), (None, 0)])
def test_it_is_not_obeyed_and_people_see_both_versions(oldest: int | None, newest: int) -> None:
    bench = connected()
    hear(bench, 1, oldest, newest)
    state = bench.the_last(told.PublishState).state
    assert state.status == "online"
    assert "the agent speaks wire version 1, the desk" in (state.reason or "")
    bench.assign(A)
    bench.command(Ping("n"))
    assert not bench.fetching
    assert bench.machine.assignment is None
    assert not bench.reported(Pong)
    assert bench.machine.counts["foreign_orders"] == 2


@pytest.mark.parametrize(("oldest", "newest"), [(1, 1), (None, 1), (1, 4), (0, 1), (0, 3)])
def test_one_with_a_version_in_common_is_obeyed(oldest: int | None, newest: int) -> None:
    bench = connected()
    hear(bench, 1, oldest, newest)
    bench.assign(A)
    assert bench.fetching
    assert bench.machine.counts["foreign_orders"] == 0


def test_it_goes_on_by_itself_once_the_desk_is_updated() -> None:
    bench = connected()
    hear(bench, 1, 2, 2)
    bench.assign(A)
    hear(bench, 2, 1, 2)
    assert bench.the_last(told.PublishState).state.reason is None
    bench.assign(B, generation=2)
    assert bench.machine.assignment is not None
    assert bench.fetching


def test_it_says_so_again_when_it_connects_anew() -> None:
    bench = connected()
    hear(bench, 1, 2, 2)
    bench.do(happened.Disconnected("why"))
    bench.connect()
    assert "wire version" in (bench.the_last(told.PublishState).state.reason or "")


def test_what_it_serves_for_the_desk_before_stays() -> None:
    bench = Bench()
    bench.serve(A)
    hear(bench, 2, 2, 2)
    bench.arrive(0)
    assert bench.all_last(told.Execute)


def test_old_words_of_a_desk_of_before_change_nothing() -> None:
    bench = connected()
    hear(bench, 2, 1, 1)
    hear(bench, 1, 7, 7)
    bench.assign(A, generation=2)
    assert bench.fetching
