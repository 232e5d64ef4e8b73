"""Two agents of one name, which something starts again whenever they end, at a real Mosquitto: they
wait longer each time, the person is told, and the others' work goes on."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from crowdpipe.client.fleet import devices
from tests.integration.test_orchestrator_end_to_end import assert_whole, rows
from tests.support import orchestrated
from tests.support.agent_process import AgentProcess
from tests.support.broker import fresh_name
from tests.support.models import mlp
from tests.support.orchestrated import LIMIT_S, Person, System
from tests.support.waiting import wait_until
from wire.broker_url import BrokerUrl
from wire.messages.requests import RunOptions

system = orchestrated.system
ITEMS = 30
WAITS_S = 3 * LIMIT_S  # their waits double: a start more, and it is as long again
OTHER = "another agent uses the name"


class Supervisor:
    """Starts an agent again whenever it ends."""

    def __init__(self, name: str, url: BrokerUrl, folder: Path) -> None:
        self._name, self._url, self._folder = name, url, folder
        self._stopping = threading.Event()
        self.agents: list[AgentProcess] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            agent = AgentProcess(self._name, self._url, self._folder, "--memory", "64MiB")
            self.agents.append(agent)
            while agent.process.poll() is None and not self._stopping.wait(0.05):
                pass

    @property
    def said(self) -> str:
        return self.agents[-1].said() if self.agents else ""

    def end(self) -> None:
        self._stopping.set()
        self._thread.join(LIMIT_S)
        for agent in self.agents:
            agent.end()


@pytest.mark.timeout(400)
def test_they_wait_longer_each_time_and_the_person_is_told_and_nothing_is_lost(system: System):
    model = mlp(6)
    manifest = system.add(model, "mlp", segments=4, max_shape={"batch": 4})
    orchestrator = system.start()
    for _ in range(2):
        system.agent()
    name = fresh_name("twice")
    url = system.broker.login(name)
    both = [Supervisor(name, url, system.home / which) for which in ("one", "two")]
    try:
        inputs = rows(ITEMS)
        with Person(system.broker) as person:
            run = person.submit_until_accepted("mlp", ITEMS, RunOptions(exact=True, partitions=2))
            for item, x in enumerate(inputs):
                person.send_stored(manifest, run, item, x=x)
            person.finish(run, ITEMS)
        assert_whole(person, model, inputs)
        wait_until(
            lambda: name in orchestrator._machine.state.contested,
            "the orchestrator to notice",
            WAITS_S,
        )
        watcher = system.broker.login("watcher", "watcher")
        wait_until(lambda: _contested(watcher) == [name], "`crowdpipe devices` to say so", WAITS_S)
        wait_until(
            lambda: all(f"{OTHER} {name}" in each.said for each in both), "both to say so", WAITS_S
        )
        assert not person.failures
    finally:
        for each in both:
            each.end()
    counts = [
        int((system.home / which / "cache" / "replaced").read_text()) for which in ("one", "two")
    ]
    starts = sum(len(each.agents) for each in both)
    assert starts <= sum(counts) + 2, f"{starts} starts for {json.dumps(counts)} replacements"


def _contested(watcher: BrokerUrl) -> list[str]:
    return [device.name for device in devices(watcher) if device.contested]
