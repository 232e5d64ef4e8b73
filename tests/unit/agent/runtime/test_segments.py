"""What a device makes of segments: prepared, mapped, streamed, tables read by row, never a bit off.

Each model is cut at every place and runs as one partition, whose outputs are the whole model's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
from edge_agent.adapters.runtime.mapped_file import bring_in, is_cached
from edge_agent.adapters.runtime.row_graph import without_row_reads
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.prepared import RECORD
from orchestrator.segmentation.checking.verify import Feeds, compare, identical, run_whole
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.backend_cases import places_to_cut
from tests.support.constructs import SERVED, Served
from tests.support.device_chain import BUDGET_NBYTES, assignment_of, cache_of, run_on_device
from tests.support.models import MODELS, floats, model_of, save, value
from wire.elements import Element
from wire.errors import InvalidInput, LoadFailed, OverBudget
from wire.ids import digest_of
from wire.manifest import BlobRef, Manifest

RNG = np.random.default_rng(5)
ROWS = 4000
IDS = ["batch", "sequence"]


class Cut:
    """A model cut after each of its nodes, on a device's disk."""

    def __init__(self, model: onnx.ModelProto, folder: Path, after: tuple[str, ...] | None = None):
        self.path = save(model, folder / "model.onnx")
        names = places_to_cut(self.path) if after is None else after
        self.manifest: Manifest = segment(
            self.path,
            "test",
            FolderSink(folder / "blobs"),
            options=SegmentOptions(cut_after=tuple(names)),
        )
        self.cache = cache_of(folder / "blobs", folder / "cache")

    def check(
        self,
        feeds: Feeds,
        *,
        exact: bool,
        streamed: bool,
        room: int | None = None,
        joined: bool = False,
    ) -> None:
        got = run_on_device(
            self.cache,
            self.manifest,
            feeds,
            exact=exact,
            streamed=streamed,
            prepare_nbytes=room,
            joined=joined,
        )
        whole = run_whole(self.path, feeds, exact=exact)
        if exact:
            assert identical(got, whole)
        else:
            assert compare(got, whole) <= 1e-2 if _is_narrow(whole) else compare(got, whole) <= 1e-5


def _is_narrow(outputs: dict[str, np.ndarray]) -> bool:
    return any(
        array.dtype.itemsize < 4 and array.dtype.kind not in "iub" for array in outputs.values()
    )


@pytest.mark.parametrize("construct", SERVED, ids=lambda one: one.what)
def test_a_construct_is_exact_on_a_device(construct: Served, tmp_path: Path) -> None:
    cut = Cut(construct.make(), tmp_path)
    for streamed in (True, False):  # prepared by the first, found by the second
        cut.check(construct.feeds(), exact=True, streamed=streamed)
    cut.check(construct.feeds(), exact=True, streamed=False, joined=True)


@pytest.mark.parametrize("name", MODELS)
def test_a_known_model_is_as_near_on_a_device_as_the_whole(name: str, tmp_path: Path) -> None:
    make, feeds = MODELS[name]
    cut = Cut(make(), tmp_path)
    for streamed in (True, False):
        cut.check(feeds(), exact=False, streamed=streamed)
    cut.check(feeds(), exact=False, streamed=False, joined=True)


@pytest.mark.parametrize(("exact", "streamed"), [(True, False), (False, True), (False, False)])
def test_without_room_on_disk_segments_run_as_they_came(
    tmp_path: Path, exact: bool, streamed: bool
) -> None:
    make, feeds = MODELS["mlp"]
    cut = Cut(make(), tmp_path)
    cut.check(feeds(), exact=exact, streamed=streamed, room=0)
    assert not cut.cache.prepared.folder.exists()


def test_streaming_exactly_needs_room_on_disk_and_says_how_much(tmp_path: Path) -> None:
    cut = Cut(two_tables(), tmp_path)
    with pytest.raises(OverBudget, match="bytes more"):
        run_on_device(
            cut.cache, cut.manifest, ids([1]), exact=True, streamed=True, prepare_nbytes=0
        )


# --- rows -------------------------------------------------------------------------------------


def two_tables(kind: type[np.generic] = np.float32) -> onnx.ModelProto:
    """Rows of two tables, one of which leaves the segment as it is while both are added."""
    weights = {
        "words": (floats(RNG, ROWS, 6) * 100).astype(kind),
        "kinds": (floats(RNG, ROWS, 6) * 100).astype(kind),
        "square": (floats(RNG, 6, 6) * 100).astype(kind),
    }
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["w"]),
        helper.make_node("Gather", ["kinds", "ids"], ["k"], axis=0),
        helper.make_node("MatMul", ["k", "square"], ["m"]),
        helper.make_node("Add", ["w", "m"], ["y"]),
    ]
    type_of = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    outputs = [value(name, [*IDS, 6], type_of) for name in ("w", "y")]
    return model_of(nodes, [value("ids", IDS, TensorProto.INT64)], outputs, weights)


def ids(*rows: list[int]) -> Feeds:
    return {"ids": np.array(rows, np.int64)}


@pytest.mark.parametrize("after", [(), None], ids=["whole", "cut"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_rows_are_those_of_the_whole_model(
    tmp_path: Path, after: tuple[str, ...] | None, kind: type[np.generic]
) -> None:
    cut = Cut(two_tables(kind), tmp_path, after)
    tables = [name for spec in cut.manifest.segments for name in spec.row_tables]
    assert sorted(set(tables)) == ["kinds", "words"]
    cut.check(ids([0, 1, -1], [ROWS - 1, -ROWS, 7]), exact=True, streamed=False)
    cut.check({"ids": np.zeros((2, 0), np.int64)}, exact=True, streamed=True)
    cut.check(ids([5, -5]), exact=True, streamed=False, joined=True)


@pytest.mark.parametrize("index", [ROWS, -ROWS - 1, 1 << 40])
def test_a_row_outside_the_table_is_the_fault_of_the_input_that_names_it(
    tmp_path: Path, index: int
) -> None:
    cut = Cut(two_tables(), tmp_path)
    with pytest.raises(InvalidInput, match=f"input 'ids' has the value {index}.*-4000 to 3999"):
        run_on_device(cut.cache, cut.manifest, ids([0, index]), exact=False, streamed=False)


def test_so_is_one_outside_a_table_that_stays_in_the_graph(tmp_path: Path) -> None:
    model = model_of(
        [helper.make_node("Gather", ["few", "ids"], ["y"])],
        [value("ids", IDS, TensorProto.INT64)],
        [value("y", [*IDS, 2])],
        {"few": floats(RNG, 5, 2)},
    )
    cut = Cut(model, tmp_path, ())
    with pytest.raises(InvalidInput, match=r"input 'ids' has the value 7, .* takes -5 to 4 there"):
        run_on_device(cut.cache, cut.manifest, ids([0, 7]), exact=False, streamed=False)


def test_a_table_that_something_else_uses_stays_whole(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["w"]),
        helper.make_node("Transpose", ["words"], ["turned"]),
        helper.make_node("MatMul", ["w", "turned"], ["y"]),
    ]
    model = model_of(
        nodes,
        [value("ids", IDS, TensorProto.INT64)],
        [value("y", [*IDS, ROWS])],
        {"words": floats(RNG, ROWS, 6)},
    )
    cut = Cut(model, tmp_path, ())
    assert cut.manifest.segments[0].row_tables == ()
    cut.check(ids([3, -2]), exact=True, streamed=False)


def gather(**changes: object) -> bytes:
    """A segment of one Gather over an external table, changed as told."""
    table = TensorProto(name="t", data_type=1, dims=[9, 2], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "0" * 64), ("offset", "64"), ("length", "72")):
        table.external_data.add(key=key, value=text)
    attributes = {"axis": changes["axis"]} if "axis" in changes else {}
    domain = str(changes.get("domain", ""))
    nodes = [helper.make_node("Gather", ["t", "i"], ["o"], domain=domain, **attributes)]
    nodes += [helper.make_node("Neg", ["t"], ["n"])] if changes.get("used_twice") else []
    inputs = [value("i", ["n"], TensorProto.INT64)]
    inputs += [value("t", [9, 2])] if changes.get("overridable") else []
    graph = helper.make_graph(nodes, "g", inputs, [value("o", None)], [table])
    return bytes(helper.make_model(graph).SerializeToString())


def test_a_gather_leaves_the_graph_and_says_where_its_rows_are() -> None:
    found = without_row_reads(gather(), ("t",))
    assert (found.graph, found.added) == (b"", ())
    (read,) = found.reads
    assert (read.indices, read.output) == ("i", "o")
    table = read.table
    assert (table.offset, table.rows, table.row_dims, table.kind) == (64, 9, (2,), Element.FLOAT)


@pytest.mark.parametrize(
    "changes",
    [{"axis": 1}, {"axis": -2}, {"domain": "com.example"}, {"used_twice": 1}, {"overridable": 1}],
    ids=str,
)
def test_what_is_no_plain_read_of_rows_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(LoadFailed, match="must stay whole"):
        without_row_reads(gather(**changes), ("t",))


def test_no_prefix_of_a_graph_passes_for_one() -> None:
    """A cut graph is refused, or says less; it never raises anything else."""
    whole = gather()
    for length in range(len(whole)):
        try:
            found = without_row_reads(whole[:length], ("t",))
        except LoadFailed:
            continue
        assert len(found.reads) <= 1


def test_rows_are_read_only_of_blobs_of_the_segment(tmp_path: Path) -> None:
    """A graph that names another file as its table is not followed there."""
    cut = Cut(two_tables(), tmp_path, ())
    (spec,) = cut.manifest.segments
    model = onnx.load(cut.cache.path(spec.graph.digest), load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../model.onnx"
    with pytest.raises(LoadFailed, match="not the segment's"):
        load_altered(cut, model)


def load_altered(cut: Cut, model: onnx.ModelProto) -> None:
    """The only segment with another graph, under its true digest."""
    data = model.SerializeToString()
    graph = BlobRef(digest_of(data), len(data))
    cut.cache.part_path(graph.digest).write_bytes(data)
    cut.cache.admit(graph.digest)
    assigned = assignment_of(cut.manifest, False)
    altered = replace(assigned, segments=(replace(assigned.segments[0], graph=graph),))
    LoadedPartition(altered, cut.cache, streamed=False, budget_nbytes=BUDGET_NBYTES)


# --- what was prepared ------------------------------------------------------------------------


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[[], dict[str, int]]]:
    """Loads a small model each time it is called, and says what was prepared for that."""
    rng = np.random.default_rng(3)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = model_of(
        nodes, [value("x", ["n", 64])], [value("y", ["n", 64])], {"w": floats(rng, 64, 64)}
    )
    cut = Cut(model, tmp_path, ())
    loaded: list[LoadedPartition] = []

    def load_now() -> dict[str, int]:
        cache = BlobCache(cut.cache.folder)
        assigned = assignment_of(cut.manifest, False)
        loaded.append(LoadedPartition(assigned, cache, streamed=False, budget_nbytes=BUDGET_NBYTES))
        made = cache.prepared.made_since()
        assert (loaded[-1].prepare_s > 0) == bool(made)
        return made

    yield load_now
    for partition in loaded:
        partition.close()


def prepared_files(folder: Path) -> dict[str, Path]:
    return {file.name: file for file in (folder / "cache" / "prepared").glob("*/*")}


def test_a_segment_is_prepared_once(load, tmp_path: Path) -> None:
    assert sum(load().values()) >= 2 * 64 * 64 * 4
    assert set(prepared_files(tmp_path)) == {"graph", "weights", "record"}
    assert load() == {}


@pytest.mark.parametrize("name", ["graph", "weights"])
def test_what_was_altered_is_not_used_and_prepared_anew(load, tmp_path: Path, name: str) -> None:
    load()
    file = prepared_files(tmp_path)[name]
    file.write_bytes(bytes(file.stat().st_size))
    assert load() != {}


def rot(file: Path) -> None:
    """Other bytes, with the stamp of those that were there."""
    before = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"\xff" * 64)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_graph_that_rotted_unseen_is_made_anew_when_it_does_not_load(load, tmp_path) -> None:
    load()
    rot(prepared_files(tmp_path)["graph"])
    assert load() != {}
    assert load() == {}


def test_idle_time_finds_what_rotted_unseen(load, tmp_path: Path) -> None:
    (entry,) = load()
    prepared = BlobCache(tmp_path / "cache").prepared
    assert prepared.verify_oldest(age_s=0) is None
    rot(prepared_files(tmp_path)["weights"])
    assert prepared.verify_oldest(age_s=3600) is None
    assert prepared.verify_oldest(age_s=0) == entry
    assert prepared_files(tmp_path) == {}
    assert prepared.verify_oldest(age_s=0) is None


def test_idle_time_looks_at_what_a_clock_that_was_wrong_dated(load, tmp_path: Path) -> None:
    (entry,) = load()
    rot(prepared_files(tmp_path)["weights"])
    prepared = BlobCache(tmp_path / "cache").prepared
    (record,) = (tmp_path / "cache").rglob(RECORD)
    ahead = record.stat().st_mtime + 5 * 3600
    os.utime(record, (ahead, ahead))
    assert prepared.verify_oldest(age_s=3600) == entry


def test_a_copied_file_is_hashed_before_it_is_used(load, tmp_path: Path) -> None:
    load()
    file = prepared_files(tmp_path)["weights"]
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data)
    assert load() == {}


def test_what_another_runtime_prepared_is_not_used(
    load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    monkeypatch.setattr(
        "edge_agent.adapters.device.runtime_version.runtime_version", lambda: "1.99.0"
    )
    assert load() != {}
    monkeypatch.undo()
    assert not any("." in name for name in BlobCache(tmp_path / "cache").scan())
    assert load() != {}


def test_what_is_prepared_counts_and_goes_with_its_segment(load, tmp_path: Path) -> None:
    (entry,) = load()
    owner = entry.partition(".")[0]
    cache = BlobCache(tmp_path / "cache")
    scanned = cache.scan()
    files = prepared_files(tmp_path)
    assert scanned[entry] == files["graph"].stat().st_size + files["weights"].stat().st_size
    cache.remove((entry,))
    assert owner in cache.scan()
    assert entry not in cache.scan()
    assert load() != {}
    cache.remove((owner,))
    assert prepared_files(tmp_path) == {}


def test_a_preparation_that_was_cut_short_leaves_nothing(load, tmp_path: Path) -> None:
    (entry,) = load()
    folder = tmp_path / "cache" / "prepared"
    (folder / f"{entry}.unfinished").mkdir()
    (folder / f"{entry}.unfinished" / "weights").write_bytes(b"half")
    assert entry in BlobCache(tmp_path / "cache").scan()
    assert [file.name for file in folder.iterdir()] == [entry]


# --- the page cache ---------------------------------------------------------------------------


def test_a_file_that_is_not_cached_is_brought_in(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(5 << 20))
    with file.open("rb", buffering=0) as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        bring_in(file)
        assert is_cached(opened.fileno())


def test_bringing_in_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    bring_in(tmp_path / "nothing")
