"""Each row of the page on security names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
LINK = re.compile(r"\[`(test_\w+)`\]\(([^)]+)\)")


def rows() -> list[str]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return lines[2:]  # without the head


def test_every_row_has_a_test() -> None:
    assert len(rows()) > 10
    assert all(LINK.search(row) for row in rows())


def test_every_test_that_is_named_is_there() -> None:
    for name, where in LINK.findall(PAGE.read_text(encoding="utf-8")):
        assert f"def {name}(" in (PAGE.parent / where).read_text(encoding="utf-8"), name
