"""How often somebody may do something; nobody is remembered for longer than it matters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.machine.records.allowances import Allowances


def spent(allowances: Allowances, name: str, now: float, tries: int) -> int:
    """How many of so many tries were allowed at once."""
    done = 0
    for _ in range(tries):
        if allowances.wait_s(name, now) <= 0:
            allowances.spend(name, now)
            done += 1
    return done


def test_so_many_may_come_at_once_and_then_so_many_a_second():
    allowances = Allowances(per_s=10.0, burst=20)
    assert spent(allowances, "a", 100.0, 50) == 20
    assert spent(allowances, "a", 100.0, 50) == 0
    assert spent(allowances, "b", 100.0, 50) == 20
    assert spent(allowances, "a", 100.5, 50) == 5
    assert spent(allowances, "a", 110.0, 50) == 20


def test_it_says_how_long_to_wait():
    allowances = Allowances(per_s=10.0, burst=1)
    allowances.spend("a", 100.0)
    assert round(allowances.wait_s("a", 100.04), 6) == 0.06
    assert allowances.wait_s("a", 100.1) == 0.0


def test_what_counts_for_much_is_a_debt_with_a_bound():
    allowances = Allowances(per_s=10.0, burst=20)
    allowances.spend("a", 100.0, 1e9)
    assert 1.9 < allowances.wait_s("a", 100.0) < 2.1


@given(st.lists(st.tuples(st.integers(0, 300), st.floats(0.0, 0.5)), max_size=300))
def test_only_those_who_did_something_lately_are_remembered(acts: list[tuple[int, float]]):
    allowances, now = Allowances(per_s=10.0, burst=5), 0.0
    lately: list[tuple[float, str]] = []
    for name, later_s in acts:
        now += later_s
        if allowances.wait_s(str(name), now) <= 0:
            allowances.spend(str(name), now)
            lately.append((now, str(name)))
    now += 2.0
    for index in range(len(lately)):
        allowances.spend(f"new{index}", now)
    assert len(allowances) == len(lately)
