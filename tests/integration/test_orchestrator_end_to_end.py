"""Runs over real broker, store, orchestrator and agents: outputs equal those of the whole model."""

from __future__ import annotations

import numpy as np

from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import Person, System, whole_model
from wire.messages.requests import RunOptions

pytest_plugins = ["tests.support.orchestrated"]


def rows(count: int, seed: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(2, WIDTH)).astype(np.float32) for _ in range(count)]


def test_a_run_over_two_agents_gives_the_whole_models_outputs_bit_for_bit(system: System):
    model = mlp(6)
    manifest = system.add(model, "mlp", segments=4, max_shape={"batch": 4})
    system.start()
    for _ in range(2):
        system.agent()
    inputs = rows(6)
    with Person(system.broker) as person:
        run = person.submit("mlp", len(inputs), RunOptions(exact=True, partitions=2))
        for item, x in enumerate(inputs):
            person.send(manifest, run, item, x=x)
        person.finish(run, len(inputs))
    session = whole_model(model)
    for item, x in enumerate(inputs):
        (wanted,) = session.run(["y"], {"x": x})
        np.testing.assert_array_equal(person.results[item]["y"], wanted)
    assert person.failures == {}
