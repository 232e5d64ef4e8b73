from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.planner.ranking import Candidate, Choice, rank, spread, tier_of
from tests.support.calls import count_calls
from tests.support.tiny_manifest import MB
from wire.errors import InvalidInput

EMPTY = Candidate(
    device="empty",
    resident=False,
    missing_nbytes=10 * MB,
    total_nbytes=10 * MB,
    occupied_by=None,
    queue_depth=0,
    fetch_s=1.0,
    load_s=0.1,
    compute_s=0.1,
    transfer_s=0.01,
)


def like(base: Candidate = EMPTY, **changes: object) -> Candidate:
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type] # names are checked there


RESIDENT = like(device="resident", resident=True, missing_nbytes=0)
CACHED = like(device="cached", missing_nbytes=0, fetch_s=0.0, occupied_by="other[0-1]")
FULL = like(device="full", occupied_by="other[0-1]")


def test_each_of_the_four_tiers_is_reached() -> None:
    assert [tier_of(each) for each in (RESIDENT, CACHED, EMPTY, FULL)] == [1, 2, 3, 4]


def test_resident_comes_before_cached_before_idle_before_evicting() -> None:
    ranked = rank([FULL, EMPTY, CACHED, RESIDENT])
    assert [choice.device for choice in ranked] == ["resident", "cached", "empty", "full"]
    assert [choice.tier for choice in ranked] == [1, 2, 3, 4]


def test_affinity_prefers_a_slow_resident_device_and_cost_the_quick_one() -> None:
    slow = like(RESIDENT, compute_s=60.0)
    assert rank([slow, EMPTY], "affinity")[0].device == "resident"
    assert rank([slow, EMPTY], "cost")[0].device == "empty"


def test_a_tenth_of_the_bytes_is_not_called_cached() -> None:
    assert tier_of(like(missing_nbytes=9 * MB)) == 3
    assert tier_of(like(missing_nbytes=9 * MB), cached_share=0.1) == 2
    assert tier_of(like(missing_nbytes=5 * MB)) == 2


def test_inside_the_cached_tier_fewer_missing_bytes_win() -> None:
    half = like(device="half", missing_nbytes=5 * MB, fetch_s=0.5)
    most = like(device="most", missing_nbytes=1 * MB, fetch_s=0.1)
    assert [choice.device for choice in rank([half, most])] == ["most", "half"]


@pytest.mark.parametrize(
    ("worse", "says"),
    [
        ({"compute_s": 0.5}, "500.0 ms"),
        ({"queue_depth": 5}, "5 tasks wait"),
        ({"battery_percent": 10.0, "charging": False}, "10 % of battery"),
        ({"temperature_c": 44.0}, "hot at 44"),
        ({"fetch_s": 9.0}, "9.0 s"),
        ({"transfer_s": 3.0}, ""),
        ({"load_s": 3.0}, "loads in 3.0 s"),
    ],
)
def test_inside_a_tier_speed_queue_battery_heat_and_link_decide(
    worse: dict[str, object], says: str
) -> None:
    ranked = rank([like(device="a-worse", **worse), EMPTY])
    assert [choice.device for choice in ranked] == ["empty", "a-worse"]
    assert says in ranked[1].reason


def test_a_low_battery_that_charges_is_no_reason() -> None:
    charging = like(device="a", battery_percent=10.0, charging=True)
    assert rank([charging])[0].expected_s == rank([EMPTY])[0].expected_s


def test_equal_devices_are_ranked_by_name_so_that_replays_agree() -> None:
    names = ["c", "a", "b"]
    assert [c.device for c in rank([like(device=name) for name in names])] == ["a", "b", "c"]


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(InvalidInput, match="affinity or cost"):
        rank([EMPTY], "luck")


def choice(device: str, expected_s: float = 1.0) -> Choice:
    return Choice(device, 3, expected_s, 0.5, "because", False, 0, 0.1)


def devices(chosen: list[Choice | None]) -> list[str | None]:
    return [each.device if each else None for each in chosen]


def test_each_partition_gets_a_device_of_its_own() -> None:
    both = [choice("a"), choice("b")]
    assert devices(spread([both, both])) == ["a", "b"]


def test_the_only_device_for_a_later_partition_is_left_for_it() -> None:
    assert devices(spread([[choice("a"), choice("b")], [choice("a")]])) == ["b", "a"]


def test_what_is_fixed_stays_and_is_not_given_away() -> None:
    both = [choice("a"), choice("b")]
    assert devices(spread([both, both], {1: "a"})) == ["b", None]


def test_with_fewer_devices_neighbours_are_on_different_ones() -> None:
    both = [choice("a"), choice("b")]
    assert devices(spread([both] * 5)) == ["a", "b", "a", "b", "a"]


def test_a_partition_that_fits_nowhere_gets_nothing_and_the_others_do() -> None:
    assert devices(spread([[choice("a")], [], [choice("a"), choice("b")]])) == ["a", None, "b"]


def test_inside_a_tier_the_device_that_the_planner_meant_comes_first() -> None:
    quick, meant = like(device="quick", compute_s=0.01), like(device="meant", compute_s=0.2)
    assert [c.device for c in rank([quick, meant], meant="meant")] == ["meant", "quick"]
    assert rank([RESIDENT, meant], meant="meant")[0].device == "resident"
    assert rank([quick, meant], "cost", meant="meant")[0].device == "quick"


# --- of thousands of candidates -------------------------------------------------------------------


def by_trying(ranked: list[list[Choice]], fixed: dict[int, str]) -> list[str | None]:
    """What `spread` promises, word for word, without a bound on what it looks at."""
    free = [index for index in range(len(ranked)) if index not in fixed]
    names = [[choice.device for choice in choices] for choices in ranked]
    if possible([names[i] for i in free], set(fixed.values())):
        return first_that_leaves_one_for_each(names, fixed)
    return least_used(names, fixed)


def possible(wishes: list[list[str]], used: set[str]) -> bool:
    if not wishes:
        return True
    return any(possible(wishes[1:], used | {each}) for each in wishes[0] if each not in used)


def first_that_leaves_one_for_each(
    names: list[list[str]], fixed: dict[int, str]
) -> list[str | None]:
    used, chosen = set(fixed.values()), []
    for index, mine in enumerate(names):
        after = [each for i, each in enumerate(names) if i > index and i not in fixed]
        able = (n for n in mine if n not in used and possible(after, used | {n}))
        chosen.append(None if index in fixed else next(able))
        used.add(chosen[-1] or "")
    return chosen


def least_used(names: list[list[str]], fixed: dict[int, str]) -> list[str | None]:
    where: dict[int, str] = dict(fixed)
    for index, mine in enumerate(names):
        if index not in fixed and mine:
            beside = {where.get(index - 1), where.get(index + 1)}
            uses = Counter(where.values())
            where[index] = min(mine, key=lambda name: (uses[name], name in beside))
    return [None if index in fixed else where.get(index) for index in range(len(names))]


lists_of_names = st.lists(
    st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), min_size=1, max_size=4
)


@given(lists_of_names, st.dictionaries(st.integers(0, 3), st.sampled_from("abcdefgh"), max_size=2))
def test_the_best_few_choices_of_each_partition_decide_like_all_of_them(
    names: list[list[str]], fixed: dict[int, str]
) -> None:
    fixed = {index: name for index, name in fixed.items() if index < len(names)}
    ranked = [[choice(name) for name in each] for each in names]
    assert devices(spread(ranked, fixed)) == by_trying(ranked, fixed)


def test_spreading_costs_the_same_whether_there_are_ten_candidates_or_thousands() -> None:
    few, many = (
        [[choice(f"d{number:05}") for number in range(count)] for _ in range(10)]
        for count in (20, 10_000)
    )
    assert count_calls(lambda: spread(many)) <= 1.5 * count_calls(lambda: spread(few))
    assert spread(many) == spread(few)


def test_no_more_than_the_best_are_told_if_no_more_are_asked_for() -> None:
    able = [like(device=f"d{n}", compute_s=1.0 + n % 7) for n in range(50)]
    assert rank(able, most=5) == rank(able)[:5]
