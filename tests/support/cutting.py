"""One small model, cut and checked: the chain of its segments gives the bits of the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from orchestrator.segmentation.checking.verify import Feeds, identical, run_chain, run_whole
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.models import (
    WIDTH,
    save,
)
from wire.manifest import Manifest
from wire.record import decode, encode

RNG = np.random.default_rng(7)


ROWS = ["batch", WIDTH]


def cut(model: onnx.ModelProto, folder: Path, **wishes: Any) -> Manifest:
    path = save(model, folder / "model.onnx")
    return segment(path, "test", FolderSink(folder / "blobs"), options=SegmentOptions(**wishes))


def check(model: onnx.ModelProto, folder: Path, feeds: Feeds, **wishes: Any) -> Manifest:
    """The manifest of `model`, whose chain gives the bits of the whole."""
    manifest = cut(model, folder, **wishes)
    whole = run_whole(folder / "model.onnx", feeds, exact=True)
    assert identical(run_chain(folder / "blobs", manifest, feeds, exact=True), whole)
    assert decode(Manifest, encode(manifest)) == manifest
    return manifest


def graph_of(folder: Path, manifest: Manifest, index: int) -> onnx.GraphProto:
    data = (folder / "blobs" / manifest.segments[index].graph.digest).read_bytes()
    return onnx.ModelProto.FromString(data).graph


def relu(source: str, target: str) -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [target])
