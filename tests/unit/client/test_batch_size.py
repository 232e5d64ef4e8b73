from __future__ import annotations

import pytest

from crowdpipe.client.batch_size import batch_number
from wire.errors import InvalidInput
from wire.frame_head import MAX_BATCH
from wire.messages.requests import BATCH_AUTO


def test_a_number_or_auto_is_a_batch_size() -> None:
    assert [batch_number(size) for size in (1, "8", "auto", MAX_BATCH)] == [
        1,
        8,
        BATCH_AUTO,
        MAX_BATCH,
    ]


@pytest.mark.parametrize("size", [0, -1, MAX_BATCH + 1, "many", "", "1.5"])
def test_anything_else_is_refused_in_a_sentence(size: int | str) -> None:
    with pytest.raises(InvalidInput, match="a number from 1 to"):
        batch_number(size)
