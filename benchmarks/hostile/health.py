"""What the programs that are attacked have: memory, threads, and what they wrote to their logs."""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process import memory
from wire.errors import OperatorError

IDLE_S = 10.5  # the server's library keeps a thread for ten seconds
ENDING_S = 0.5


def threads_of(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        raise OperatorError(f"process {pid} has ended") from None


@dataclass(slots=True)
class Health:
    """Of processes by name, since it was made. The store's threads for requests, which come and go
    as they are needed, are let go before threads are counted."""

    pids: Mapping[str, int]
    logs: Sequence[Path]
    store_port: int
    threads: dict[str, int] = field(init=False)
    _log_nbytes: int = field(init=False)
    _taken_nbytes: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._let_go()
        self.threads = {name: threads_of(pid) for name, pid in self.pids.items()}
        self._taken_nbytes = self._taken()
        self._log_nbytes = self._logged()

    def _logged(self) -> int:
        return sum(path.stat().st_size for path in self.logs if path.exists())

    def _taken(self) -> dict[str, int]:
        return {name: memory(pid).anonymous_nbytes for name, pid in self.pids.items()}

    def grown_nbytes(self) -> dict[str, int]:
        """Resident memory that no file backs, more than at first."""
        return {name: nbytes - self._taken_nbytes[name] for name, nbytes in self._taken().items()}

    def log_nbytes(self) -> int:
        """Written since."""
        return self._logged() - self._log_nbytes

    def missing_threads(self) -> int:
        """Fewer than at first, over all processes."""
        self._let_go()
        return sum(
            max(0, count - threads_of(self.pids[name])) for name, count in self.threads.items()
        )

    def _let_go(self) -> None:
        """What has been idle for long enough ends at the next request."""
        time.sleep(IDLE_S)
        line = http.client.HTTPConnection("127.0.0.1", self.store_port, timeout=IDLE_S)
        with contextlib.closing(line):
            line.request("GET", "/health")
            line.getresponse().read()
        time.sleep(ENDING_S)
