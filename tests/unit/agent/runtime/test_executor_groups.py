"""The executor's thread with a real partition: a group of tasks, in as few calls as fit."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bus.link import Link
from edge_agent.adapters.runtime.executor import Executor
from edge_agent.adapters.runtime.executor_answers import LoadJob
from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
from edge_agent.adapters.store.spool import Spool
from edge_agent.adapters.store.work_note import WorkNote
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.device_chain import BUDGET_NBYTES, assignment_of, cache_of
from tests.support.models import Feeds, floats, mlp, save
from wire.elements import Element
from wire.frame_head import FrameSettings
from wire.frames import Frame, decode_frame, encode_frame, encode_tensor
from wire.ids import ActivationId, TaskId
from wire.messages.assignment import BatchTerms, PartitionAssignment

LIMIT_S = 30.0
WIDTH = 24


class Answers:
    """What the executor says, in order."""

    def __init__(self) -> None:
        self.came: queue.SimpleQueue[tuple[str, tuple[Any, ...]]] = queue.SimpleQueue()

    def told(self) -> None:
        """What there is, is looked for here without it."""

    def __getattr__(self, name: str) -> Any:
        return lambda *said: self.came.put((name, said))

    def next(self) -> tuple[str, tuple[Any, ...]]:
        return self.came.get(timeout=LIMIT_S)


class Running:
    """A partition in memory, and how many rows each of its calls had."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        options = SegmentOptions(max_shape={"batch": 4})
        path = save(mlp(), folder / "model.onnx")
        manifest = segment(path, "test", FolderSink(folder / "blobs"), options=options)
        self.assigned = replace(assignment_of(manifest, exact=False), batch=BatchTerms(4))
        self.spool = Spool(folder / "spool", 1 << 24)
        self.answers = Answers()
        self.calls: list[int] = []
        note = WorkNote(folder / "note", "boot")
        self.noted: list[Any] = []
        loading = note.loading
        monkeypatch.setattr(note, "loading", lambda part: (self.noted.append(part), loading(part)))
        cache = cache_of(folder / "blobs", folder / "cache")
        self.executor = Executor(cache, self.spool, Link(), self.answers, note)
        self._count_calls(monkeypatch)
        self.executor.start()
        self.executor.load(LoadJob(1, self.assigned, False, BUDGET_NBYTES, 1 << 24))
        said = self.answers.next()
        assert said[0] in ("segments_prepared", "partition_ready"), said
        while said[0] != "partition_ready":
            said = self.answers.next()

    def _count_calls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = LoadedPartition.run

        def counted(partition: LoadedPartition, values: dict[str, Any]) -> Any:
            self.calls.append(values["x"].shape()[0])
            return run(partition, values)

        monkeypatch.setattr(LoadedPartition, "run", counted)

    def give(self, item: int, x: np.ndarray, batch: int = 4, attempt: int = 3000) -> TaskId:
        at = ActivationId("r", item, 0)
        tensor = encode_tensor("x", Element.FLOAT, x.shape, x.tobytes(), "raw", None)
        settings = FrameSettings(batch=batch)
        frame = encode_frame(Frame(self.assigned.partition.model, at, attempt, settings, (tensor,)))
        self.spool.put(at, "input", frame, "desk")
        partition = self.assigned.partition
        return TaskId("r", item, partition.first, partition.last, attempt)

    def run(self, *tasks: TaskId, assigned: PartitionAssignment | None = None) -> list[Any]:
        group = [(task, "desk") for task in tasks]
        self.executor.execute(2, assigned or self.assigned, group)
        return [self.answers.next() for _ in tasks]

    def output(self, task: TaskId) -> np.ndarray:
        frame = decode_frame(self.spool.get(task.makes, "output"), 1 << 20)
        (tensor,) = frame.tensors
        return np.frombuffer(tensor.data(), np.float32).reshape(tensor.shape)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    made = Running(tmp_path, monkeypatch)
    yield made
    assert made.executor.close(LIMIT_S)


def feeds(count: int) -> list[Feeds]:
    return [{"x": floats(np.random.default_rng(seed), 1, WIDTH)} for seed in range(count)]


def test_a_group_is_computed_in_one_call_and_each_task_is_answered(running: Running) -> None:
    tasks = [running.give(item, each["x"]) for item, each in enumerate(feeds(3))]
    alone = []
    for task in tasks:
        running.run(task)
        alone.append(running.output(task))
    running.calls.clear()
    answers = running.run(*tasks)
    assert running.calls == [3]
    assert [(name, said[1]) for name, said in answers] == [
        ("task_executed", each) for each in tasks
    ]
    for task, output in zip(tasks, alone, strict=True):
        np.testing.assert_allclose(running.output(task), output, atol=1e-5)
    shares = [said[2].compute_s for _, said in answers]
    assert shares[0] == pytest.approx(shares[1])


def test_a_call_has_no_more_rows_than_memory_is_planned_for(running: Running) -> None:
    tasks = [running.give(item, each["x"]) for item, each in enumerate(feeds(6))]
    running.run(*tasks)
    assert running.calls == [4, 2]


def test_without_the_option_or_the_terms_each_has_its_own_call(running: Running) -> None:
    tasks = [running.give(item, each["x"], batch=1) for item, each in enumerate(feeds(2))]
    running.run(*tasks)
    asked = [running.give(item, each["x"]) for item, each in enumerate(feeds(2), 2)]
    running.run(*asked, assigned=replace(running.assigned, batch=None))
    again = [running.give(item, each["x"], attempt=3001) for item, each in enumerate(feeds(2), 4)]
    running.run(*again)
    assert running.calls == [1] * 6


def test_where_a_call_fails_each_is_computed_alone_and_fails_alone(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [running.give(item, each["x"]) for item, each in enumerate(feeds(2))]
    wrong = [running.give(item, floats(np.random.default_rng(0), 1, 7)) for item in (2, 3)]
    answers = running.run(*tasks, *wrong)
    assert [name for name, _ in answers] == ["task_executed"] * 2 + ["execution_failed"] * 2
    assert running.calls == [2, 2, 1, 1]


def test_a_task_whose_input_is_gone_takes_no_other_with_it(running: Running) -> None:
    good = [running.give(item, each["x"]) for item, each in enumerate(feeds(2))]
    partition = running.assigned.partition
    gone = TaskId("r", 9, partition.first, partition.last, 0)
    names = [name for name, _ in running.run(good[0], gone, good[1])]
    assert names == ["task_executed", "execution_failed", "task_executed"]


def test_what_is_done_is_answered_before_the_next_of_its_group_begins(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one may never end, and is to be blamed alone."""
    tasks = [running.give(item, each["x"], batch=1) for item, each in enumerate(feeds(2))]
    begun, go_on = threading.Event(), threading.Event()
    run = LoadedPartition.run

    def blocked(partition: LoadedPartition, values: dict[str, Any]) -> Any:
        if running.spool.measure(tasks[0].makes, "output") is not None:
            begun.set()
            assert go_on.wait(LIMIT_S)
        return run(partition, values)

    monkeypatch.setattr(LoadedPartition, "run", blocked)
    running.executor.execute(2, running.assigned, [(task, "desk") for task in tasks])
    assert begun.wait(LIMIT_S)
    name, said = running.answers.next()
    assert (name, said[1]) == ("task_executed", tasks[0])
    go_on.set()
    assert running.answers.next()[1][1] == tasks[1]


def test_a_frame_that_memory_does_not_suffice_for_fails_alone(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [running.give(item, each["x"]) for item, each in enumerate(feeds(3))]
    get = Spool.get

    def scarce(spool: Spool, activation: ActivationId, *which: Any) -> bytes:
        if activation.item == 1:
            raise MemoryError
        return get(spool, activation, *which)

    monkeypatch.setattr(Spool, "get", scarce)
    running.executor.execute(2, running.assigned, [(task, "desk") for task in tasks])
    answers = [running.answers.next() for _ in range(2)]  # the partition goes with it
    assert [name for name, _ in answers] == ["task_executed", "execution_failed"]
    assert "out of memory" in str(answers[1][1][2])


def test_the_note_says_whose_load_it_is_while_segments_are_joined(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Any] = []
    seen = threading.Event()

    def settle(partition: LoadedPartition) -> bool:
        noted.extend(running.noted)
        seen.set()
        raise MemoryError

    monkeypatch.setattr(LoadedPartition, "may_settle", True)
    monkeypatch.setattr(LoadedPartition, "settle", settle)
    running.noted.clear()
    running.run(running.give(0, feeds(1)[0]["x"]))
    assert seen.wait(LIMIT_S)
    assert noted[-1] == running.assigned.partition
    assert running.run(running.give(1, feeds(1)[0]["x"]))[0][0] == "execution_failed"
