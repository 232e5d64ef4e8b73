"""What the author wrote beside the graph is kept; what is long is left out, and said."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest

from crowdpipe.client.signature import model_meta
from orchestrator.segmentation.reading.metadata import LIMIT_NBYTES
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import mlp, save
from wire.manifest import Manifest
from wire.messages.model import ModelSummary, summary_of
from wire.record import decode, encode
from wire.record_readers import MAX_INT


def with_metadata(**texts: str) -> onnx.ModelProto:
    model = mlp()
    model.producer_name, model.domain, model.model_version = "pytest", "org.example", 7
    model.doc_string = "Tells cats from dogs."
    onnx.helper.set_model_props(model, texts)
    return model


def cut(model: onnx.ModelProto, folder: Path) -> Manifest:
    return segment(save(model, folder / "model.onnx"), "test", FolderSink(folder / "blobs"))


def test_a_client_reads_the_metadata_that_onnx_runtime_reads(tmp_path: Path) -> None:
    model = with_metadata(names='{0: "cat", 1: "dog"}', stride="32")
    theirs = onnxruntime.InferenceSession(model.SerializeToString()).get_modelmeta()
    summary = decode(ModelSummary, encode(summary_of(cut(model, tmp_path))))
    mine = model_meta(summary.metadata)
    for field in mine.__dataclass_fields__:
        assert getattr(mine, field) == getattr(theirs, field), field
    assert mine.custom_metadata_map["stride"] == "32"


def test_metadata_is_in_no_segment(tmp_path: Path) -> None:
    plain = cut(with_metadata(), tmp_path)
    named = cut(with_metadata(names="cat, dog"), tmp_path)
    assert [one.blobs for one in plain.segments] == [one.blobs for one in named.segments]


@pytest.mark.parametrize("version", [(1 << 63) - 1, -1, 0])
def test_any_version_can_be_written(version: int, tmp_path: Path) -> None:
    model = with_metadata()
    model.model_version = version
    manifest = cut(model, tmp_path)
    kept = decode(Manifest, encode(manifest)).metadata.version
    assert kept == min(version, MAX_INT)


def test_long_metadata_is_left_out_and_said(tmp_path: Path) -> None:
    manifest = cut(with_metadata(names="cat, dog", table="x" * LIMIT_NBYTES), tmp_path)
    assert manifest.metadata.custom == {"names": "cat, dog"}
    assert manifest.metadata.description == "Tells cats from dogs."
    assert manifest.notes == ("left out, as it is more than 32 KiB: metadata 'table'",)


def test_of_many_entries_the_shortest_are_kept(tmp_path: Path) -> None:
    texts = {f"k{size:05}": "x" * size for size in range(0, 20_000, 1000)}
    manifest = cut(with_metadata(**texts), tmp_path)
    assert list(manifest.metadata.custom) == list(texts)[:8]
    assert manifest.notes[0].endswith("'k12000' and 7 more")
