"""The executor's thread: a partition that stays becomes one session between tasks."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bus.link import Link
from edge_agent.adapters.runtime.executor import Executor
from edge_agent.adapters.runtime.executor_answers import LoadJob
from edge_agent.adapters.runtime.joining import TIMED_TASKS
from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.spool import Spool
from edge_agent.adapters.store.work_note import WorkNote
from tests.support.chain import Chain
from wire.elements import Element
from wire.errors import LoadFailed
from wire.frame_head import FrameSettings
from wire.frames import Frame, encode_frame, encode_tensor
from wire.ids import ActivationId, TaskId

LAYERS = 3
ROOMY_NBYTES = 1 << 30
LIMIT_S = 60.0


class Answers:
    """What the executor calls, in order: name and arguments."""

    def __init__(self) -> None:
        self._calls: queue.Queue[tuple[str, tuple[Any, ...]]] = queue.Queue()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self._calls.put((name, arguments))

    def next(self) -> tuple[str, tuple[Any, ...]]:
        """Without news of what was prepared."""
        while (call := self._calls.get(timeout=LIMIT_S))[0] in ("segments_prepared", "told"):
            pass
        return call


class Bench:
    """An executor with the chain loaded, and frames for its tasks."""

    def __init__(self, folder: Path) -> None:
        self.chain, self.answers = Chain(LAYERS), Answers()
        cache = BlobCache(folder / "cache")
        for digest, data in self.chain.blobs.items():
            cache.part_path(digest).write_bytes(data)
            cache.admit(digest)
        self.spool = Spool(folder / "spool", 1 << 24)
        note = WorkNote(folder / "note", "boot")
        self.executor = Executor(cache, self.spool, Link(), self.answers, note)
        self.executor.start()
        self.assigned = self.chain.assigned()
        self.executor.load(LoadJob(0, self.assigned, False, ROOMY_NBYTES, ROOMY_NBYTES))
        assert self.answers.next()[0] == "partition_ready"

    def run(self, item: int) -> tuple[str, tuple[Any, ...]]:
        x = np.ones((2, self.chain.width), np.float32)
        tensor = encode_tensor("h0", Element.FLOAT, x.shape, x.tobytes())
        name = ActivationId("r1", item, 0)
        frame = Frame(self.chain.digest, name, 1, FrameSettings(), (tensor,))
        self.spool.put(name, "input", encode_frame(frame), "us")
        task = TaskId("r1", item, 0, LAYERS - 1, 1)
        self.executor.execute(item, self.assigned, ((task, "us"),))
        return self.answers.next()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    assert made.executor.close(LIMIT_S)


def test_tasks_go_on_alike_when_segments_were_joined(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[bool] = []
    settle = LoadedPartition.settle
    monkeypatch.setattr(LoadedPartition, "settle", lambda self: settled.append(settle(self)))
    made = []
    for item in range(TIMED_TASKS + 2):
        what, (_, task, executed) = bench.run(item)
        assert (what, len(executed.segment_s)) == ("task_executed", LAYERS)
        made.append(bench.spool.get(task.makes, "output")[-2 * 64 * 4 :])
    assert True in settled
    assert len(set(made)) == 1


def test_a_partition_that_is_lost_by_joining_fails_the_next_task(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: LoadedPartition) -> bool:
        raise LoadFailed("nothing is left")

    monkeypatch.setattr(LoadedPartition, "may_settle", True)
    monkeypatch.setattr(LoadedPartition, "settle", lose)
    assert bench.run(0)[0] == "task_executed"
    what, (_, _, error, fatal) = bench.run(1)
    assert (what, fatal) == ("execution_failed", True)
    assert "not in memory" in str(error)
