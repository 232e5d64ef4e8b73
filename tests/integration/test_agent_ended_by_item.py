"""An item that kills whichever agent runs it, for real: it has its error, and all others their
result. Each agent is started again as a phone's supervisor does it."""

from __future__ import annotations

import numpy as np

from tests.support import orchestrated
from tests.support.agent_process import AgentProcess
from tests.support.broker import fresh_name
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import Person, System, whole_model
from wire.errors import EndsDevice
from wire.messages.requests import RunOptions

system = orchestrated.system
DEADLY = 666.0
ITEMS, DEADLY_ITEM = 24, 5
SUPERVISOR = """\
import ctypes, signal, subprocess, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
while subprocess.run([sys.executable, "-c", sys.argv[1], *sys.argv[2:]]).returncode < 0:
    print("supervisor: the agent was killed", file=sys.stderr, flush=True)
"""
AGENT = f"""\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
import numpy as np
from edge_agent import __main__ as program
from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
whole = LoadedPartition.run
def run(self, values):
    if any(np.any(value.numpy() == {DEADLY}) for value in values.values()):
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, values)
LoadedPartition.run = run
sys.exit(program.main())
"""


class SupervisedAgent(AgentProcess):
    """As any agent, but an input with a certain number in it kills it; then it starts again."""

    program = ("-c", SUPERVISOR, AGENT)

    @property
    def deaths(self) -> int:
        return self.said().count("supervisor: the agent was killed")


def start(system: System) -> SupervisedAgent:
    name = fresh_name("agent")
    login = system.broker.login(name)
    agent = SupervisedAgent(name, login, system.home / name, "--memory", "64MiB")
    system.agents.append(agent)
    return agent


def test_an_item_that_kills_its_agents_has_its_error_and_all_others_their_result(system: System):
    model = mlp(6)
    manifest = system.add(model, "mlp", segments=6, max_shape={"batch": 4})
    agents = [start(system) for _ in range(3)]
    system.start()
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=(2, WIDTH)).astype(np.float32) for _ in range(ITEMS)]
    inputs[DEADLY_ITEM][0, 0] = DEADLY
    whole = whole_model(model)
    with Person(system.broker) as person:
        options = RunOptions(exact=True, partitions=2)
        run = person.submit_until_accepted("mlp", ITEMS, options)
        for item, x in enumerate(inputs):
            person.send_stored(manifest, run, item, x=x)
        person.until(lambda: person.ended >= ITEMS, f"{ITEMS} outcomes", 120.0)
    assert set(person.failures) == {DEADLY_ITEM}
    failure = person.failures[DEADLY_ITEM]
    assert failure.kind == EndsDevice.kind
    assert any(agent.name in failure.reason for agent in agents)
    for item in person.results:
        (wanted,) = whole.run(["y"], {"x": inputs[item]})
        np.testing.assert_array_equal(person.results[item]["y"], wanted)
    # Six proven ones end it; before its start is told, and its note is, a few more may pass.
    assert sum(agent.deaths for agent in agents) <= 12
