"""An outsider, a device and a client send malformed messages of every kind: nobody notices."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import onnxruntime

from benchmarks.hostile.attack import Attack
from benchmarks.hostile.samples import Target
from broker_config.credentials import Credentials
from crowdpipe import Session
from crowdpipe.home import read_up
from tests.acceptance.served import served
from tests.support.models import mlp

MESSAGES, SECONDS = 6_000, 6.0
SEED = 11  # of messages that ended the orchestrator once
ITEMS = 20


def test_six_thousand_malformed_messages_hinder_nobody(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Credentials(home).add("liar", "device")
    Credentials(home).add("stranger", "client")
    rng = np.random.default_rng(3)
    feeds = [{"x": rng.normal(size=(1, 24)).astype(np.float32)} for _ in range(ITEMS)]
    whole = onnxruntime.InferenceSession(mlp(6).SerializeToString())
    wanted = [whole.run(None, feed)[0] for feed in feeds]
    with served(home) as fleet:
        manifest = fleet.add("tiny", layers=6)
        record = read_up(home)
        assert record is not None
        store = ("127.0.0.1", urlsplit(record.store).port or 0)
        target = Target(manifest.digest, len(manifest.segments), fleet.agents.names)
        guests = (fleet.url("liar"), fleet.url("stranger"))
        with (
            Session("tiny", fleet.url("local"), timeout_s=60) as session,
            Attack(*guests, store, target) as attack,
        ):
            session.run(None, feeds[0])
            attack.prepare(MESSAGES, SEED, harmful=True)
            attack.begin(SECONDS)
            for _ in range(3):
                results = dict(session.run_many(feeds, ordered=False))
                for index, (y,) in results.items():
                    np.testing.assert_allclose(y, wanted[index], rtol=0, atol=1e-5)
                assert len(results) == ITEMS
            assert attack.answer()["sent"] == MESSAGES
            session.run(None, feeds[0])
        fleet.agents.check()
