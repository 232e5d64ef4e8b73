"""Numbers as people read them: bytes, seconds, shares. Machines get plain numbers instead.

Whatever the number, it is shown in a few characters: others stand beside it.
"""

from __future__ import annotations

import re

from wire.errors import UserError

_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_MOST_NBYTES, _MOST_SECONDS, _MOST_COUNT = 1 << 50, 10 * 365 * 86_400.0, 1e18
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
    """`12.3 MiB`; a dash where there is no reading, or one that nothing can have."""
    if nbytes is None or not nbytes >= 0:
        return "–"
    if nbytes > _MOST_NBYTES:
        return "over 1 PiB"
    for factor, unit in _STEPS:
        if nbytes >= factor:
            size = nbytes / factor
            return f"{size:.1f} {unit}" if size < 100 else f"{size:.0f} {unit}"
    return f"{nbytes:.0f} B"


def counted(count: int, noun: str) -> str:
    """`1 model`, `2 models`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def possible_nbytes(nbytes: int | None) -> int | None:
    """Of what a device says that it has; None where no device has so much."""
    return nbytes if nbytes is not None and 0 <= nbytes <= _MOST_NBYTES else None


def show_count(count: float) -> str:
    """`850`, `12.3 k`, `1.4 M`, `2.0 G`: of multiply-adds and the like."""
    if not 0 <= count <= _MOST_COUNT:
        return "over 1e18" if count > 0 else "–"
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f}"


def show_seconds(seconds: float | None) -> str:
    """`1.23 s`, `45 ms`, `2 min 5 s`; a dash where there is no reading, or a negative one."""
    if seconds is None or not seconds >= 0:
        return "–"
    if seconds > _MOST_SECONDS:
        return "over 10 years"
    if seconds >= 120:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    if seconds >= 10:
        return f"{seconds:.1f} s"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


def show_rate(per_s: float) -> str:
    """Items a second, as people compare them."""
    return f"{per_s:.0f}/s" if per_s >= 10 else f"{per_s:.2g}/s"


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
