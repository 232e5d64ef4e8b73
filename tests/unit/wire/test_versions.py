"""Two understand each other if there is a version that both speak, whoever is newer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import OLDEST_WIRE_VERSION, WIRE_VERSION
from wire.messages.state import DeviceState, OrchestratorState
from wire.record import decode, encode
from wire.versions import OURS, WireRange, mismatch

ranges = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda two: WireRange(*sorted(two)))


@given(ranges, ranges)
def test_they_do_if_they_have_a_version_in_common(one: WireRange, other: WireRange):
    common = set(range(one.oldest, one.newest + 1)) & set(range(other.oldest, other.newest + 1))
    assert one.overlaps(other) == other.overlaps(one) == bool(common)
    assert (mismatch(one, other) is None) == bool(common)


@pytest.mark.parametrize(
    ("agent", "desk", "said"),
    [
        ((1, 1), (2, 3), "the agent speaks wire version 1, the desk 2 to 3: update the agent"),
        (
            (4, 5),
            (1, 3),
            "the agent speaks wire version 4 to 5, the desk 1 to 3: update crowdpipe at the desk",
        ),
    ],
)
def test_otherwise_both_are_named_and_who_is_to_be_updated(
    agent: tuple[int, int], desk: tuple[int, int], said: str
):
    assert mismatch(WireRange(*agent), WireRange(*desk)) == said


def test_ours_ends_with_the_version_that_we_write():
    assert WireRange(OLDEST_WIRE_VERSION, WIRE_VERSION) == OURS
    assert OURS.oldest <= OURS.newest


@pytest.mark.parametrize(("oldest", "told"), [(None, (3, 3)), (2, (2, 3)), (7, (3, 3))])
def test_a_state_tells_its_range_also_one_of_before_there_were_ranges(
    oldest: int | None, told: tuple[int, int]
):
    device = DeviceState("online", "c", "b", "0", 3, oldest_wire_version=oldest)
    desk = OrchestratorState("online", "c", "b", 1, "0", 3, oldest_wire_version=oldest)
    assert decode(DeviceState, encode(device)).versions == WireRange(*told)
    assert decode(OrchestratorState, encode(desk)).versions == WireRange(*told)
