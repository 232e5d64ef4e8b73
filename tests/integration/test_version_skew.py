"""A real desk and a real agent of different versions: within their ranges they work, beyond them
both say so and wait, and they go on once one is updated."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import replace

from rich.console import Console

from crowdpipe.cli.devices import devices_table
from crowdpipe.client.fleet import DeviceReport, devices
from tests.integration.test_orchestrator_end_to_end import assert_whole, rows
from tests.support import orchestrated
from tests.support.models import mlp
from tests.support.orchestrated import LIMIT_S, QUICK, Person, System
from wire.manifest import Manifest
from wire.messages.requests import RunOptions
from wire.versions import OURS, WireRange

system = orchestrated.system
MODEL, COUNT = mlp(4), 3


def serves(system: System, manifest: Manifest) -> None:
    inputs = rows(COUNT)
    with Person(system.broker) as person:
        run = person.submit_until_accepted("mlp", COUNT, RunOptions(exact=True))
        for item, x in enumerate(inputs):
            person.send_stored(manifest, run, item, x=x)
        person.finish(run, COUNT)
    assert_whole(person, MODEL, inputs)
    assert not person.failures


def shown(system: System, wanted: Callable[[str], bool]) -> str:
    """What `crowdpipe devices` prints."""
    watcher, deadline = system.broker.login("watcher", "watcher"), time.monotonic() + LIMIT_S
    while True:
        found: list[DeviceReport] = devices(watcher)
        console = Console(file=io.StringIO(), width=200)
        console.print(devices_table(found))
        text = console.file.getvalue()  # type: ignore[attr-defined]  # it is ours
        if wanted(text):
            return text
        assert time.monotonic() < deadline, f"`crowdpipe devices` says {text}"
        time.sleep(0.1)


def well(text: str) -> bool:
    return "online" in text and "agent speaks" not in text


def spoken(*versions: int) -> dict[str, object]:
    return {"options": replace(QUICK, versions=WireRange(versions[0], versions[-1]))}


def test_a_newer_desk_serves_an_older_agent_within_its_range_and_refuses_it_beyond(
    system: System,
):
    manifest = system.add(MODEL, "mlp", segments=4, max_shape={"batch": 4})
    desk = system.start(**spoken(OURS.newest, OURS.newest + 1))
    agent = system.agent()
    serves(system, manifest)
    shown(system, well)

    desk.stop()
    desk = system.start(**spoken(OURS.newest + 1))
    why = f"the agent speaks wire version {OURS}, the desk {OURS.newest + 1}: update the agent"
    shown(system, lambda text: f"{agent.name}: {why}" in text)
    assert agent.process.poll() is None

    desk.stop()
    system.start(**spoken(OURS.newest, OURS.newest + 2))
    serves(system, manifest)
    shown(system, well)
