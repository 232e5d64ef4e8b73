"""Tables that read well in a terminal and in a file."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table


def plain_table(*headings: str) -> Table:
    """A table without rules between columns; a heading that begins with '>' aligns right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        right = heading.startswith(">")
        table.add_column(heading.lstrip(">"), justify="right" if right else "left", overflow="fold")
    return table


def show_range(first: int, last: int) -> str:
    """`3` or `3–5`: segments, the last included."""
    return str(first) if first == last else f"{first}–{last}"
