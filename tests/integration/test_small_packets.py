"""A broker that takes small packets only: activations travel in smaller parts, and runs go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import crowdpipe
from broker_config.configuration import BrokerLimits
from tests.support.broker import BrokerUnderTest, need_mosquitto
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import System, whole_model

PACKET_NBYTES = 8 << 10
ROWS = 4 * PACKET_NBYTES // (4 * WIDTH)


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[System]:
    need_mosquitto()
    limits = BrokerLimits(packet_nbytes=PACKET_NBYTES)
    broker = BrokerUnderTest(tmp_path / "mosquitto", limits=limits)
    broker.start()
    system = System(broker, tmp_path)
    yield system
    system.stop()
    broker.stop()


def test_activations_larger_than_a_packet_may_be_come_in_parts(narrow: System):
    model = mlp(6)
    narrow.add(model, "mlp", segments=4, max_shape={"batch": ROWS})
    narrow.start()
    for _ in range(2):
        narrow.agent()
    rng = np.random.default_rng(3)
    feeds = [{"x": rng.normal(size=(ROWS, WIDTH)).astype(np.float32)} for _ in range(6)]
    whole = whole_model(model)
    broker = str(narrow.broker.client)
    with crowdpipe.Session("mlp", broker, exact=True, partitions=2, timeout_s=60) as session:
        for feed, (mine,) in zip(feeds, session.run_many(feeds), strict=True):
            assert np.array_equal(mine, whole.run(None, feed)[0])
    assert "oversize" not in narrow.broker.broker.log.read_text().lower()
    assert "too large" not in narrow.broker.broker.log.read_text().lower()
