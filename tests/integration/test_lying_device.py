"""A device that was told nothing answers all the same, through a real broker: nobody uses it."""

from __future__ import annotations

import numpy as np

from tests.integration.test_orchestrator_end_to_end import assert_whole, rows
from tests.support import orchestrated
from tests.support.broker import fresh_name
from tests.support.models import mlp
from tests.support.mqtt_client import MqttClient
from tests.support.orchestrated import TOPICS, Person, System
from tests.support.waiting import wait_until
from wire import frames
from wire.elements import Element
from wire.frame_head import FrameSettings
from wire.ids import ActivationId
from wire.manifest import Manifest
from wire.messages.requests import RunOptions
from wire.parts import PART_NBYTES, Transfer, encode_part, split
from wire.topics import ORCHESTRATOR

system = orchestrated.system
ITEMS = 14


def wrong_frame(manifest: Manifest, at: ActivationId) -> bytes:
    """Zeros, named and shaped like what crosses the cut."""
    tensors = []
    for spec in manifest.cuts[at.cut].tensors:
        shape = tuple(int(dim) if dim.isdecimal() else 2 for dim in spec.dims)
        zeros = np.zeros(shape, np.float32)
        tensors.append(frames.encode_tensor(spec.name, Element.FLOAT, zeros.shape, zeros.tobytes()))
    settings = FrameSettings(exact=True)
    return frames.encode_frame(frames.Frame(manifest.digest, at, 9, settings, tuple(tensors)))


def lie(device: MqttClient, name: str, to: str, manifest: Manifest, at: ActivationId) -> None:
    for part in split(Transfer(at, 9), wrong_frame(manifest, at), PART_NBYTES):
        device.publish(TOPICS.data(to, name), encode_part(part))


def test_an_idle_devices_answers_are_nobodys(system: System):
    model = mlp(6)
    manifest = system.add(model, "mlp", segments=4, max_shape={"batch": 4})
    state = system.start()._machine.state
    agents = [system.agent().name for _ in range(2)]
    inputs, end, idle = rows(ITEMS), len(manifest.segments), fresh_name("idle")
    with Person(system.broker) as person, system.broker.connect(idle) as device:
        run = person.submit("mlp", ITEMS, RunOptions(exact=True, partitions=2))
        for item, x in enumerate(inputs):
            for cut in range(1, end):
                for agent in agents:
                    lie(device, idle, agent, manifest, ActivationId(run, item, cut))
            person.send_stored(manifest, run, item, x=x)
            lie(device, idle, ORCHESTRATOR, manifest, ActivationId(run, item, end))
        person.finish(run, ITEMS)
    assert_whole(person, model, inputs)
    # The last lie may still be on its way when the last result is had.
    discarded = ("unplaced_result", "stray_result", "repeated_result")
    wait_until(
        lambda: sum(state.counts[each] for each in discarded) >= ITEMS, "every lie to be discarded"
    )
