"""Runs over real broker, store, orchestrator and agents: outputs equal those of the whole model."""

from __future__ import annotations

import signal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.support import orchestrated
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import Person, System, whole_model
from wire.messages.requests import RunOptions
from wire.parts import PART_NBYTES

system = orchestrated.system
LARGE = 1 << 18  # values; 1 MiB of float32, which travels in parts
EXACT = RunOptions(exact=True)


def rows(count: int, seed: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(2, WIDTH)).astype(np.float32) for _ in range(count)]


def assert_whole(
    person: Person, model: onnx.ModelProto, inputs: list[np.ndarray], exact: bool = True
) -> None:
    """Every item has a result, and it is what the whole model gives."""
    assert person.failures == {}
    assert sorted(person.results) == list(range(len(inputs)))
    session = whole_model(model, exact)
    for item, x in enumerate(inputs):
        (wanted,) = session.run(["y"], {"x": x})
        if exact:
            np.testing.assert_array_equal(person.results[item]["y"], wanted)
        else:
            np.testing.assert_allclose(person.results[item]["y"], wanted, atol=1e-5)


def wide() -> onnx.ModelProto:
    """Adds a row of LARGE values twice: its inputs, boundary and outputs take 1 MiB each."""
    weights = [
        numpy_helper.from_array(np.linspace(0, k + 1, LARGE, dtype=np.float32), f"w{k}")
        for k in range(2)
    ]
    nodes = [
        helper.make_node("Add", ["x", "w0"], ["h"]),
        helper.make_node("Mul", ["h", "w1"], ["y"]),
    ]
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, LARGE])] for name in ("x", "y")
    ]
    graph = helper.make_graph(nodes, "wide", *ports, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_run_over_two_agents_gives_the_whole_models_outputs_bit_for_bit(system: System):
    model = mlp(6)
    manifest = system.add(model, "mlp", segments=4, max_shape={"batch": 4})
    system.start()
    for _ in range(2):
        system.agent()
    inputs = rows(6)
    with Person(system.broker) as person:
        options = RunOptions(exact=True, partitions=2)
        run = person.submit("mlp", len(inputs), options)
        for item, x in enumerate(inputs):
            person.send(manifest, run, item, x=x)
        person.finish(run, len(inputs))
    assert_whole(person, model, inputs)


def test_frames_larger_than_a_part_go_through_unchanged(system: System):
    model = wide()
    manifest = system.add(model, "wide", segments=2)
    system.start()
    for _ in range(2):
        system.agent("--memory", "256MiB")
    rng = np.random.default_rng(5)
    inputs = [rng.normal(size=(1, LARGE)).astype(np.float32) for _ in range(3)]
    assert inputs[0].nbytes > 3 * PART_NBYTES
    with Person(system.broker) as person:
        run = person.submit("wide", len(inputs), RunOptions(exact=True, partitions=2))
        for item, x in enumerate(inputs):
            person.send_stored(manifest, run, item, x=x)
        person.finish(run, len(inputs))
    assert_whole(person, model, inputs)


def test_a_barrier_run_gives_the_same_outputs(system: System):
    model = mlp(4)
    manifest = system.add(model, "mlp", segments=2, max_shape={"batch": 4})
    system.start()
    for _ in range(2):
        system.agent()
    inputs = rows(5)
    with Person(system.broker) as person:
        options = RunOptions(barrier=True, partitions=2)
        run = person.submit("mlp", len(inputs), options)
        for item, x in enumerate(inputs):
            person.send(manifest, run, item, x=x)
        person.finish(run, len(inputs))
    assert_whole(person, model, inputs, exact=False)


def test_items_survive_an_agent_that_is_killed(system: System):
    model = mlp(4)
    manifest = system.add(model, "mlp", segments=2, max_shape={"batch": 4})
    system.start()
    agents = [system.agent() for _ in range(3)]
    inputs = rows(30)
    with Person(system.broker) as person:
        run = person.submit("mlp", len(inputs), RunOptions(exact=True, partitions=2))
        for item, x in enumerate(inputs[:10]):
            person.send(manifest, run, item, x=x)
        person.until(lambda: len(person.results) >= 3, "the first results")
        agents[0].process.send_signal(signal.SIGKILL)
        for item, x in enumerate(inputs[10:], 10):
            person.send(manifest, run, item, x=x)
        person.finish(run, len(inputs))
    assert_whole(person, model, inputs)


def test_items_survive_a_broker_that_is_restarted(system: System):
    model = mlp(4)
    manifest = system.add(model, "mlp", segments=2, max_shape={"batch": 4})
    system.start()
    for _ in range(2):
        system.agent()
    inputs = rows(8)
    with Person(system.broker) as person:
        run = person.submit("mlp", len(inputs), EXACT)
        for item, x in enumerate(inputs):
            person.send_stored(manifest, run, item, x=x)
        before = dict(person.results)
        party = person.party
        system.broker.stop()
    system.broker.start()
    with Person(system.broker, party.rpartition("/")[2]) as person:
        person.results.update(before)
        person.fetch(run, len(inputs))
        person.finish(run, len(inputs))
    assert_whole(person, model, inputs)


def test_a_run_goes_on_after_the_orchestrator_was_killed(system: System):
    model = mlp(4)
    manifest = system.add(model, "mlp", segments=2, max_shape={"batch": 4})
    first = system.start_process()
    inputs = rows(8)
    with Person(system.broker) as person:
        run = person.submit_until_accepted("mlp", len(inputs), EXACT)
        for item, x in enumerate(inputs):
            person.send_stored(manifest, run, item, x=x)
        first.send_signal(signal.SIGKILL)
        first.wait(20)
        for _ in range(2):
            system.agent()
        system.start_process()
        person.finish(run, len(inputs))
    assert_whole(person, model, inputs)


def test_results_wait_for_a_client_that_was_away(system: System):
    model = mlp(4)
    manifest = system.add(model, "mlp", segments=2, max_shape={"batch": 4})
    first = system.start_process()
    system.agent()
    inputs = rows(4)
    with Person(system.broker) as person:
        run = person.submit_until_accepted("mlp", len(inputs), EXACT)
        for item, x in enumerate(inputs):
            person.send_stored(manifest, run, item, x=x)
        person.until(lambda: person.ended == len(inputs), "all results")
        session = person.party.rpartition("/")[2]
    first.send_signal(signal.SIGKILL)
    first.wait(20)
    system.start_process()
    with Person(system.broker, session) as person:
        person.fetch(run, len(inputs))
        person.finish(run, len(inputs))
    assert_whole(person, model, inputs)
