"""Models that others made, served by agents: inputs of several sizes in a row, each bit compared.

What `test_segments_zoo` shows of segments in one process, through real broker, store, orchestrator
and agents that load one model after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import crowdpipe
from orchestrator.segmentation.checking.verify import identical, run_whole
from tests.support.orchestrated import System, deployed
from tests.support.zoo import ZOO

AGENTS = 3
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with deployed(
        tmp_path_factory.mktemp("deployed"), AGENTS, "--memory", "900MiB", "--hold", "256MiB"
    ) as running:
        yield running


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ZOO)
def test_a_deployed_model_from_the_zoo_takes_every_size_in_a_row(
    name: str, system: System, tmp_path: Path
) -> None:
    path = ZOO[name].make(tmp_path)
    inputs = [feeds() for feeds in ZOO[name].in_a_row]
    model = name.removesuffix(".onnx")
    manifest = system.add_file(path, model)
    partitions = min(AGENTS, len(manifest.segments))
    broker = str(system.broker.client)
    with crowdpipe.Session(
        model, broker, exact=True, partitions=partitions, timeout_s=LIMIT_S
    ) as session:
        names = [output.name for output in session.get_outputs()]
        given = list(session.run_many(inputs))
    assert len(given) == len(inputs)
    for feeds, outputs in zip(inputs, given, strict=True):
        assert identical(dict(zip(names, outputs, strict=True)), run_whole(path, feeds, exact=True))
