"""Sizes in sentences for people."""

from __future__ import annotations


def mebibytes(nbytes: int) -> str:
    """`12.3 MiB`, as people give budgets."""
    return f"{nbytes / (1 << 20):.1f} MiB"
