"""A phone dies in the middle of a run: still every result, exactly once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np

from crowdpipe import Session
from tests.acceptance.served import Served, served
from tests.support.models import mlp

ITEMS = 800  # of a few milliseconds: it takes a moment until the loss is known
KILL_AFTER = 20


def test_every_result_comes_exactly_once_though_an_agent_is_killed_midway(tmp_path: Path) -> None:
    import onnxruntime

    rng = np.random.default_rng(3)
    feeds = [{"x": rng.normal(size=(1, 24)).astype(np.float32)} for _ in range(ITEMS)]
    whole = onnxruntime.InferenceSession(mlp(6).SerializeToString())
    counts: Counter[int] = Counter()
    news: list[str] = []
    with served(tmp_path / "home", devices=4) as fleet:
        fleet.add("tiny", layers=6)
        url = fleet.url("local")
        with Session("tiny", url, timeout_s=90, on_news=news.append) as session:
            for index, (y,) in session.run_many(feeds, ordered=False):
                counts[index] += 1
                np.testing.assert_allclose(y, whole.run(None, feeds[index])[0], rtol=0, atol=1e-5)
                if sum(counts.values()) == KILL_AFTER:
                    victim = serving(fleet)
                    os.kill(fleet.agents.pids[victim], signal.SIGKILL)
        fleet.watcher.wait(
            lambda seen: any(run.status == "done" for run in seen.runs.values()), 10, "the run"
        )
    assert counts == Counter(range(ITEMS))
    (told,) = [each for each in news if each.startswith(f"{victim} lost, ")]
    assert any(where in told for where in (" moved to phone-", "the model is cut anew"))


def serving(fleet: Served) -> str:
    """A device that has a part of the model in memory."""
    return fleet.watcher.look(
        lambda seen: next(
            name
            for name, device in seen.devices.items()
            if device.residency is not None and device.residency.partitions
        )
    )
