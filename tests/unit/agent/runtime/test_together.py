"""Items of a group on a loaded partition: what goes in one call gives what each gives alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
from edge_agent.adapters.runtime.together import Source, compute, turns_of
from orchestrator.segmentation.checking.comparing import compared
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from orchestrator.segmentation.writing.blob_sink import FolderSink
from tests.support.device_chain import BUDGET_NBYTES, assignment_of, cache_of
from tests.support.models import floats, mlp, model_of, save, value
from wire.elements import Element
from wire.errors import ComputeFailed, InvalidInput, Malformed
from wire.frame_head import FrameSettings
from wire.frames import Frame, encode_frame, encode_tensor
from wire.ids import ActivationId
from wire.manifest import Manifest
from wire.messages.assignment import BatchTerms, PartitionAssignment

WIDTH = 24
BOUND = 8
TOLERANCE = 1e-5


def cut(model: Any, folder: Path) -> tuple[Manifest, PartitionAssignment, LoadedPartition]:
    """All segments of the model on a device, with the terms that were found for it."""
    path = save(model, folder / "model.onnx")
    options = SegmentOptions(max_shape={"batch": BOUND})
    manifest = segment(path, "test", FolderSink(folder / "blobs"), options=options)
    manifest = compared(path, manifest, folder / "blobs", options).manifest
    assert manifest.batching.cuts
    terms = BatchTerms(manifest.batch_limit, manifest.shared_inputs())
    assigned = replace(assignment_of(manifest, exact=False), batch=terms)
    cache = cache_of(folder / "blobs", folder / "cache")
    return (
        manifest,
        assigned,
        LoadedPartition(assigned, cache, streamed=False, budget_nbytes=BUDGET_NBYTES),
    )


def frame(item: int, arrays: dict[str, np.ndarray], batch: int = BOUND) -> bytes:
    tensors = tuple(
        encode_tensor(name, Element.FLOAT, array.shape, array.tobytes(), "raw", None)
        for name, array in arrays.items()
    )
    at = ActivationId("r", item, 0)
    return encode_frame(Frame("a" * 64, at, 0, FrameSettings(batch=batch), tensors))


def sources(frames: Sequence[bytes]) -> list[Source]:
    return [lambda data=data: data for data in frames]  # type: ignore[misc]


def spans(assigned: PartitionAssignment, frames: Sequence[bytes]) -> list[tuple[int, int]]:
    return [(turn.start, turn.stop) for turn in turns_of(assigned, sources(frames))]


def row(seed: int, rows: int = 1) -> np.ndarray:
    return floats(np.random.default_rng(seed), rows, WIDTH)


def test_items_in_one_call_give_what_they_give_alone(tmp_path: Path) -> None:
    _, assigned, partition = cut(mlp(), tmp_path)
    frames = [frame(item, {"x": row(item, rows)}) for item, rows in enumerate((1, 2, 1))]
    assert spans(assigned, frames) == [(0, 3)]
    together = compute(partition, sources(frames))
    assert [each.frame.activation.item for each in together] == [0, 1, 2]
    for each, data in zip(together, frames, strict=True):
        (alone,) = compute(partition, sources([data]))
        assert each.made.keys() == alone.made.keys()
        for name in alone.made:
            ours, theirs = each.made[name].numpy(), alone.made[name].numpy()
            np.testing.assert_allclose(ours, theirs, atol=TOLERANCE)
    partition.close()


def test_each_has_its_share_of_the_time_in_turn(tmp_path: Path) -> None:
    _, _, partition = cut(mlp(), tmp_path)
    frames = [frame(item, {"x": row(item, rows)}) for item, rows in enumerate((1, 3))]
    one, other = compute(partition, sources(frames))
    assert other.compute_s == pytest.approx(3 * one.compute_s)
    assert other.segment_s == pytest.approx([3 * each for each in one.segment_s])
    assert one.began_s + one.decode_s + one.compute_s == pytest.approx(other.began_s)
    partition.close()


def test_without_terms_or_the_option_each_goes_alone(tmp_path: Path) -> None:
    _, assigned, partition = cut(mlp(), tmp_path)
    partition.close()
    asked = [frame(item, {"x": row(item)}) for item in range(2)]
    not_asked = [frame(item, {"x": row(item)}, batch=1) for item in range(2)]
    assert spans(assigned, asked) == [(0, 2)]
    assert spans(replace(assigned, batch=None), asked) == [(0, 1), (1, 2)]
    assert spans(assigned, not_asked) == [(0, 1), (1, 2)]


def test_a_frame_that_cannot_be_read_goes_alone_and_says_why(tmp_path: Path) -> None:
    _, assigned, partition = cut(mlp(), tmp_path)
    good = frame(0, {"x": row(0)})
    assert spans(assigned, [good, b"no frame", good]) == [(0, 1), (1, 2), (2, 3)]
    with pytest.raises(Malformed):
        compute(partition, sources([b"no frame"]))
    partition.close()


def lengths_model() -> Any:
    """x: [batch, length] and by: [1], which has no rows, to y."""
    from onnx import helper

    nodes = [
        helper.make_node("Tanh", ["x"], ["h"]),
        helper.make_node("Mul", ["h", "by"], ["y"]),
    ]
    inputs = [value("x", ["batch", "length"]), value("by", [1])]
    return model_of(nodes, inputs, [value("y", ["batch", "length"])])


def test_other_lengths_and_other_shared_values_do_not_go_together(tmp_path: Path) -> None:
    _, assigned, partition = cut(lengths_model(), tmp_path)

    def of(length: int, by: float) -> bytes:
        x = floats(np.random.default_rng(length), 1, length)
        return frame(0, {"x": x, "by": np.float32([by])})

    frames = [of(5, 1), of(5, 1), of(6, 1), of(6, 1), of(6, 2)]
    assert spans(assigned, frames) == [(0, 2), (2, 4), (4, 5)]
    one, other = compute(partition, sources(frames[2:4]))
    assert one.made["y"].shape() == other.made["y"].shape() == [1, 6]
    partition.close()


def test_what_fails_together_leaves_each_to_be_computed_alone(tmp_path: Path) -> None:
    """Rows of another width are refused by ONNX Runtime, whoever they are with."""
    _, _, partition = cut(mlp(), tmp_path)
    wrong = frame(0, {"x": floats(np.random.default_rng(0), 1, WIDTH + 1)})
    with pytest.raises((ComputeFailed, InvalidInput)):
        compute(partition, sources([wrong, wrong]))
    (made,) = compute(partition, sources([frame(0, {"x": row(0)})]))
    assert made.made
    partition.close()
