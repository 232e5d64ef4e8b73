"""Numbers as people read them: bytes, seconds, shares. Machines get plain numbers instead."""

from __future__ import annotations

import re

from wire.errors import UserError

_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_FACTORS = {
    "": 1,
    "B": 1,
    "K": 1 << 10,
    "KB": 1000,
    "KIB": 1 << 10,
    "M": 1 << 20,
    "MB": 1000**2,
    "MIB": 1 << 20,
    "G": 1 << 30,
    "GB": 1000**3,
    "GIB": 1 << 30,
}


def show_nbytes(nbytes: float | None) -> str:
    """`12.3 MiB`; a dash where there is no reading."""
    if nbytes is None:
        return "–"
    for factor, unit in _STEPS:
        if abs(nbytes) >= factor:
            size = nbytes / factor
            return f"{size:.1f} {unit}" if size < 100 else f"{size:.0f} {unit}"
    return f"{nbytes:.0f} B"


def counted(count: int, noun: str) -> str:
    """`1 model`, `2 models`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def show_count(count: float) -> str:
    """`850`, `12.3 k`, `1.4 M`, `2.0 G`: of multiply-adds and the like."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f}"


def show_seconds(seconds: float | None) -> str:
    """`1.23 s`, `45 ms`, `2 min 5 s`; a dash where there is no reading."""
    if seconds is None:
        return "–"
    if seconds >= 120:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    if seconds >= 10:
        return f"{seconds:.1f} s"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


def parse_nbytes(text: str) -> int:
    """`16MiB`, `1.5G`, `300 MB` or a plain number of bytes; `UserError` for anything else."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    factor = _FACTORS.get(found.group(2).upper()) if found else None
    if found is None or factor is None:
        raise UserError(f"{text!r} is no size: write it as 16MiB, 1.5G or 250000")
    nbytes = round(float(found.group(1)) * factor)
    if nbytes < 1:
        raise UserError(f"a size must be at least one byte, not {text!r}")
    return nbytes


def parse_shape(text: str | None) -> dict[str, int]:
    """`batch=1,sequence=512` as bounds by name; `UserError` says what is wrong."""
    bounds: dict[str, int] = {}
    for piece in (text or "").split(","):
        name, found, bound = piece.strip().partition("=")
        if not piece.strip():
            continue
        if not found or not name or not bound.strip().isdecimal() or int(bound) < 1:
            raise UserError(f"{piece!r} bounds no dimension: write it as batch=1,sequence=512")
        bounds[name.strip()] = int(bound)
    return bounds
