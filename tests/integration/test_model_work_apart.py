"""Work on a model in a process of its own gives what it gives here, its errors too."""

from __future__ import annotations

import os
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from crowdpipe.serving.model_work import AddModel, CheckModel, from_message, to_message, work
from crowdpipe.serving.models import CutWishes
from crowdpipe.serving.stores import open_store
from crowdpipe.serving.worker_process import WorkerFault, add_apart, check_apart
from orchestrator.segmentation.checking.check import STEPS, CheckFigures, ItemFigures
from tests.support.models import mlp, row_feeds, save
from wire.errors import CrowdpipeError, InvalidInput, InvalidModel, OperatorError, UserError

WISHES = CutWishes(segments=3)


def workers() -> list[psutil.Process]:
    """Other tests of this process may have left children of their own."""
    children = psutil.Process().children()
    return [each for each in children if "crowdpipe.serving.worker" in each.cmdline()]


class Heard:
    """Hears how far a job is, and may do something about it."""

    def __init__(self, signalled: int | None = None, ends: bool = False) -> None:
        self.words: list[str] = []
        self.steps: list[tuple[int, int]] = []
        self._signalled, self._ends = signalled, ends

    def doing(self, what: str) -> None:
        self.words.append(what)
        if self._signalled is not None:
            (worker,) = workers()
            os.kill(worker.pid, self._signalled)
        if self._ends:
            raise KeyboardInterrupt

    def so_far(self, done: int, total: int) -> None:
        self.steps.append((done, total))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(mlp(), tmp_path / "model.onnx")


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A pipe that nobody writes to stands for a model that takes for ever."""
    path = tmp_path / "endless.onnx"
    os.mkfifo(path)
    return path


def added(path: Path, wishes: CutWishes = WISHES) -> AddModel:
    return AddModel(str(path.parent / "home"), str(path), "apart", wishes)


def test_a_model_is_added_apart_as_it_would_be_here(model: Path, tmp_path: Path) -> None:
    heard = Heard()
    found = add_apart(added(model), heard)
    manifest = found.manifest
    with open_store(tmp_path / "home") as store:
        assert store.get("apart") == manifest
        assert all(store.blobs.size(blob.digest) == blob.nbytes for blob in manifest.blobs)
    here = work(AddModel(str(tmp_path / "other"), str(model), "apart", WISHES), heard)
    assert here == found
    words = ["reading", "inferring shapes", "cutting", "writing weights", "comparing"]
    assert heard.words == [*words, *words]
    done, total = heard.steps[-1]
    assert done == total >= 3 * 24 * 24 * 4


def test_a_model_is_checked_apart_with_the_inputs_of_a_file(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **row_feeds(4))
    heard = Heard()
    job = CheckModel(str(model), str(tmp_path / "blobs"), WISHES, str(tmp_path / "in.npz"))
    figures = check_apart(job, heard)
    assert figures.exact_holds
    assert figures.fast_holds
    assert [item.shapes for item in figures.items] == [{"x": (4, 24)}]
    assert heard.words[-1] == "comparing"
    assert heard.steps == [(done, STEPS) for done in range(1, STEPS + 1)]


def test_an_infinite_difference_comes_back_as_one(model: Path, tmp_path: Path) -> None:
    job = CheckModel(str(model), str(tmp_path / "blobs"), WISHES)
    figures = work(job, Heard())
    assert isinstance(figures, CheckFigures)
    apart = ItemFigures({"x": (1,)}, ("y",), float("inf"), ("y",))
    differing = replace(figures, items=(apart,))
    back = from_message(job, to_message(differing))
    assert isinstance(back, CheckFigures)
    assert back == differing
    assert back.difference == float("inf")


def test_typed_errors_come_back_as_they_are(model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_text("no model")
    np.savez(tmp_path / "wrong.npz", z=np.ones(3))
    wrong = CheckModel(str(model), str(tmp_path / "b"), WISHES, str(tmp_path / "wrong.npz"))
    with pytest.raises(InvalidModel, match=r"broken\.onnx: not an ONNX file"):
        add_apart(added(broken), Heard())
    with pytest.raises(UserError, match="at most 10 segments"):
        add_apart(added(model, CutWishes(segments=99)), Heard())
    with pytest.raises(InvalidInput, match="inputs are x"):
        check_apart(wrong, Heard())


def test_a_fault_of_ours_comes_back_with_its_traceback(model: Path, tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("no folder")
    with pytest.raises(WorkerFault, match=r"(?s)Traceback.*FileExistsError"):
        check_apart(CheckModel(str(model), str(tmp_path / "blobs"), WISHES), Heard())


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (signal.SIGSEGV, InvalidModel, "ended by SIGSEGV while reading"),
        (signal.SIGKILL, OperatorError, "ended by SIGKILL while reading.*memory"),
    ],
)
def test_a_worker_that_ends_by_a_signal_says_so(
    endless: Path, number: int, kind: type[CrowdpipeError], words: str
) -> None:
    """A memory fault is the model's, and being killed the machine's."""
    with pytest.raises(kind, match=words):
        add_apart(added(endless), Heard(signalled=number))


def test_nothing_is_left_of_work_that_is_interrupted(
    endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    with pytest.raises(KeyboardInterrupt):
        add_apart(added(endless), Heard(ends=True))
    assert workers() == []
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_file_whose_name_no_message_can_carry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not UTF-8 text; rename it"):
        add_apart(added(tmp_path / os.fsdecode(b"\xff.onnx")), Heard())


def test_modules_of_the_folder_where_someone_works_are_not_loaded(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnx.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert add_apart(added(model), Heard()).reproducible
