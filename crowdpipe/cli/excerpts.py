"""What others wrote, in a few words: a device may say what it likes, and others stand beside it."""

from __future__ import annotations

from collections.abc import Sequence

MOST_SHOWN = 8  # entries of a list
MOST_CHARACTERS = 120


def show_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """What somebody else wrote, on one line, without what commands a terminal, and not too long."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in cut
    )


def show_list(entries: Sequence[str], most: int = MOST_SHOWN) -> list[str]:
    """The first few, and how many more there are."""
    more = len(entries) - most
    return [*entries[:most], f"and {more} more"] if more > 0 else list(entries)
