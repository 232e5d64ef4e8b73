"""ONNX Runtime that really never answers: the agent says so, drains, and ends."""

from __future__ import annotations

import time

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support import agent_process
from tests.support.agent_process import AgentProcess, Fleet
from tests.support.broker import fresh_name
from tests.support.chain import Chain
from wire.frame_head import FrameSettings
from wire.messages.events import PartitionLoaded, TaskFailed

fleet = agent_process.fleet
IMPATIENT = """\
import sys
from edge_agent import __main__ as program
from edge_agent.machine.records.limits import AgentLimits
from edge_agent.shell import agent
whole = agent.run
limits = AgentLimits(execute_floor_s=2.0, patience=0.0, stop_s=1.0)
agent.run = lambda settings, **others: whole(settings, limits, **others)
sys.exit(program.main())
"""


class ImpatientAgent(AgentProcess):
    """As any agent, but a task may take two seconds, not four minutes."""

    program = ("-c", IMPATIENT)


class Endless(Chain):
    """Its one layer is a loop of as many rounds as an int64 can count."""

    def _nodes(self, index: int) -> list[onnx.NodeProto]:
        ports = [
            helper.make_tensor_value_info("round", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
        ]
        results = [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        ]
        steps = [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Tanh", ["x"], ["y"]),
        ]
        rounds = helper.make_tensor("rounds", TensorProto.INT64, [], [2**63 - 1])
        true = helper.make_tensor("true", TensorProto.BOOL, [], [True])
        return [
            helper.make_node("Constant", [], ["rounds"], value=rounds),
            helper.make_node("Constant", [], ["true"], value=true),
            helper.make_node("MatMul", ["h0", "w0"], ["m0"]),
            helper.make_node(
                "Loop",
                ["rounds", "true", "m0"],
                ["h1"],
                body=helper.make_graph(steps, "body", ports, results),
            ),
        ]


def test_an_agent_whose_runtime_never_answers_says_so_and_ends_at_once(fleet: Fleet):
    chain = Endless(1)
    fleet.put(chain)
    name = fresh_name("agent")
    agent = ImpatientAgent(name, fleet.broker.login(name), fleet.home / name)
    fleet.agents.append(agent)
    fleet.desk.until(name, "state", lambda state: state.status == "online")
    fleet.desk.assign(name, fleet.store_base, [chain.assigned(exact=True)])
    fleet.desk.event(name, PartitionLoaded)
    x = np.ones((1, chain.width), np.float32)
    began = time.monotonic()
    fleet.desk.send(name, chain.digest, fleet.run_name(), 0, 0, FrameSettings(exact=True), h0=x)
    failed = fleet.desk.event(name, TaskFailed)
    assert (failed.kind, "ONNX Runtime to run" in failed.reason) == ("timed_out", True)
    draining = fleet.desk.until(name, "state", lambda state: state.status == "draining")
    farewell = fleet.desk.until(name, "state", lambda state: state.status == "offline")
    assert draining.reason == farewell.reason
    assert "never answered" in farewell.reason
    assert agent.wait() == 3
    assert time.monotonic() - began < 25.0, "it did not wait for its stuck thread"
    assert agent.said().strip().splitlines()[-1].startswith("crowdpipe-agent: waited 2 s for ONNX")
