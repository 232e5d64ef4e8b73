"""Which files below `/proc` this process may read: Android keeps some from apps."""

from __future__ import annotations

from pathlib import Path

from edge_agent.diagnosis.facts import ProcAccess

NEEDED = ("meminfo", "self/statm", "self/status", "self/maps")
SPARED = ("cpuinfo", "stat", "loadavg", "uptime")


def proc_access(proc: Path = Path("/proc")) -> ProcAccess:
    return ProcAccess(_refused(proc, NEEDED), _refused(proc, SPARED))


def _refused(proc: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"/proc/{name}" for name in names if not _readable(proc / name))


def _readable(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return bool(file.read(1))
    except OSError:
        return False
