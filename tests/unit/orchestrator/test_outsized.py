"""Why an output was too large: said with the model's names, and with the option that mends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.machine.items import outsized
from tests.support.tiny_manifest import tiny_manifest
from wire.elements import Element
from wire.errors import Malformed
from wire.frame_head import TensorHead
from wire.ids import TaskId
from wire.manifest import CutSpec, Manifest, TensorSpec
from wire.messages.events import TaskFailed
from wire.record import decode, encode


def failed(*made: TensorHead, last: int = 1) -> TaskFailed:
    return TaskFailed(TaskId("r", 3, 0, last), "too_large", "the device's words", made)


def crossing(spec: TensorSpec, **symbols: int) -> Manifest:
    """The tiny model with `spec` alone before its last segment."""
    manifest = tiny_manifest()
    cuts = (*manifest.cuts[:2], CutSpec(2, (spec,)), manifest.cuts[3])
    return replace(manifest, cuts=cuts, symbols=manifest.symbols | symbols)


def spec(
    *dims: str,
    kind: Element = Element.FLOAT,
    rank_known: bool = True,
    bound_nbytes: int = 512 * 5 * 4,
) -> TensorSpec:
    return TensorSpec("kept", kind, dims, bound_nbytes, rank_known=rank_known)


def head(*shape: int, name: str = "kept") -> TensorHead:
    return TensorHead(name, Element.FLOAT, shape)


def test_the_tensor_the_dimension_the_values_and_the_option_are_named():
    manifest = crossing(spec("boxes", "4"), boxes=512)
    assert outsized.reason(manifest, failed(head(2000, 4))) == (
        "segments 0 to 1 gave 'kept' the shape [2000, 4], where 'boxes' may be at most 512: "
        "add the model again with --max-shape boxes=2000"
    )


def test_one_segment_is_not_called_several():
    manifest = replace(tiny_manifest(weights=(1, 1)), symbols={"batch": 4, "seq": 8})
    told = TaskFailed(TaskId("r", 0, 1, 1), "too_large", "", (head(1, 9, name="y"),))
    assert outsized.reason(manifest, told).startswith("segment 1 gave 'y' the shape [1, 9]")


def test_all_dimensions_over_their_bounds_are_named_at_once():
    manifest = crossing(spec("batch", "boxes"), boxes=512)
    said = outsized.reason(manifest, failed(head(5, 600)))
    assert said.endswith("--max-shape batch=5,boxes=600")


def test_dimensions_that_were_guessed_together_are_wished_together():
    """Each is within its bound; their product is beyond the bytes that guesses are given."""
    guessed = spec("rows", "64", "columns", bound_nbytes=16 << 20)
    manifest = crossing(guessed, rows=512, columns=512)
    assert outsized.reason(manifest, failed(head(500, 64, 400))) == (
        "segments 0 to 1 gave 'kept' the shape [500, 64, 400], which is more than the 16777216 "
        "bytes allowed: add the model again with --max-shape rows=500,columns=400"
    )


def test_a_dimension_without_a_bound_ends_nothing():
    assert outsized.reason(crossing(spec("boxes")), failed(head(20))) == "the device's words"


@pytest.mark.parametrize(
    "told",
    [
        failed(),
        failed(head(512, 4)),
        failed(head(2000)),
        failed(head(512, 5)),
        failed(head(2000, 4, name="another")),
        failed(head(2000, 4), last=7),
    ],
    ids=["none told", "in its bounds", "another rank", "a fixed one", "unknown", "no such segment"],
)
def test_where_no_dimension_is_over_its_bound_the_devices_words_stay(told: TaskFailed):
    manifest = crossing(spec("boxes", "4"), boxes=512)
    assert outsized.reason(manifest, told) == "the device's words"


@pytest.mark.parametrize("odd", [spec("boxes", kind=Element.STRING), spec(rank_known=False)])
def test_bytes_that_follow_from_no_shape_are_blamed_on_no_dimension(odd: TensorSpec):
    told = failed(head(2000))
    assert outsized.reason(crossing(odd, boxes=512), told) == "the device's words"


@pytest.mark.parametrize("shape", [(1,) * 33, (-1,), (1 << 63,)])
def test_a_shape_that_no_tensor_has_is_malformed(shape: tuple[int, ...]):
    plain = encode(failed(head(1))).replace(b"[1]", str(list(shape)).encode())
    with pytest.raises(Malformed, match="shape"):
        decode(TaskFailed, plain)
