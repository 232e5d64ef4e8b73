"""What the kernel says of a process: memory, its peak, and processor time. Linux only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    """VmHWM, VmRSS and the part of it that no file backs (RssAnon)."""

    peak_nbytes: int
    rss_nbytes: int
    anonymous_nbytes: int


def memory(pid: int | None = None) -> Memory:
    """Of this process, or of another."""
    status = Path(f"/proc/{pid or 'self'}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    peak, rss, anonymous = (
        int(fields[name].split()[0]) * 1024 for name in ("VmHWM", "VmRSS", "RssAnon")
    )
    return Memory(peak, rss, anonymous)


def peak_nbytes(pid: int | None = None) -> int:
    return memory(pid).peak_nbytes


def rss_nbytes(pid: int) -> int:
    """Cheaper than `memory`: for sampling."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """Processor time of the process, threads that have ended included, to a tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def threads_ns(pid: int) -> dict[str, int]:
    """Processor time of each living thread, to the nanosecond: for what takes less than a tick."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[thread.name] = int((thread / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue  # it ended between listing and reading
    return found
