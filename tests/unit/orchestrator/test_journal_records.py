"""The journal: what it promised is there after any end, in order, and only the first outcome."""

from __future__ import annotations

import queue
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.journal import Journal
from orchestrator.run_record import Outcome, RunRecord
from wire.errors import CrowdpipeError, DiskFull, OperatorError
from wire.messages.requests import RunOptions

LIMIT_S = 20.0
RUN = RunRecord("r1", "clients/me/s1", "tiny", "ab" * 32, RunOptions(exact=True), 3)
RESULT = Outcome(0, None, "")


class Answers:
    """Collects what the journal answers, in order."""

    def __init__(self) -> None:
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()

    def to(self, name: str) -> Callable[..., None]:
        return lambda *said: self.told.put((name, said))

    def next(self) -> tuple[str, Any]:
        return self.told.get(timeout=LIMIT_S)


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite")
    yield journal
    journal.close()


def reopened(journal: Journal, path: Path) -> Journal:
    journal.close()
    return Journal(path)


def test_a_number_that_it_cannot_keep_is_refused_and_it_goes_on(journal: Journal, answers: Answers):
    journal.raise_generation(1 << 63, answers.to("huge"))
    journal.raise_generation(6, answers.to("fits"))
    name, (generation, error) = answers.next()
    assert (name, generation) == ("huge", None)
    assert isinstance(error, OperatorError)
    assert answers.next() == ("fits", (7, None))


def test_one_that_can_write_nothing_any_more_says_so_and_takes_nothing(
    tmp_path: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
):
    journal = Journal(tmp_path / "journal.sqlite", died=answers.to("died"))
    monkeypatch.setattr(journal, "_write", None)
    journal.raise_generation(1, answers.to("never"))
    name, (error,) = answers.next()
    assert name == "died"
    assert "journal" in str(error)
    with pytest.raises(CrowdpipeError):
        journal.raise_generation(2, answers.to("never"))
    journal.close()


def test_a_generation_rises_above_what_was_asked_and_above_itself(tmp_path: Path, answers: Answers):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    assert journal.generation == 0
    for above in (0, 0, 41, 7):
        journal.raise_generation(above, answers.to("generation"))
    assert [answers.next()[1] for _ in range(4)] == [
        (1, None),
        (2, None),
        (42, None),
        (43, None),
    ]
    journal = reopened(journal, path)
    assert journal.generation == 43
    journal.close()


def test_what_was_stored_is_replayed(tmp_path: Path, answers: Answers):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.store_run(RUN, answers.to("run"))
    for item in range(3):
        journal.store_input("r1", item, b"input %d" % item, answers.to("input"))
    journal.store_outcome("r1", RESULT, b"result", answers.to("outcome"))
    journal.store_outcome("r1", Outcome(2, "no_device", "none"), None, answers.to("outcome"))
    journal.forget_inputs("r1", (0,))
    journal.store_count("r1", 5)
    journal.store_party("r1", "clients/ann/other", answers.to("party"))
    while (said := answers.next())[0] != "party":
        pass
    assert said == ("party", (None,))
    journal = reopened(journal, path)
    (run,) = journal.replay()
    assert (run.run, run.party, run.options, run.count) == (
        RUN.run,
        "clients/ann/other",
        RUN.options,
        5,
    )
    assert run.inputs == (1, 2)
    assert run.outcomes == (RESULT, Outcome(2, "no_device", "none"))
    assert run.fault is None
    assert 0 <= run.age_s < LIMIT_S
    assert journal.input_frame("r1", 0) is None
    assert journal.input_frame("r1", 1) == b"input 1"
    assert journal.result_frame("r1", 0) == b"result"
    assert journal.result_frame("r1", 2) is None
    journal.close()


def test_answers_come_in_the_order_of_the_records(journal: Journal, answers: Answers):
    journal.store_run(RUN, answers.to("run"))
    for item in range(200):
        journal.store_input("r1", item, b"x" * 1000, answers.to(f"input {item}"))
    names = [answers.next() for _ in range(201)]
    assert [name for name, _ in names] == ["run", *(f"input {item}" for item in range(200))]
    assert all(said == (None,) for _, said in names)


def test_many_records_need_few_syncs(journal: Journal, answers: Answers):
    commits: list[str] = []
    journal._writer.set_trace_callback(
        lambda line: commits.append(line) if line == "COMMIT" else None
    )
    journal.store_run(RUN, answers.to("run"))
    for item in range(500):
        journal.store_input("r1", item, b"x", answers.to("input"))
    for _ in range(501):
        answers.next()
    assert len(commits) < 100


def test_a_run_and_the_inputs_that_came_along_are_one_commit(tmp_path: Path, answers: Answers):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    lines: list[str] = []
    journal._writer.set_trace_callback(lines.append)
    journal.store_run(RUN, answers.to("run"), [(0, b"first"), (1, b"second")])
    assert answers.next() == ("run", (None,))
    journal.store_run(RUN, answers.to("run"), [(0, b"other")])
    assert answers.next() == ("run", (None,))
    assert [line.split()[0] for line in lines[:5]] == ["BEGIN", *["INSERT"] * 3, "COMMIT"]
    journal = reopened(journal, path)
    assert journal.replay()[0].inputs == (0, 1)
    assert journal.input_frame("r1", 0) == b"first"
    assert journal.input_frame("r1", 1) == b"second"
    journal.close()


def test_of_a_run_whose_inputs_do_not_fit_nothing_is_kept(tmp_path: Path, answers: Answers):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path, limit_nbytes=1 << 20)
    journal.store_run(RUN, answers.to("run"), [(0, b"small"), (1, b"x" * (4 << 20))])
    journal.store_run(replace(RUN, run="r2"), answers.to("other"))
    name, (error,) = answers.next()
    assert name == "run"
    assert isinstance(error, DiskFull)
    assert answers.next() == ("other", (None,))
    journal = reopened(journal, path)
    assert [run.run for run in journal.replay()] == ["r2"]
    assert journal.input_frame("r1", 0) is None
    journal.close()


def test_only_the_first_outcome_of_an_item_counts(journal: Journal, answers: Answers):
    journal.store_run(RUN, answers.to("run"))
    journal.store_outcome("r1", RESULT, b"first", answers.to("outcome"))
    journal.store_outcome("r1", Outcome(0, "timed_out", "late"), None, answers.to("outcome"))
    answers.next()
    assert answers.next()[1] == (RESULT, None)
    assert answers.next()[1] == (RESULT, None)
    assert journal.result_frame("r1", 0) == b"first"


def test_an_acknowledged_result_loses_its_bytes_and_is_remembered(tmp_path: Path, answers: Answers):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.store_run(RUN, answers.to("run"))
    journal.store_outcome("r1", RESULT, b"result", answers.to("outcome"))
    journal.acknowledge("r1", (0, 1))
    journal = reopened(journal, path)
    (run,) = journal.replay()
    assert run.outcomes == (Outcome(0, None, "", True),)
    assert journal.result_frame("r1", 0) is None
    journal.close()


def test_nothing_of_a_forgotten_run_stays(tmp_path: Path, answers: Answers):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.store_run(RUN, answers.to("run"))
    journal.store_input("r1", 0, b"input", answers.to("input"))
    journal.store_outcome("r1", RESULT, b"result", answers.to("outcome"))
    journal.forget_run("r1")
    journal.store_input("r1", 1, b"too late", answers.to("input"))
    journal = reopened(journal, path)
    assert journal.replay() == ()
    assert journal.input_frame("r1", 1) is None
    journal.close()


def test_a_run_that_ended_without_an_open_item_is_replayed_with_what_ended_it_first(
    tmp_path: Path, answers: Answers
):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.store_run(RUN, answers.to("run"))
    journal.store_outcome("r1", RESULT, b"result", answers.to("outcome"))
    journal.end_run("r1", "cancelled", "its client asked")
    journal.end_run("r1", "timed_out", "later")
    journal.end_run("other", "cancelled", "there is no such run")
    journal = reopened(journal, path)
    (run,) = journal.replay()
    assert run.fault == ("cancelled", "its client asked")
    assert journal.result_frame("r1", 0) == b"result"
    journal.close()


def test_who_ended_over_an_item_is_replayed_until_the_run_is_forgotten(
    tmp_path: Path, answers: Answers
):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.store_run(RUN, answers.to("run"))
    for boot in ("b1", "b2", "b2", "b3"):
        journal.store_death("r1", 2, "phone", boot)
    journal.forget_death("r1", 2, "phone", "b1")
    journal = reopened(journal, path)
    assert journal.replay()[0].deaths == ((2, "phone", "b2"), (2, "phone", "b3"))
    journal.forget_run("r1")
    journal.store_run(RUN, answers.to("run"))
    journal = reopened(journal, path)
    assert journal.replay()[0].deaths == ()
    journal.close()


def test_absences_are_kept_until_they_are_forgotten(tmp_path: Path):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    for seconds in (60.0, 3660.0):
        journal.store_absence("phone", seconds)
    journal.store_absence("tablet", 70.0)
    journal.forget_absence("tablet")
    journal = reopened(journal, path)
    assert journal.absences() == (("phone", 3660.0),)
    journal.close()


FORMAT_1 = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    run TEXT PRIMARY KEY, party TEXT NOT NULL, model_name TEXT NOT NULL, model TEXT NOT NULL,
    options BLOB NOT NULL, count INTEGER, stored_at REAL NOT NULL);
CREATE TABLE inputs (
    run TEXT NOT NULL, item INTEGER NOT NULL, frame BLOB NOT NULL, UNIQUE (run, item));
CREATE TABLE outcomes (
    run TEXT NOT NULL, item INTEGER NOT NULL, kind TEXT, reason TEXT NOT NULL,
    acknowledged INTEGER NOT NULL DEFAULT 0, frame BLOB, UNIQUE (run, item));
INSERT INTO facts VALUES ('generation', 7);
INSERT INTO runs VALUES ('r1', 'clients/me/s1', 'tiny', 'ab', x'7b7d', 3, 0.0);
INSERT INTO inputs VALUES ('r1', 0, x'00');
PRAGMA user_version=1;
"""


def test_a_journal_of_the_format_before_is_taken_over(tmp_path: Path, answers: Answers):
    path = tmp_path / "journal.sqlite"
    old = sqlite3.connect(path)
    old.executescript(FORMAT_1)
    old.close()
    for _ in range(2):
        journal = Journal(path)
        assert journal.generation == 7
        (run,) = journal.replay()
        assert run.inputs == (0,)
        assert run.fault is None
        journal.close()
    journal = Journal(path)
    journal.store_run(replace(RUN, run="r2"), answers.to("run"))
    assert answers.next() == ("run", (None,))
    journal.end_run("r1", "cancelled", "asked")
    journal = reopened(journal, path)
    assert [run.fault for run in journal.replay()] == [("cancelled", "asked"), None]
    journal.close()


def test_a_full_disk_refuses_what_does_not_fit_and_keeps_what_does(
    tmp_path: Path, answers: Answers
):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path, limit_nbytes=1 << 20)
    journal.store_run(RUN, answers.to("run"))
    journal.store_input("r1", 0, b"x" * (4 << 20), answers.to("large"))
    journal.store_input("r1", 1, b"small", answers.to("small"))
    assert answers.next() == ("run", (None,))
    name, (error,) = answers.next()
    assert name == "large"
    assert isinstance(error, DiskFull)
    assert "make room" in str(error)
    assert answers.next() == ("small", (None,))
    journal = reopened(journal, path)
    assert journal.replay()[0].inputs == (1,)
    journal.close()


def test_whoever_fails_on_an_answer_stops_nobody(journal: Journal, answers: Answers):
    def fail(_error: object) -> None:
        raise RuntimeError("a fault of whoever waited")

    journal.store_run(RUN, fail)
    journal.store_input("r1", 0, b"input", answers.to("input"))
    assert answers.next() == ("input", (None,))


WRITER = """
import sys
from pathlib import Path
from orchestrator.adapters.journal import Journal
from orchestrator.run_record import Outcome, RunRecord
from wire.messages.requests import RunOptions

journal = Journal(Path(sys.argv[1]))
journal.store_run(RunRecord("r1", "clients/me/s1", "tiny", "ab" * 32, RunOptions(), None), print)
item = 0
while True:
    said = lambda error, item=item: print("input", item, error, flush=True)
    journal.store_input("r1", item, b"%d" % item * 5000, said)
    told = lambda got, error, item=item: print("outcome", item, error, flush=True)
    journal.store_outcome("r1", Outcome(item, None, ""), b"%d" % item, told)
    item += 1
"""


@pytest.mark.parametrize("lines", [3, 400])
def test_what_was_answered_before_a_kill_is_there_afterwards(tmp_path: Path, lines: int):
    path = tmp_path / "journal.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for _ in range(lines):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
        assert child.wait(LIMIT_S) == -signal.SIGKILL
    whole = [line.split() for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    answered = max((int(words[1]) for words in whole if words[0] == "outcome"), default=0)
    answered = max(answered, (lines - 2) // 2 - 1)
    journal = Journal(path)
    (run,) = journal.replay()
    stored = [outcome.item for outcome in run.outcomes]
    assert stored[: answered + 1] == list(range(answered + 1))
    assert len(run.inputs) - len(stored) in (0, 1)
    for item in (0, answered):
        assert journal.input_frame("r1", item) == b"%d" % item * 5000
        assert journal.result_frame("r1", item) == b"%d" % item
    journal.close()
