"""The skeleton of a model is the model, but for large raw tensors, which it points to."""

from __future__ import annotations

import io
from pathlib import Path

import onnx
import pytest

from orchestrator.segmentation.reading.skeleton import read_skeleton
from orchestrator.segmentation.reading.source import open_model
from orchestrator.segmentation.reading.tensors import embed, is_external
from orchestrator.segmentation.reading.walk import all_tensors
from tests.support.models import MODELS, mlp, save
from wire.errors import InvalidModel


@pytest.mark.parametrize("name", MODELS)
def test_a_skeleton_with_its_tensors_put_back_is_the_model(name: str, tmp_path: Path) -> None:
    model = MODELS[name][0]()
    source = open_model(save(model, tmp_path / "model.onnx"))
    outside = [tensor for tensor in all_tensors(source.model) if is_external(tensor)]
    assert outside
    assert source.model.ByteSize() < model.ByteSize()
    for tensor in outside:
        embed(tensor, source.raw(tensor))
    assert source.model == model


def test_a_model_of_several_pieces_is_read_as_protobuf_merges_it(tmp_path: Path) -> None:
    whole = mlp()
    first, second = onnx.ModelProto(), onnx.ModelProto()
    first.CopyFrom(whole)
    del first.graph.initializer[2:]
    second.graph.initializer.extend(whole.graph.initializer[2:])
    data = first.SerializeToString() + second.SerializeToString()
    (tmp_path / "model.onnx").write_bytes(data)
    assert len(open_model(tmp_path / "model.onnx").model.graph.initializer) == 6


def test_a_graph_that_nests_too_deeply_is_refused() -> None:
    message = bytes(2000)
    for _ in range(70):
        attribute = _field(6, message)
        node = _field(5, attribute)
        message = _field(1, node)
    with pytest.raises(InvalidModel, match="nests"):
        read_skeleton(io.BytesIO(_field(7, message)), len(_field(7, message)), "model.onnx")


def _field(number: int, payload: bytes) -> bytes:
    size, length = len(payload), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes([number << 3 | 2]) + bytes(length) + payload


class CountingFile(io.BytesIO):
    reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size)


def test_a_forest_of_a_million_numbers_is_not_read_number_by_number() -> None:
    """The lists of an attribute may be written as a field for each entry."""
    numbers = _field(8, bytes(5)) * 100_000
    attribute = _field(1, b"nodes") + numbers + bytes([20 << 3 & 0x7F | 0x80, 1, 7])
    model = _field(7, _field(1, _field(5, attribute)))
    file = CountingFile(model)
    assert read_skeleton(file, len(model), "model.onnx") == model
    assert file.reads < 100
