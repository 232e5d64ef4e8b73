"""What a trial with a fault shows: nothing missing, nothing twice, and how soon it goes on."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.faults.fault import FAULTS, Struck
from benchmarks.faults.trial import Trial, chosen
from benchmarks.subjects.faults import _rows

KILLED = Struck("agent_killed", at=10.0, able_at=10.0)


def trial(came: list[float], *struck: Struck, items: int = 4) -> Trial:
    return Trial(
        tuple(each.fault for each in struck),
        cold=False,
        items=items,
        counts=Counter(range(len(came))),
        came=came,
        struck=list(struck),
    )


def test_recovery_is_the_longest_that_nothing_comes_once_it_can() -> None:
    found = trial([9.0, 10.5, 13.0, 13.5], KILLED)
    assert found.recovery_s(KILLED) == pytest.approx(2.5)
    later = Struck("broker_killed", at=10.0, able_at=12.0)
    assert found.recovery_s(later) == pytest.approx(1.0)


def test_where_all_was_over_there_was_nothing_to_recover() -> None:
    assert trial([7.0, 8.0], KILLED).recovery_s(KILLED) is None


@pytest.mark.parametrize("fault", ["missing", "twice", "wrong", "error"])
def test_a_trial_is_whole_only_if_all_came_once_and_right(fault: str) -> None:
    found = trial([1.0, 2.0, 3.0, 4.0], KILLED)
    assert found.whole
    if fault == "missing":
        del found.counts[0]
    elif fault == "twice":
        found.counts[0] += 1
    elif fault == "wrong":
        found.wrong.append(0)
    else:
        found.error = "it ended"
    assert not found.whole


def test_every_fault_has_a_row_and_pairs_are_no_ones_recovery() -> None:
    alone = trial([11.0, 12.0, 13.0, 14.0], KILLED)
    pair = trial([11.0, 40.0, 41.0, 42.0], KILLED, Struck("broker_killed", 10.0, 12.0))
    rows = {row.name: row for row in _rows([alone, pair], 2)}
    assert rows["faults.delivered"].value == 8
    assert rows["faults.agent_killed"].value == pytest.approx(1.0)
    assert rows["faults.broker_killed"].value is None
    assert rows["faults.agent_killed"].met


def test_every_kind_is_the_first_fault_of_as_many_trials_and_a_trial_can_be_repeated() -> None:
    numbers = range(3 * len(FAULTS))
    firsts = Counter(chosen(number)[0] for number in numbers)
    assert firsts == dict.fromkeys(FAULTS, 3)
    assert [chosen(number) for number in numbers] == [chosen(number) for number in numbers]
    assert {len(chosen(number)) for number in numbers} == {1, 2}


def test_a_trial_that_was_not_made_is_a_trial_that_failed() -> None:
    rows = {row.name: row for row in _rows([trial([11.0, 12.0, 13.0, 14.0], KILLED)], 2)}
    assert rows["faults.whole"].met is False
    assert rows["faults.delivered"].met is False


def test_a_cold_start_is_no_recovery_unless_that_is_what_failed() -> None:
    cold = trial([11.0, 29.0, 30.0, 31.0], KILLED)
    cold.cold = True
    rows = {row.name: row for row in _rows([cold], 1)}
    assert rows["faults.agent_killed"].value is None
