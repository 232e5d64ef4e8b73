"""Real programs whose wall clocks are wrong by hours, each by others, and jump while they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_orchestrator_end_to_end import assert_whole, rows
from tests.support import orchestrated
from tests.support.models import mlp
from tests.support.orchestrated import Person, System
from wire.messages.requests import RunOptions

system = orchestrated.system
ITEMS = 12
SHIFT = """
import os, time
right = time.time
def wrong():
    return right() + ((os.getpid() * 7919 + int(time.monotonic() * 2) * 104729) % 20 - 10) * 3600.0
time.time = wrong
"""


def test_wall_clocks_that_are_wrong_by_hours_and_jump_change_no_result(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "clocks").mkdir()
    (tmp_path / "clocks" / "sitecustomize.py").write_text(SHIFT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "clocks"))
    model = mlp(6)
    manifest = system.add(model, "mlp", segments=4, max_shape={"batch": 4})
    process = system.start_process()
    for _ in range(2):
        system.agent()
    inputs = rows(ITEMS)
    with Person(system.broker) as person:
        run = person.submit_until_accepted("mlp", ITEMS, RunOptions(exact=True, partitions=2))
        for item, x in enumerate(inputs):
            person.send_stored(manifest, run, item, x=x)
        process.kill()
        process.wait()
        system.start_process()
        person.fetch(run, ITEMS)
        assert_whole(person, model, inputs)
        assert not person.failures
