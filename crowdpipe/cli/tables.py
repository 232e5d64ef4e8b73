"""Tables that read well in a terminal of 80 columns, in a wider one and in a file."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

LEAST_WORDS = 12  # columns that text keeps, however narrow the terminal


def plain_table(*headings: str, title: str | None = None) -> Table:
    """A table without rules between columns. A heading that begins with '>' is of numbers, which
    are aligned right and never broken; one with '~' of words, which give way if room is scarce;
    all others are of names, which give way after them."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in headings:
        if heading.startswith(">"):
            table.add_column(heading[1:], justify="right", no_wrap=True, vertical="top")
        elif heading.startswith("~"):
            table.add_column(heading[1:], overflow="fold", min_width=LEAST_WORDS)
        else:
            table.add_column(heading, overflow="fold", min_width=len(heading))
    return table


def show_range(first: int, last: int) -> str:
    """`3` or `3–5`: segments, the last included."""
    return str(first) if first == last else f"{first}–{last}"
