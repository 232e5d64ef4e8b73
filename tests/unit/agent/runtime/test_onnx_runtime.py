"""ONNX Runtime as the agent uses it: every element type, names checked, memory bounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_agent.adapters.device.memory import collect_and_trim, rss_nbytes
from edge_agent.adapters.device.runtime_version import max_opset, runtime_version
from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
from edge_agent.adapters.runtime.onnx_runtime import SegmentSession
from edge_agent.adapters.runtime.onnx_values import (
    element_of,
    raw_of,
    shape_of,
    strings_of,
    strings_value,
    value_of,
)
from edge_agent.adapters.store.cache import BlobCache
from tests.support.chain import Chain
from wire.elements import Element, nbytes_of
from wire.errors import BlobCorrupt, BlobMissing, ComputeFailed, LoadFailed, Malformed, OverBudget
from wire.memory import resident_need

HELD = sorted(set(Element) - {Element.STRING, Element.COMPLEX64, Element.COMPLEX128})
WIDTH = 64


def identity(folder: Path, kind: Element, opset: int = 21) -> Path:
    node = helper.make_node("Identity", ["x"], ["y"])
    port = [helper.make_tensor_value_info(name, int(kind), None) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", port[:1], port[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    path = folder / "identity"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("kind", HELD, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 4), (1,)], ids=str)
def test_every_element_type_comes_back_bit_for_bit(kind: Element, shape: tuple[int, ...]):
    nbytes = nbytes_of(kind, math.prod(shape))
    data = bytes((37 * i + 1) % 256 for i in range(nbytes))
    if kind is Element.BOOL:
        data = bytes(byte & 1 for byte in data)
    value = value_of(kind, shape, data)
    assert (element_of(value), shape_of(value)) == (kind, shape)
    again = raw_of(value)
    assert raw_of(value_of(kind, shape, again)) == again
    assert again[: max(0, nbytes - 1)] == data[: max(0, nbytes - 1)]


@pytest.mark.parametrize(
    ("kind", "shape", "last"), [(Element.INT4, (3,), 0x0F), (Element.UINT2, (5,), 0x03)]
)
def test_bits_that_pad_a_packed_type_are_zero(kind: Element, shape: tuple[int, ...], last: int):
    value = value_of(kind, shape, b"\xff\xff")
    assert raw_of(value) == bytes((0xFF, last))


@pytest.mark.parametrize("kind", [Element.BFLOAT16, Element.FLOAT8E4M3FN])
def test_types_that_numpy_lacks_pass_through_a_segment(tmp_path: Path, kind: Element):
    segment = SegmentSession(
        identity(tmp_path, kind), ["x"], ["y"], exact=True, threads=1, prepacked=True
    )
    data = bytes(range(nbytes_of(kind, 8)))
    made = segment.run({"x": value_of(kind, (2, 4), data)})
    assert raw_of(made["y"]) == data


def test_int4_leaves_one_segment_and_enters_the_next(tmp_path: Path):
    scale = numpy_helper.from_array(np.float32(1), "scale")
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [5]),
        helper.make_tensor_value_info("q", TensorProto.INT4, [5]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [5]),
    ]
    quantize = helper.make_node("QuantizeLinear", ["x", "scale"], ["q"], output_dtype=22)
    restore = helper.make_node("DequantizeLinear", ["q", "scale"], ["y"])
    values = {"x": value_of(Element.FLOAT, (5,), np.arange(-2, 3, dtype=np.float32).tobytes())}
    for node, (takes, makes) in ((quantize, ports[:2]), (restore, ports[1:])):
        graph = helper.make_graph([node], "g", [takes], [makes], [scale])
        opset = [helper.make_opsetid("", 21)]
        path = tmp_path / node.op_type
        path.write_bytes(
            helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()
        )
        segment = SegmentSession(
            path, [takes.name], [makes.name], exact=True, threads=1, prepacked=True
        )
        made = segment.run(values)[makes.name]
        values = {makes.name: value_of(element_of(made), shape_of(made), raw_of(made))}
    assert np.frombuffer(raw_of(values["y"]), np.float32).tolist() == [-2, -1, 0, 1, 2]


@pytest.mark.parametrize(
    ("shape", "strings"),
    [((2, 2), [b"a", "bé".encode(), b"", b"x" * 300]), ((), [b"one"]), ((0, 3), [])],
)
def test_strings_pass_through_a_segment(
    tmp_path: Path, shape: tuple[int, ...], strings: list[bytes]
):
    path = identity(tmp_path, Element.STRING)
    segment = SegmentSession(path, ["x"], ["y"], exact=False, threads=1, prepacked=True)
    made = segment.run({"x": strings_value(shape, strings)})
    assert (strings_of(made["y"]), shape_of(made["y"])) == (strings, shape)


def test_bytes_that_are_not_what_the_shape_says_are_refused():
    with pytest.raises(Malformed, match="24 bytes, not 23"):
        value_of(Element.FLOAT, (2, 3), bytes(23))
    with pytest.raises(Malformed):
        strings_value((2,), [b"one"])


def test_a_type_that_the_runtime_cannot_hold_is_a_typed_error():
    with pytest.raises(ComputeFailed, match="COMPLEX64"):
        value_of(Element.COMPLEX64, (1,), bytes(8))


def test_the_installed_version_is_read_without_importing_it():
    assert runtime_version() == onnxruntime.__version__


@pytest.mark.parametrize(
    ("version", "opset"), [("1.32.0", 28), ("1.29.1", 26), ("1.31.0", 26), ("2.0", 28), ("", 0)]
)
def test_the_highest_opset_follows_from_the_version(version: str, opset: int):
    assert max_opset(version) == opset


def test_a_file_that_is_no_graph_is_refused_in_one_line(tmp_path: Path):
    path = tmp_path / "graph"
    path.write_bytes(b"no protobuf at all")
    with pytest.raises(LoadFailed) as refused:
        SegmentSession(path, ["x"], ["y"], exact=False, threads=1, prepacked=True)
    assert "\n" not in str(refused.value)


def test_a_graph_with_other_names_than_assigned_is_refused(tmp_path: Path):
    path = identity(tmp_path, Element.FLOAT)
    with pytest.raises(LoadFailed, match="assignment"):
        SegmentSession(path, ["z"], ["y"], exact=False, threads=1, prepacked=True)
    with pytest.raises(LoadFailed, match="assignment"):
        SegmentSession(path, ["x"], ["q"], exact=False, threads=1, prepacked=True)


# --- partitions -------------------------------------------------------------------------------


BUDGET = 64 << 20


class CachedChain(Chain):
    """A chain whose blobs are all on disk."""

    def __init__(self, layers: int, width: int, folder: Path) -> None:
        super().__init__(layers, width)
        self.cache = BlobCache(folder / "blobs")
        for digest, data in self.blobs.items():
            self.cache.part_path(digest).write_bytes(data)
            self.cache.admit(digest)


@pytest.fixture
def make_chain(tmp_path: Path) -> Callable[..., CachedChain]:
    def make(layers: int = 4, width: int = WIDTH) -> CachedChain:
        return CachedChain(layers, width, tmp_path)

    return make


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_partition_computes_what_the_whole_model_does(make_chain, exact: bool, streamed: bool):
    chain = make_chain()
    x = np.random.default_rng(1).standard_normal((3, WIDTH)).astype(np.float32)
    partition = LoadedPartition(
        chain.assigned(exact), chain.cache, streamed=streamed, budget_nbytes=BUDGET
    )
    values, seconds = partition.run({"h0": value_of(Element.FLOAT, x.shape, x.tobytes())})
    got = np.frombuffer(raw_of(values["h4"]), np.float32).reshape(3, WIDTH)
    wanted = chain.whole(x, exact)
    if exact:
        assert got.tobytes() == wanted.tobytes()
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    assert set(values) == {"h4"}
    assert len(seconds) == 4


def test_streaming_keeps_the_weights_of_no_segment_in_memory(make_chain):
    """Behind each run all weights are given back; resident, they stay."""
    chain = make_chain(layers=4, width=1024)  # 4 MiB a segment
    taken = []
    for streamed in (True, False):
        collect_and_trim()
        before = rss_nbytes()
        partition = LoadedPartition(
            chain.assigned(), chain.cache, streamed=streamed, budget_nbytes=2 * BUDGET
        )
        for _ in range(3):
            partition.run({"h0": value_of(Element.FLOAT, (1, 1024), bytes(4096))})
        taken.append(rss_nbytes() - before)
        partition.close()
    assert taken[1] - taken[0] > 10 << 20


def test_swapping_partitions_leaves_nothing_in_memory(make_chain):
    chain = make_chain(layers=5, width=768)  # 2.25 MiB a segment
    after: list[int] = []
    for round_ in range(7):
        for at in range(5):
            streamed = round_ % 2 == 0
            assigned = chain.assigned(first=at, last=at)
            partition = LoadedPartition(
                assigned, chain.cache, streamed=streamed, budget_nbytes=BUDGET
            )
            partition.run({f"h{at}": value_of(Element.FLOAT, (64, 768), bytes(4 * 64 * 768))})
            partition.close()
        after.append(rss_nbytes())
    assert max(after[2:]) - min(after[2:]) < 2 << 20


def test_more_than_the_budget_is_refused_before_anything_is_loaded(make_chain):
    chain = make_chain()
    need = resident_need(chain.refs)
    with pytest.raises(OverBudget, match="--memory"):
        LoadedPartition(chain.assigned(), chain.cache, streamed=False, budget_nbytes=need - 1)
    LoadedPartition(chain.assigned(), chain.cache, streamed=False, budget_nbytes=need).close()


def test_what_grows_beyond_the_budget_while_loading_is_refused(make_chain, monkeypatch):
    """The formula may be wrong about a graph: what is measured has the last word."""
    chain = make_chain(layers=3, width=3072)  # 36 MiB a segment
    monkeypatch.setattr("edge_agent.adapters.runtime.loaded_partition.resident_need", lambda _: 0)
    with pytest.raises(OverBudget, match="took"):
        LoadedPartition(chain.assigned(), chain.cache, streamed=False, budget_nbytes=16 << 20)


def test_a_missing_blob_and_a_rotten_one_are_refused(make_chain):
    chain = make_chain()
    rotten = chain.refs[1].weights[0].digest
    chain.cache.path(rotten).write_bytes(b"rot")
    with pytest.raises(BlobCorrupt):
        LoadedPartition(chain.assigned(), chain.cache, streamed=False, budget_nbytes=BUDGET)
    with pytest.raises(BlobMissing):
        LoadedPartition(chain.assigned(), chain.cache, streamed=False, budget_nbytes=BUDGET)


def test_a_frame_without_a_needed_tensor_is_refused(make_chain):
    chain = make_chain()
    partition = LoadedPartition(chain.assigned(), chain.cache, streamed=False, budget_nbytes=BUDGET)
    with pytest.raises(Malformed, match="h0"):
        partition.run({"other": value_of(Element.FLOAT, (1,), bytes(4))})


def test_a_shape_that_the_graph_refuses_is_a_typed_error_in_one_line(make_chain):
    chain = make_chain()
    partition = LoadedPartition(chain.assigned(), chain.cache, streamed=False, budget_nbytes=BUDGET)
    with pytest.raises(ComputeFailed) as failed:
        partition.run({"h0": value_of(Element.FLOAT, (1, 3), bytes(12))})
    assert len(str(failed.value)) < 400
    assert "\n" not in str(failed.value)
