"""Results that nobody fetched yet outlive the orchestrator, and even their model."""

from __future__ import annotations

import numpy as np

from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import Person, System, whole_model
from wire.messages.requests import RunOptions

pytest_plugins = ["tests.support.orchestrated"]


def test_a_result_comes_after_a_restart_without_its_model(system: System) -> None:
    model = mlp(3)
    manifest = system.add(model, "mlp", segments=2, max_shape={"batch": 4})
    first = system.start()
    system.agent()
    x = np.ones((2, WIDTH), np.float32)
    with Person(system.broker) as person:
        run = person.submit("mlp", 1, RunOptions(exact=True))
        person.send(manifest, run, 0, x=x)
        person.until(lambda: person.ended, "the result")
        person.results.clear()
        first.stop()
        system.store.manifests.remove("mlp")
        system.start()
        person.fetch(run, 1)
    (wanted,) = whole_model(model).run(["y"], {"x": x})
    np.testing.assert_array_equal(person.results[0]["y"], wanted)
