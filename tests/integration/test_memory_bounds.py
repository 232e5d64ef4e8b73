"""Inputs faster than the crowd, results collected late: what each program takes stays within the
bounds of docs/data-flow.md, however much passes."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest

from edge_agent.adapters.store.spool import MEMORY_NBYTES
from orchestrator.machine.records.options import OrchestratorOptions
from tests.integration.test_session_beside_flood import MostMemory
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import TOPICS, Person, System
from wire import credits, outbox
from wire.manifest import Manifest
from wire.messages.requests import RunOptions
from wire.parts import LARGE_PART_NBYTES

MIB = 1 << 20
ROWS = MIB // (4 * WIDTH)
ITEMS, PARTITIONS = 60, 2
PAIRS = PARTITIONS + 3  # client to orchestrator, to the first device, …, and back to the client
CREDIT = OrchestratorOptions().credit
WANTED = RunOptions(partitions=PARTITIONS)
X = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)

# Of frames of `MIB`. What passes is more than each of them: 120 MiB through the orchestrator and
# each device, 240 MiB through the broker.
ORCHESTRATOR_NBYTES = outbox.MAX_NBYTES + CREDIT * MIB
BROKER_NBYTES = PAIRS * credits.WINDOW * LARGE_PART_NBYTES + CREDIT * MIB
AGENT_NBYTES = MEMORY_NBYTES + outbox.MAX_NBYTES + 8 * MIB


class SlowPerson(Person):
    """Sends what it may at once; puts results aside, and returns no credit, until it `collects`."""

    collects = False
    aside: list[Any]

    def _hear(self, message: Any) -> None:
        if TOPICS.is_data(message.topic) and not self.collects:
            self.aside.append(message)
        else:
            super()._hear(message)

    def collect(self) -> None:
        self.collects = True
        for message in self.aside:
            super()._hear(message)


def has_stored(person: Person, run: str, count: int) -> bool:
    return len(person.stored(run)) >= count


@pytest.fixture
def manifest(system: System) -> Manifest:
    return system.add(mlp(6), "mlp", segments=4, max_shape={"batch": ROWS})


@pytest.fixture
def pids(system: System, manifest: Manifest) -> dict[str, int]:
    """Of a served system that has nothing to do."""
    agents = [system.agent() for _ in range(PARTITIONS)]
    orchestrator = system.start_process("--log", "warning")
    with Person(system.broker) as person:
        run = person.submit_until_accepted(manifest.name, 1, WANTED)
        person.send_stored(manifest, run, 0, x=X)
        person.finish(run, 1)
    found = {f"agent {number}": each.process.pid for number, each in enumerate(agents)}
    return found | {"orchestrator": orchestrator.pid, "broker": system.broker.broker.pid}


def test_what_waits_is_bounded_in_every_program(
    system: System, manifest: Manifest, pids: dict[str, int]
):
    with ExitStack() as stack:
        watched = {name: stack.enter_context(MostMemory(pid)) for name, pid in pids.items()}
        person = SlowPerson(system.broker)
        person.aside = []
        stack.enter_context(person)
        run = person.submit(manifest.name, ITEMS, WANTED)
        for item in range(ITEMS):
            person.send(manifest, run, item, x=X + item)
            least = item + 1 - CREDIT
            person.until(partial(has_stored, person, run, least), f"credit for item {item}")
        person.until(partial(has_stored, person, run, ITEMS), "all inputs to be stored")
        assert not person.results
        person.collect()
        person.finish(run, ITEMS)
    grown = {name: each.most_nbytes - each.before_nbytes for name, each in watched.items()}
    limits = {"orchestrator": ORCHESTRATOR_NBYTES, "broker": BROKER_NBYTES}
    assert not {
        name: nbytes for name, nbytes in grown.items() if nbytes > limits.get(name, AGENT_NBYTES)
    }
