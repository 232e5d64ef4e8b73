"""The agent as a process: broker, store and ONNX Runtime are real, the orchestrator is played."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import agent_process
from tests.support.agent_process import ROOT, Fleet
from tests.support.broker import fresh_name
from tests.support.chain import Chain
from wire.frame_head import FrameSettings
from wire.ids import ActivationId
from wire.messages.assignment import Route
from wire.messages.commands import Ping, Release, Report
from wire.messages.events import (
    FrameReceived,
    Inventory,
    PartitionEvicted,
    PartitionLoaded,
    Pong,
    TaskDone,
    TaskFailed,
)
from wire.messages.residency import PartitionResidency, Residency
from wire.topics import ORCHESTRATOR

fleet = agent_process.fleet
MIB = 1 << 20


def inputs(chain: Chain, rows: int = 2, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, chain.width)).astype(np.float32)


def to_desk(chain: Chain, cut: int, exact: bool = False) -> Route:
    return Route(chain.digest, exact, cut, (ORCHESTRATOR,))


def status_of(residency: Residency, status: str) -> PartitionResidency | None:
    return next((entry for entry in residency.partitions if entry.status == status), None)


def failure(fleet: Fleet, device: str) -> PartitionResidency:
    residency = fleet.desk.until(device, "residency", lambda said: status_of(said, "failed"))
    entry = status_of(residency, "failed")
    assert entry is not None
    return entry


# --- life -------------------------------------------------------------------------------------


def test_a_killed_agent_turns_offline_under_the_id_of_its_birth(fleet: Fleet):
    agent = fleet.online()
    birth = fleet.desk.states(agent.name)[0]
    assert birth.capabilities is not None
    assert birth.capabilities.runtime_version
    agent.signal(signal.SIGKILL)
    will = fleet.desk.until(agent.name, "state", lambda state: state.status == "offline")
    assert (will.connection, will.boot) == (birth.connection, birth.boot)


def test_a_stopped_agent_says_farewell_and_ends_well(fleet: Fleet):
    agent = fleet.online()
    agent.signal(signal.SIGTERM)
    assert agent.wait() == 0
    farewell = fleet.desk.until(agent.name, "state", lambda state: state.status == "offline")
    assert "SIGTERM" in farewell.reason
    assert [state.status for state in fleet.desk.states(agent.name)] == [
        "online",
        "draining",
        "offline",
    ]


def test_an_agent_whose_retained_state_is_cleared_says_again_that_it_is_there(fleet: Fleet):
    agent = fleet.online()
    births = len(fleet.desk.states(agent.name))
    topic = agent_process.TOPICS.device(agent.name, "state")
    fleet.desk._client.publish(topic, b"", retain=True)
    fleet.desk.until(agent.name, "state", lambda _: len(fleet.desk.states(agent.name)) > births)
    again = fleet.desk.states(agent.name)[-1]
    assert again == fleet.desk.states(agent.name)[0]


def test_an_idle_agent_answers_pings_and_reads_itself(fleet: Fleet):
    agent = fleet.online()
    fleet.desk.command(agent.name, Ping("nonce"))
    assert fleet.desk.event(agent.name, Pong).nonce == "nonce"
    telemetry = fleet.desk.until(agent.name, "telemetry", lambda _: True)
    assert 0 < telemetry.rss_nbytes <= telemetry.rss_peak_nbytes
    assert telemetry.memory_available_nbytes


def test_an_idle_agent_has_neither_numpy_nor_the_runtime_in_memory(fleet: Fleet):
    agent = fleet.online()
    telemetry = fleet.desk.until(agent.name, "telemetry", lambda _: True)
    assert "numpy" not in agent.maps()
    assert "onnxruntime" not in agent.maps()
    assert telemetry.rss_nbytes < 40 * MIB


def test_the_newcomer_wins_and_the_old_agent_says_why_it_ends(fleet: Fleet):
    name = fresh_name("agent")
    old = fleet.online(name=name)
    boot = fleet.desk.states(name)[0].boot
    fleet.start(name=name, folder="newcomer")
    fleet.desk.until(name, "state", lambda state: state.status == "online" and state.boot != boot)
    assert old.wait() == 3
    assert "another agent" in old.said()
    assert fleet.agents[-1].process.poll() is None


def test_a_wrong_secret_ends_the_agent_with_what_to_check(fleet: Fleet):
    agent = fleet.start("--broker", f"mqtt://nobody:wrong@127.0.0.1:{fleet.broker.port}")
    assert agent.wait() == 3
    assert "secret" in agent.said()


def test_a_device_under_anothers_user_is_refused_with_a_sentence(fleet: Fleet):
    other = fleet.broker.login(fresh_name("agent"))
    agent = fleet.start("--broker", str(other))
    assert agent.wait() == 3
    assert "--name" in agent.said() or "user" in agent.said()


# --- serving ----------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False])
def test_a_frame_in_is_the_whole_models_output_out(fleet: Fleet, exact: bool):
    chain = Chain(4)
    fleet.put(chain)
    agent, run, x = fleet.online(), fleet.run_name(), inputs(chain)
    fleet.desk.assign(
        agent.name, fleet.store_base, [chain.assigned(exact)], [to_desk(chain, 4, exact)]
    )
    fleet.desk.send(agent.name, chain.digest, run, 0, 0, FrameSettings(exact=exact), h0=x)
    got = fleet.desk.array(ActivationId(run, 0, 4), "h4")
    wanted = chain.whole(x, exact)
    if exact:
        assert got.tobytes() == wanted.tobytes()
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    loaded = fleet.desk.event(agent.name, PartitionLoaded)
    assert loaded.fetched_nbytes == sum(map(len, chain.blobs.values()))
    done = fleet.desk.event(agent.name, TaskDone)
    assert done.output_raw_nbytes == wanted.nbytes
    assert done.compute_s > 0


def test_a_large_frame_travels_in_parts_both_ways(fleet: Fleet):
    chain = Chain(1, width=256)
    fleet.put(chain)
    agent, run = fleet.online(), fleet.run_name()
    x = inputs(chain, rows=1000)  # 1 MB
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()], [to_desk(chain, 1)])
    fleet.desk.send(agent.name, chain.digest, run, 0, 0, FrameSettings(), h0=x)
    got = fleet.desk.array(ActivationId(run, 0, 1), "h1")
    np.testing.assert_allclose(got, chain.whole(x, False), atol=1e-5)


def test_agents_send_to_each_other_without_the_desk(fleet: Fleet):
    chain = Chain(4)
    fleet.put(chain)
    first, last = fleet.online(), fleet.online()
    run, x = fleet.run_name(), inputs(chain)
    to_last = Route(chain.digest, False, 2, (last.name,))
    fleet.desk.assign(last.name, fleet.store_base, [chain.assigned(first=2)], [to_desk(chain, 4)])
    fleet.desk.assign(first.name, fleet.store_base, [chain.assigned(last=1)], [to_last])
    for item in range(5):
        fleet.desk.send(first.name, chain.digest, run, item, 0, FrameSettings(), h0=x + item)
    for item in range(5):
        got = fleet.desk.array(ActivationId(run, item, 4), "h4")
        np.testing.assert_allclose(got, chain.whole(x + item, False), atol=1e-5)
    received = fleet.desk.event(last.name, FrameReceived)
    assert received.sender == first.name


def test_two_partitions_take_turns_in_memory(fleet: Fleet):
    """Both are served by one device whose memory holds one: RSS falls when one leaves."""
    chain = Chain(2, width=3072)  # 36 MiB a partition
    fleet.put(chain)
    agent = fleet.online("--memory", "128MiB")
    run, x = fleet.run_name(), inputs(chain)
    to_itself = Route(chain.digest, False, 1, (agent.name,))
    partitions = [chain.assigned(last=0), chain.assigned(first=1)]
    fleet.desk.assign(agent.name, fleet.store_base, partitions, [to_itself, to_desk(chain, 2)])
    for item in range(2):
        fleet.desk.send(agent.name, chain.digest, run, item, 0, FrameSettings(), h0=x + item)
    for item in range(2):
        got = fleet.desk.array(ActivationId(run, item, 2), "h2")
        np.testing.assert_allclose(got, chain.whole(x + item, False), atol=1e-5)
    evicted = fleet.desk.event(agent.name, PartitionEvicted)
    second = fleet.desk.event(agent.name, PartitionLoaded, lambda event: event.partition.first == 1)
    first = fleet.desk.event(agent.name, PartitionLoaded)
    assert first.rss_nbytes > first.rss_before_nbytes + 30 * MIB
    assert evicted.rss_nbytes < first.rss_nbytes - 30 * MIB
    assert second.rss_nbytes < first.rss_nbytes + 16 * MIB
    kinds = [
        type(event)
        for event in fleet.desk.events(agent.name)
        if isinstance(event, (PartitionLoaded, PartitionEvicted))
    ]
    assert kinds[:3] == [PartitionLoaded, PartitionEvicted, PartitionLoaded]


def test_a_partition_larger_than_the_memory_is_streamed(fleet: Fleet):
    chain = Chain(4, width=1536)  # 9 MiB a segment
    fleet.put(chain)
    agent = fleet.online("--memory", "40MiB")
    run, x = fleet.run_name(), inputs(chain)
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()], [to_desk(chain, 4)])
    fleet.desk.send(agent.name, chain.digest, run, 0, 0, FrameSettings(), h0=x)
    got = fleet.desk.array(ActivationId(run, 0, 4), "h4")
    np.testing.assert_allclose(got, chain.whole(x, False), atol=1e-5)
    assert fleet.desk.event(agent.name, PartitionLoaded).streamed


def test_a_restarted_agent_fetches_nothing_twice(fleet: Fleet):
    chain = Chain(2)
    fleet.put(chain)
    agent = fleet.online()
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()])
    fleet.desk.until(
        agent.name,
        "residency",
        lambda said: status_of(said, "cached") or status_of(said, "resident"),
    )
    agent.signal(signal.SIGKILL)
    agent.wait()
    fleet.store.stop()
    fleet.start(name=agent.name)
    fleet.desk.until(
        agent.name,
        "residency",
        lambda said: (
            said.connection != fleet.desk.states(agent.name)[0].connection
            and said.cached_count == len(chain.blobs)
        ),
    )


# --- refusals ---------------------------------------------------------------------------------


def test_what_no_streaming_can_fit_is_refused_as_over_budget(fleet: Fleet):
    chain = Chain(1, width=1536)
    fleet.put(chain)
    agent = fleet.online("--memory", "4MiB")
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()])
    fleet.desk.send(
        agent.name, chain.digest, fleet.run_name(), 0, 0, FrameSettings(), h0=inputs(chain)
    )
    refused = failure(fleet, agent.name).failure
    assert refused is not None
    assert refused.kind == "over_budget"
    assert str(4 << 20) in refused.reason


def test_a_blob_that_the_store_altered_is_refused(fleet: Fleet):
    chain = Chain(1)
    fleet.put(chain)
    digest = chain.refs[0].weights[0].digest
    stored = next(path for path in (fleet.home / "store").rglob(digest) if path.stat().st_size > 99)
    stored.write_bytes(bytes(stored.stat().st_size))
    agent = fleet.online()
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()])
    refused = failure(fleet, agent.name).failure
    assert refused is not None
    assert refused.kind == "blob_corrupt"
    assert not agent.blob(digest).exists()


def test_a_blob_that_rots_on_the_device_is_fetched_again(fleet: Fleet):
    chain = Chain(1)
    fleet.put(chain)
    agent, run, x = fleet.online(), fleet.run_name(), inputs(chain)
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()], [to_desk(chain, 1)])
    digest = chain.refs[0].weights[0].digest
    fleet.desk.until(agent.name, "residency", lambda said: said.cached_count == len(chain.blobs))
    fleet.desk.assign(agent.name, fleet.store_base, [])
    fleet.desk.until(agent.name, "residency", lambda said: said.revision == 2)
    agent.blob(digest).write_bytes(b"rot")
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()], [to_desk(chain, 1)])
    fleet.desk.send(agent.name, chain.digest, run, 0, 0, FrameSettings(), h0=x)
    got = fleet.desk.array(ActivationId(run, 0, 1), "h1")
    np.testing.assert_allclose(got, chain.whole(x, False), atol=1e-5)


def test_a_store_that_is_down_is_a_typed_failure_that_names_it(fleet: Fleet):
    chain = Chain(1)
    agent = fleet.online()
    fleet.desk.assign(agent.name, "http://127.0.0.1:9", [chain.assigned()])
    refused = failure(fleet, agent.name).failure
    assert refused is not None
    assert refused.kind == "store_unreachable"
    assert "127.0.0.1:9" in refused.reason


def test_an_input_that_the_graph_refuses_fails_that_item_alone(fleet: Fleet):
    chain = Chain(1)
    fleet.put(chain)
    agent, run, x = fleet.online(), fleet.run_name(), inputs(chain)
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()], [to_desk(chain, 1)])
    fleet.desk.send(agent.name, chain.digest, run, 0, 0, FrameSettings(), h0=x[:, :3].copy())
    fleet.desk.send(agent.name, chain.digest, run, 1, 0, FrameSettings(), h0=x)
    assert fleet.desk.event(agent.name, TaskFailed).kind == "compute_failed"
    assert fleet.desk.frame(ActivationId(run, 1, 1))


def test_a_released_output_leaves_the_device(fleet: Fleet):
    chain = Chain(1)
    fleet.put(chain)
    agent, run = fleet.online("--memory", "64MiB"), fleet.run_name()
    fleet.desk.assign(agent.name, fleet.store_base, [chain.assigned()], [to_desk(chain, 1)])
    fleet.desk.send(agent.name, chain.digest, run, 0, 0, FrameSettings(), h0=inputs(chain))
    fleet.desk.frame(ActivationId(run, 0, 1))
    fleet.desk.command(agent.name, Report())
    fleet.desk.event(agent.name, Inventory, lambda said: len(said.outputs) == 1)
    fleet.desk.command(agent.name, Release(run, 1, (0,)), Report())
    held = fleet.desk.events(agent.name)
    fleet.desk.event(
        agent.name,
        Inventory,
        lambda said: said.outputs == () and said not in held,
    )


def test_garbage_on_every_topic_ends_nothing(fleet: Fleet):
    agent = fleet.online()
    topics = fleet.desk._client
    for leaf in ("assignment", "commands"):
        topics.publish(f"crowdpipe/v1/devices/{agent.name}/{leaf}", b'{"generation": "x"}')
    for garbage in (b"", b"CP", b"\x00" * 100):
        topics.publish(f"crowdpipe-data/v1/{agent.name}/from/orchestrator", garbage)
    fleet.desk.command(agent.name, Ping("alive"))
    assert fleet.desk.event(agent.name, Pong).nonce == "alive"
    assert agent.process.poll() is None


# --- where it runs ----------------------------------------------------------------------------

ANDROID = """
import ctypes, platform, sys
platform.uname()  # from Python 3.13 on it would ask Android's own library
sys.platform = "android"
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("psutil", "yaml"):
            raise NotImplementedError("platform android is not supported")
sys.meta_path.insert(0, Blocked())
from edge_agent.__main__ import main
code = main(sys.argv[1:])
heavy = {"numpy", "onnxruntime", "importlib.metadata"} & set(sys.modules)
print("heavy", sorted(heavy), file=sys.stderr)
sys.exit(code)
"""


def test_the_agent_serves_where_the_platform_is_android_and_psutil_raises(
    fleet: Fleet, tmp_path: Path
):
    name = fresh_name("agent")
    url = fleet.broker.login(name)
    command = [sys.executable, "-c", ANDROID, "--broker", str(url), "--name", name]
    command += ["--cache", str(tmp_path / "cache")]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        fleet.desk.until(name, "state", lambda state: state.status == "online")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert "heavy []" in said
