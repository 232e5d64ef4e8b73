from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.planner.deferral import Outlook, waits


def ask(*stages: Outlook) -> list[float | None]:
    return waits(stages, margin_s=0.05, margin_share=0.2)


def cold(ready_s: float, compute_s: float, **more: object) -> Outlook:
    return Outlook(False, ready_s, compute_s, 0.01, **more)  # type: ignore[arg-type] # test data


def test_the_first_partition_is_due_at_once() -> None:
    assert ask(cold(10.0, 1.0))[0] == 0.0


def test_equal_cold_loads_overlap() -> None:
    assert ask(cold(10.0, 0.1), cold(10.0, 0.1), cold(10.0, 0.1)) == [0.0, 0.0, 0.0]


def test_a_cheap_load_behind_slow_computes_waits_for_them() -> None:
    wait_s = ask(cold(1.0, 5.0), cold(0.1, 0.1))[1]
    assert wait_s is not None
    assert 5.0 < wait_s < 6.0


def test_a_load_is_due_when_it_takes_as_long_as_the_wait_for_its_input() -> None:
    first = Outlook(True, 0.0, 4.0, 0.01, started_s=1.0)
    wait_s = ask(first, cold(1.0, 0.1))[1]
    assert wait_s is not None
    assert abs(wait_s - (3.0 + 0.01 - 1.0 - 0.25)) < 1e-9


def test_an_output_that_waits_parked_makes_the_next_partition_due() -> None:
    first = Outlook(True, 0.0, 100.0, 0.01, started_s=1.0)
    assert ask(first, cold(0.1, 0.1, arrived=True))[1] == 0.0


def test_a_task_that_overruns_is_expected_later_and_not_now() -> None:
    first = Outlook(True, 0.0, 1.0, 0.01, started_s=10.0)
    wait_s = ask(first, cold(0.1, 0.1))[1]
    assert wait_s is not None
    assert wait_s > 4.0


def test_what_is_assigned_has_no_wait() -> None:
    assert ask(Outlook(True, 0.0, 1.0, 0.01), cold(0.1, 0.1))[0] is None


stages = st.lists(
    st.builds(
        Outlook,
        st.booleans(),
        st.floats(0, 100),
        st.floats(0, 100),
        st.floats(0, 10),
        st.booleans(),
        st.none() | st.floats(0, 100),
    ),
    min_size=1,
    max_size=6,
)


@given(stages)
def test_waits_are_never_negative_and_only_for_what_is_not_assigned(given: list[Outlook]) -> None:
    result = waits(given, 0.05, 0.2)
    assert [wait is None for wait in result] == [stage.assigned for stage in given]
    assert all(wait is None or wait >= 0 for wait in result)
