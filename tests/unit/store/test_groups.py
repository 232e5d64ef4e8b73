"""Groups know their largest as a look at all of them would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from model_store.groups import Groups

CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 12), st.sampled_from("abc")))


@given(CHANGES)
def test_the_largest_is_known_after_every_change(changes: list[tuple[bool, int, str]]) -> None:
    groups: Groups[int] = Groups()
    seen: dict[int, str] = {}
    for comes, member, group in changes:
        if comes and member not in seen:
            groups.add(member, group)
            seen[member] = group
        elif not comes:
            groups.discard(member)
            seen.pop(member, None)
        sizes = {name: list(seen.values()).count(name) for name in "abc"}
        assert len(groups) == len(seen)
        assert all(member in groups for member in seen)
        assert {name: groups.size(name) for name in "abc"} == sizes
        assert groups.largest_size == max(sizes.values())
        if seen:
            group = seen[groups.oldest_of_largest()]
            assert sizes[group] == max(sizes.values())
            assert groups.oldest_of_largest() == next(m for m, g in seen.items() if g == group)
