"""Memory of processes over time, looked at from outside every 20 ms. A process that ends ends its
line and nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType

from benchmarks.process import rss_nbytes

EVERY_S = 0.02
Traces = dict[str, list[tuple[float, float]]]


class Sampler:
    """Samples inside a `with`. `traces` has (seconds since its start, resident bytes) by name."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = dict(pids)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampler", daemon=True)
        self.traces: Traces = {name: [] for name in pids}

    def _sample(self) -> None:
        begun = time.monotonic()
        while not self._end.wait(EVERY_S):
            for name, pid in list(self._pids.items()):
                try:
                    nbytes = rss_nbytes(pid)
                except (OSError, IndexError):
                    del self._pids[name]
                    continue
                self.traces[name].append((time.monotonic() - begun, float(nbytes)))

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()
