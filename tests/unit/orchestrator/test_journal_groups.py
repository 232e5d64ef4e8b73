"""What one turn gives the journal waits for the turn's end, and shares a sync."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters import journal as module
from orchestrator.adapters.journal import Journal
from orchestrator.run_record import Outcome

LIMIT_S = 20.0
COUNT = 6


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each sync covered."""
    counted: list[int] = []
    commit = Journal._commit

    def counting(self: Journal, batch: list[Any]) -> list[Any]:
        counted.append(len(batch))
        return commit(self, batch)

    monkeypatch.setattr(Journal, "_commit", counting)
    return counted


@pytest.fixture
def journal(tmp_path: Path, batches: list[int]) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite")
    yield journal
    journal.close()


def give(journal: Journal) -> list[Any]:
    """What is answered to some outcomes that are given together."""
    answers: queue.Queue[Any] = queue.Queue()
    with journal.together():
        for item in range(COUNT):
            journal.store_outcome("r", Outcome(item), b"f", lambda *said: answers.put(said))
    return [answers.get(timeout=LIMIT_S) for _ in range(COUNT)]


def test_what_is_given_together_shares_a_sync_and_is_answered_in_order(
    journal: Journal, batches: list[int]
) -> None:
    assert [outcome.item for outcome, _ in give(journal)] == list(range(COUNT))
    assert sum(batches) == COUNT
    assert len(batches) < COUNT


def test_more_than_may_wait_is_written_meanwhile(
    journal: Journal, batches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE_LIMIT", 2)
    assert len(give(journal)) == COUNT
    assert len(batches) > 1


def test_it_goes_on_one_by_one_after_a_turn_that_failed(journal: Journal) -> None:
    with pytest.raises(ZeroDivisionError), journal.together():
        _ = 1 // 0
    answers: queue.Queue[Any] = queue.Queue()
    journal.store_outcome("r", Outcome(0), b"f", lambda *said: answers.put(said))
    assert answers.get(timeout=LIMIT_S)
