"""Items of a length, rivals as processes, relays, and rows where phones cannot be emulated."""

from __future__ import annotations

import shutil
import socket
import threading
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from benchmarks.bench import Bench, Options
from benchmarks.page_cache import forget
from benchmarks.process import cpu_s, memory
from benchmarks.rack import Phone, Rack, Unavailable
from benchmarks.relay import Relay, Route
from benchmarks.subjects import pipeline
from benchmarks.whole import WholeModel
from benchmarks.work import Work, work_of
from crowdpipe.items_file import write_items
from tests.support.models import mlp, row_feeds, save
from wire.errors import OperatorError, UserError


def tokens(count: int, length: int = 8) -> Work:
    items = tuple({"input_ids": np.arange(length)[None] + 100 * i} for i in range(count))
    return Work("w", Path("w.onnx"), items, {"sequence": length})


def test_items_repeat_when_more_are_asked_for_than_there_are():
    items = tokens(3).first(5).items
    assert [int(item["input_ids"][0, 0]) for item in items] == [0, 100, 200, 0, 100]


def test_items_of_fewer_tokens_are_the_beginnings_of_the_others():
    items = tokens(2).tokens(3).items
    assert [item["input_ids"].tolist() for item in items] == [[[0, 1, 2]], [[100, 101, 102]]]


def test_items_that_are_no_texts_stay_as_they_are():
    work = Work("w", Path("w.onnx"), ({"image": np.zeros((1, 3, 4, 4))},), {})
    assert work.tokens(2) is work


def test_a_model_that_is_nowhere_is_refused_with_the_names_there_are(tmp_path: Path):
    with pytest.raises(UserError, match="minilm, standin or a file"):
        work_of("nowhere.onnx", tmp_path, print)


def test_a_model_of_ones_own_is_named_after_its_file(tmp_path: Path):
    work = work_of(str(save(mlp(), tmp_path / "My Model.v2.onnx")), tmp_path, print)
    assert (work.name, work.items, work.max_shape) == ("my-model-v2", (), {})


def test_the_rival_gives_what_onnx_runtime_gives(tmp_path: Path):
    model, feeds = save(mlp(), tmp_path / "m.onnx"), row_feeds()
    write_items(tmp_path / "items.npz", "numbered", [feeds])
    with WholeModel(model, tmp_path / "items.npz") as rival:
        assert len(rival.run(4)) == 4
        (outputs,) = rival.write(tmp_path / "out.npz")
        assert rival.peak_nbytes() >= rival.floor_nbytes > 0
    session = onnxruntime.InferenceSession(str(model))
    for name, theirs in zip(outputs, session.run(list(outputs), feeds), strict=True):
        np.testing.assert_allclose(outputs[name], theirs, atol=1e-6)


def test_a_rival_that_cannot_start_is_an_error_and_not_a_hang(tmp_path: Path):
    with pytest.raises(OperatorError, match="has ended"), WholeModel(tmp_path / "no", tmp_path):
        pass


def test_a_relay_passes_every_byte_on_and_counts_it():
    sent = np.random.default_rng(1).bytes(300_000)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            link, _ = server.accept()
            with link:
                link.sendall(sent)

        thread = threading.Thread(target=answer)
        thread.start()
        route = Route(("127.0.0.1", 0), server.getsockname())
        with Relay([route], nbytes_per_s=1e8, delay_s=0.001) as relay:
            with socket.create_connection(("127.0.0.1", relay.port), 10) as link:
                received = b"".join(iter(lambda: link.recv(1 << 16), b""))
            assert received == sent
            assert relay.delivered_nbytes() == len(sent)
        thread.join(10)


def test_the_kernel_tells_memory_and_processor_time_of_a_process():
    taken = memory()
    assert taken.peak_nbytes >= taken.rss_nbytes >= taken.anonymous_nbytes > 0
    assert cpu_s(threading.get_native_id()) >= 0


def test_forgetting_a_folders_pages_changes_no_byte(tmp_path: Path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"x" * 100_000)
    (tmp_path / "link").symlink_to("nowhere")
    forget(tmp_path)
    assert (tmp_path / "below" / "file").read_bytes() == b"x" * 100_000


def test_where_phones_cannot_be_emulated_every_row_says_why(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda program: None)
    with pytest.raises(Unavailable, match="not installed"), Rack(1, Phone()):
        pass
    work = Work("w", Path("w.onnx"), (), {}, cell_ends=("a", "b"))
    with Bench(work, Options(), lambda text: None) as bench:
        rows = pipeline.run(bench).rows
    assert [row.name for row in rows] == [
        "pipeline.paper_streaming",
        "pipeline.paper_share_of_bound",
        "pipeline.paper_saving",
        "pipeline.planned_streaming",
        "pipeline.planned_share_of_bound",
        "pipeline.planned_saving",
        "pipeline.planned_against_one_phone",
    ]
    assert all(row.value is None and row.met is None for row in rows)
    assert all("not installed" in row.note for row in rows)
