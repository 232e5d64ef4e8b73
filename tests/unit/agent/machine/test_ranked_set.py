"""Names by rank: the first is what looking at all of them gives, and the heap stays small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.machine.records.ranked_set import SLACK, RankedSet

NAMES = st.integers(0, 9)
STEPS = st.lists(st.tuples(NAMES, st.none() | st.integers(0, 5)), max_size=200)


@given(STEPS)
def test_the_first_has_the_lowest_rank_whatever_was_put_and_discarded(
    steps: list[tuple[int, int | None]],
) -> None:
    ranked: RankedSet[int] = RankedSet()
    ranks: dict[int, int] = {}
    for name, rank in steps:
        if rank is None:
            ranked.discard(name)
            ranks.pop(name, None)
        else:
            ranked.put(name, rank)
            ranks[name] = rank
        first = ranked.first()
        assert (first in ranks) if ranks else (first is None)
        assert ranked.first_rank() == min(ranks.values(), default=None)
        assert (set(ranked), ranked.in_heap(), len(ranked)) == (set(ranks), set(ranks), len(ranks))


def test_of_equal_ranks_the_one_put_first_comes_first() -> None:
    ranked: RankedSet[str] = RankedSet()
    for name in ("b", "a", "c"):
        ranked.put(name, 1)
    ranked.put("b", 1)
    assert ranked.first() == "b"


def test_changing_ranks_leaves_no_heap_behind() -> None:
    ranked: RankedSet[int] = RankedSet()
    for rank in range(10_000):
        ranked.put(rank % 3, rank)
    assert len(ranked._heap) <= 2 * 3 + SLACK
    for name in range(3):
        ranked.discard(name)
    assert len(ranked._heap) <= SLACK
