"""What the tests of the client's machine start from."""

from __future__ import annotations

import pytest

from tests.support.client_desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()
