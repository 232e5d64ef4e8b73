"""A partition that stays becomes one session, and no bit, time or failure is lost by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_agent.adapters.runtime import segment_loader
from edge_agent.adapters.runtime.joined_graph import GraphPart, joined_graph
from edge_agent.adapters.runtime.joining import TIMED_TASKS, SegmentTimes, groups_of
from edge_agent.adapters.runtime.loaded_partition import SETTLED_S, LoadedPartition
from edge_agent.adapters.store.cache import BlobCache
from orchestrator.segmentation.checking.verify import to_array, to_value
from tests.support.chain import Chain
from wire.errors import LoadFailed
from wire.memory import resident_need

LAYERS = 4
ROOMY_NBYTES = 1 << 30


@pytest.fixture
def chain() -> Chain:
    return Chain(LAYERS)


@pytest.fixture
def cache(chain: Chain, tmp_path: Path) -> BlobCache:
    cache = BlobCache(tmp_path / "cache")
    for digest, data in chain.blobs.items():
        cache.part_path(digest).write_bytes(data)
        cache.admit(digest)
    return cache


class Loads:
    """Loads partitions of the chain, which are closed at the end."""

    def __init__(self, chain: Chain, cache: BlobCache) -> None:
        self._chain, self._cache = chain, cache
        self._loaded: list[LoadedPartition] = []

    def __call__(self, exact: bool = True, **how: object) -> LoadedPartition:
        given = {"streamed": False, "budget_nbytes": ROOMY_NBYTES, **how}
        loaded = LoadedPartition(self._chain.assigned(exact), self._cache, **given)  # type: ignore[arg-type]
        self._loaded.append(loaded)
        return loaded

    def close(self) -> None:
        for each in self._loaded:
            each.close()


@pytest.fixture
def load(chain: Chain, cache: BlobCache) -> Iterator[Loads]:
    loads = Loads(chain, cache)
    yield loads
    loads.close()


def some_input(chain: Chain) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((3, chain.width)).astype(np.float32)


def run(partition: LoadedPartition, x: np.ndarray) -> np.ndarray:
    made, seconds = partition.run({"h0": to_value(x)})
    assert len(seconds) == LAYERS
    assert set(made) == {f"h{LAYERS}"}
    result: np.ndarray = to_array(made[f"h{LAYERS}"])
    return result


def warm(partition: LoadedPartition, x: np.ndarray) -> None:
    for _ in range(TIMED_TASKS):
        assert not partition.settle()
        run(partition, x)


@pytest.mark.parametrize("exact", [True, False])
def test_segments_become_one_session_once_each_was_timed(chain, load, exact: bool) -> None:
    x, partition = some_input(chain), load(exact)
    warm(partition, x)
    before = run(partition, x)
    assert partition.settle()
    assert not partition.settle()
    assert np.array_equal(run(partition, x), before)
    if exact:
        assert np.array_equal(before, chain.whole(x, exact=True))


def test_nothing_is_left_on_disk_by_joining(chain, load, cache: BlobCache) -> None:
    x, partition = some_input(chain), load()
    warm(partition, x)
    before = sorted(cache.folder.rglob("*"))
    assert partition.settle()
    assert sorted(cache.folder.rglob("*")) == before


@pytest.mark.parametrize(
    "how",
    [{"streamed": True}, {"takes_turns": True}, {"prepare_nbytes": 0}, {"budget_nbytes": 0}],
    ids=str,
)
def test_what_is_short_of_room_or_goes_soon_stays_a_chain(chain, load, how) -> None:
    if how.get("budget_nbytes") == 0:
        how = {"budget_nbytes": resident_need(chain.refs)}
    x, partition = some_input(chain), load(exact=False, **how)
    warm(partition, x)
    assert not partition.settle()
    run(partition, x)


def test_what_may_take_turns_is_joined_once_it_has_stayed(
    chain, load, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, partition = some_input(chain), load(exact=True, takes_turns=True)
    warm(partition, x)
    assert not partition.settle()
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + SETTLED_S)
    assert partition.settle()


def test_a_single_segment_stays_as_it_is(cache: BlobCache, chain: Chain) -> None:
    partition = LoadedPartition(
        chain.assigned(True, 1, 1), cache, streamed=False, budget_nbytes=ROOMY_NBYTES
    )
    for _ in range(TIMED_TASKS):
        partition.run({"h1": to_value(some_input(chain))})
    assert not partition.settle()
    partition.close()


def test_what_cannot_be_joined_runs_on_as_a_chain(
    chain, load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> bytes:
        raise LoadFailed("cannot be joined")

    x, partition = some_input(chain), load()
    warm(partition, x)
    before = run(partition, x)
    monkeypatch.setattr(segment_loader, "joined_graph", refuse)
    assert not partition.settle()
    assert "stays in several sessions" in caplog.text
    assert np.array_equal(run(partition, x), before)


def test_what_onnx_runtime_refuses_runs_on_as_a_chain(
    chain, load, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, partition = some_input(chain), load()
    warm(partition, x)
    monkeypatch.setattr(segment_loader, "joined_graph", lambda *_: b"\x08\x08")
    assert not partition.settle()
    run(partition, x)


# --- times ------------------------------------------------------------------------------------


def test_the_time_of_a_session_is_shared_out_as_its_segments_took_it() -> None:
    times = SegmentTimes()
    for seconds in ((9.0, 9.0, 9.0), (1.0, 3.0, 2.0), (2.0, 3.0, 2.0)):
        assert not times.known
        times.took(seconds)
    assert times.known
    assert times.shared_out((2, 1), (8.0, 5.0)) == (2.0, 6.0, 5.0)


def test_segments_that_took_no_time_share_alike() -> None:
    times = SegmentTimes()
    times.took((0.0, 0.0))
    assert times.shared_out((2,), (3.0,)) == (1.5, 1.5)


# --- groups -----------------------------------------------------------------------------------


def test_rows_of_what_a_session_makes_begin_another_session(chain: Chain) -> None:
    a, b, c, d = chain.refs
    assert groups_of((a, b, c, d)) == ((a, b, c, d),)
    reads = replace(c, row_tables=("words",))
    assert groups_of((a, b, reads, d)) == ((a, b), (reads, d))
    assert groups_of((reads, d)) == ((reads, d),)


# --- graphs -----------------------------------------------------------------------------------


def part(index: int, takes: str, makes: str, **changes: object) -> GraphPart:
    """A segment of two nodes whose inner value and weight are called as in any other."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [float(index), 1.0])
    nodes = [
        helper.make_node("Mul", [takes, "w"], ["inner"], name="node"),
        helper.make_node("Clip", ["inner", "", "w_max"], [makes], name="clip"),
    ]
    high = helper.make_tensor("w_max", TensorProto.FLOAT, [], [100.0])
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [2])] for n in (takes, makes)]
    graph = helper.make_graph(nodes, "g", *ports, [weight, high])
    if changes.get("sparse"):
        graph.sparse_initializer.add()
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", int(str(changes.get("opset", 17))))]
    )
    if changes.get("function"):
        model.functions.add(name="f", domain="d")
    return GraphPart(index, model.SerializeToString(), f"folder{index}/")


def test_names_that_two_segments_use_alike_stay_apart() -> None:
    import onnxruntime

    model = joined_graph([part(2, "x", "y"), part(3, "y", "z")], ["x"], ["z", "y"])
    onnx.checker.check_model(onnx.load_from_string(model))
    session = onnxruntime.InferenceSession(model)
    z, y = session.run(["z", "y"], {"x": np.array([1.0, 5.0], np.float32)})
    assert (list(y), list(z)) == ([2.0, 5.0], [6.0, 5.0])


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (part(3, "y", "z", sparse=True), "sparse"),
        (part(3, "y", "z", function=True), "functions"),
        (part(3, "y", "z", opset=16), "versions"),
        (part(3, "x", "y"), "two segments make"),
        (part(3, "y", "#2/inner"), "begins with"),
        (part(3, "y", "other"), "has 'z'"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_might_mean_something_else_is_not_joined(second: GraphPart, why: str) -> None:
    with pytest.raises(LoadFailed, match=why):
        joined_graph([part(2, "x", "y"), second], ["x"], ["z"])


def test_no_prefix_of_a_graph_makes_joining_fail_in_another_way() -> None:
    first, second = part(2, "x", "y"), part(3, "y", "z")
    for length in range(len(second.model)):
        with suppress(LoadFailed):
            joined_graph([first, replace(second, model=second.model[:length])], ["x"], ["z"])


def test_weights_are_looked_for_where_each_segment_keeps_them() -> None:
    model = onnx.load_from_string(part(2, "x", "y").model)
    weight = model.graph.initializer[0]
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights")
    weight.external_data.add(key="prepacked_0", value="64;8;key")
    given = GraphPart(2, model.SerializeToString(), "prepared/abc/")
    joined = onnx.ModelProto.FromString(joined_graph([given], ["x"], ["y"]))
    places = {each.key: each.value for each in joined.graph.initializer[0].external_data}
    assert places == {"location": "prepared/abc/weights", "prepacked_0": "64;8;key"}
