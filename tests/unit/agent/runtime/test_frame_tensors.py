"""From frame to OrtValues and on to the next frame: copied, encoded, or converted on request."""

from __future__ import annotations

import numpy as np
import pytest

from edge_agent.adapters.runtime.deflating import Deflating
from edge_agent.adapters.runtime.frame_tensors import (
    OutputTooLarge,
    emit,
    open_frame,
    values_of,
)
from edge_agent.adapters.runtime.onnx_values import raw_of, strings_of, strings_value, value_of
from tests.support.chain import Chain
from wire.elements import Element
from wire.errors import ComputeFailed
from wire.frame_head import FrameSettings
from wire.frames import (
    Encoding,
    Frame,
    encode_frame,
    encode_strings,
    encode_tensor,
)
from wire.ids import ActivationId, TaskId
from wire.messages.assignment import PartitionAssignment
from wire.planes import HUFFMAN_NBYTES_PER_S
from wire.transport import Transport

TASK = TaskId("run", 3, 0, 0, attempt=2)


def assigned(*emits: str, emits_nbytes: int = 1 << 20) -> PartitionAssignment:
    template = Chain(1, width=4).assigned()
    return PartitionAssignment(
        template.partition, "m", 1, template.segments, 1 << 20, emits, emits_nbytes
    )


def frame_of(*tensors, transport: Transport = "auto", exact: bool = False) -> Frame:
    settings = FrameSettings(exact=exact, transport=transport)
    frame = Frame("a" * 64, ActivationId("run", 3, 0), 2, settings, tensors)
    return open_frame(encode_frame(frame), 1 << 20)


def floats(name: str, array: np.ndarray):
    return encode_tensor(name, Element.FLOAT, array.shape, array.tobytes())


def floats_value(array: np.ndarray):
    return value_of(Element.FLOAT, array.shape, array.tobytes())


def passed_on(array: np.ndarray, transport: Transport, exact: bool = False) -> tuple:
    """What the next device gets of `array`: (encoding, array)."""
    source = frame_of(transport=transport, exact=exact)
    emitted = emit(source, {"y": floats_value(array)}, TASK, assigned("y"), None, Deflating())
    frame = open_frame(emitted.data, 1 << 20)
    raw = raw_of(values_of(frame, ["y"])["y"])
    return frame.tensor("y").encoding, np.frombuffer(raw, np.float32).reshape(array.shape)


def test_what_passes_is_copied_as_it_came_and_never_decoded():
    array = np.linspace(0, 1, 4096, dtype=np.float32)
    source = frame_of(floats("x", array), floats("used", array))
    emitted = emit(source, {"y": floats_value(array)}, TASK, assigned("x", "y"), None, Deflating())
    assert set(values_of(source, ["used"])) == {"used"}
    frame = open_frame(emitted.data, 1 << 20)
    assert [tensor.name for tensor in frame.tensors] == ["x", "y"]
    before, after = source.tensor("x").planes, frame.tensor("x").planes
    assert [bytes(plane.data) for plane in before] == [bytes(plane.data) for plane in after]


def test_the_next_frame_is_named_after_the_task_that_made_it():
    emitted = emit(
        frame_of(),
        {"y": floats_value(np.ones(3, np.float32))},
        TASK,
        assigned("y"),
        1e6,
        Deflating(),
    )
    assert emitted.header.activation == ActivationId("run", 3, 1)
    assert emitted.header.attempt == 2
    assert (emitted.header.nbytes, emitted.header.raw_nbytes) == (len(emitted.data), 12)


def test_strings_pass_from_frame_to_frame():
    strings = ["één".encode(), b"", b"three"]
    values = values_of(frame_of(encode_strings("s", (3, 1), strings)), ["s"])
    assert strings_of(values["s"]) == strings
    made = {"t": strings_value((3, 1), strings)}
    frame = open_frame(emit(frame_of(), made, TASK, assigned("t"), None, Deflating()).data, 1 << 20)
    assert frame.tensor("t").strings() == strings


@pytest.mark.parametrize("transport", ["auto", "zlib", "raw"])
def test_lossless_transports_change_no_bit(transport: Transport):
    array = np.array([[np.nan, np.inf, -0.0], [1e-42, 65520.0, -1.5]], np.float32)
    assert passed_on(array, transport)[1].tobytes() == array.tobytes()


def test_halves_travel_when_the_run_asks_for_them():
    array = np.random.default_rng(1).standard_normal((7, 33)).astype(np.float32)
    encoding, got = passed_on(array, "fp16")
    assert encoding is Encoding.FP16
    assert got.tobytes() == array.astype(np.float16).astype(np.float32).tobytes()


def test_rows_of_int8_are_off_by_half_a_step_at_most():
    array = np.random.default_rng(1).standard_normal((7, 33)).astype(np.float32)
    array[3] = 0
    encoding, got = passed_on(array, "int8")
    assert encoding is Encoding.INT8_ROWS
    step = np.abs(array).max(axis=1, keepdims=True) / 127
    assert (np.abs(got - array) <= step * 0.5001).all()


@pytest.mark.parametrize("transport", ["fp16", "int8"])
@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.0, np.inf]], np.float32),
        np.array([[np.nan, 1.0]], np.float32),
        np.float32(3.1415927).reshape(()),
        np.zeros((0, 4), np.float32),
    ],
    ids=["infinity", "nan", "scalar", "empty"],
)
def test_what_a_lossy_transport_would_ruin_travels_without_loss(
    transport: Transport, array: np.ndarray
):
    assert passed_on(array, transport)[1].tobytes() == array.tobytes()


def test_values_too_large_for_halves_travel_without_loss():
    array = np.array([[1.0, 70000.0]], np.float32)
    assert passed_on(array, "fp16")[1].tobytes() == array.tobytes()


def test_exact_runs_are_never_sent_with_loss():
    array = np.array([[1.0, 0.1]], np.float32)
    for transport in ("fp16", "int8"):
        assert passed_on(array, transport, exact=True)[1].tobytes() == array.tobytes()


def test_an_output_over_its_bound_is_a_typed_error():
    made = {"y": floats_value(np.ones(100, np.float32))}
    with pytest.raises(
        OutputTooLarge, match=r"400 bytes, and 399 are allowed for: 'y' \[100\]"
    ) as told:
        emit(frame_of(), made, TASK, assigned("y", emits_nbytes=399), None, Deflating())
    assert [(head.name, head.shape) for head in told.value.made] == [("y", (100,))]


def test_of_many_outputs_over_their_bound_the_largest_are_told():
    made = {f"y{size}": floats_value(np.ones(size, np.float32)) for size in range(1, 40)}
    with pytest.raises(OutputTooLarge) as told:
        emit(frame_of(), made, TASK, assigned(*made, emits_nbytes=9), None, Deflating())
    assert [head.shape for head in told.value.made] == [(size,) for size in range(39, 31, -1)]


def test_an_output_that_nobody_made_is_a_typed_error():
    with pytest.raises(ComputeFailed, match="'y'"):
        emit(frame_of(), {}, TASK, assigned("y"), None, Deflating())


def noise(count: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(count).astype(np.float32)


def test_a_device_that_deflates_slowly_does_so_only_on_slower_links():
    deflating = Deflating()
    usual = encode_tensor("y", Element.FLOAT, (1 << 16,), noise(1 << 16).tobytes(), "auto", 12e6)
    assert any(plane.deflated for plane in usual.planes)
    assert deflating.worth(12e6) == 12e6
    plane_nbytes = 1 << 16
    deflating.took(usual, 10 * plane_nbytes / HUFFMAN_NBYTES_PER_S)
    assert deflating.worth(12e6) == pytest.approx(120e6)
    assert deflating.worth(None) is None
    made = {"y": floats_value(noise(1 << 16))}
    frame = open_frame(emit(frame_of(), made, TASK, assigned("y"), 12e6, deflating).data, 1 << 20)
    assert not any(plane.deflated for plane in frame.tensor("y").planes)
    frame = open_frame(emit(frame_of(), made, TASK, assigned("y"), 1e6, deflating).data, 1 << 20)
    assert any(plane.deflated for plane in frame.tensor("y").planes)


def test_only_what_is_deflated_in_one_plane_tells_how_fast_that_goes():
    deflating = Deflating()
    zeros = encode_tensor("y", Element.FLOAT, (1 << 16,), bytes(4 << 16), "zlib")
    raw = encode_tensor("y", Element.FLOAT, (1 << 16,), noise(1 << 16).tobytes(), "raw")
    for tensor in (zeros, raw):
        deflating.took(tensor, 100.0)
    assert deflating.slowness == 1.0


def test_one_slow_moment_does_not_keep_a_device_from_deflating_for_good():
    deflating = Deflating()
    values = noise(1 << 16).tobytes()

    def encoded() -> bool:
        link = deflating.worth(5e6)
        tensor = encode_tensor("y", Element.FLOAT, (1 << 16,), values, "auto", link)
        deflated = any(plane.deflated for plane in tensor.planes)
        deflating.took(tensor, (1 << 16) / HUFFMAN_NBYTES_PER_S)
        return deflated

    assert encoded()
    stalled = encode_tensor("y", Element.FLOAT, (1 << 16,), values, "auto", 5e6)
    for _ in range(9):
        deflating.took(stalled, 1.0)
    assert not encoded()
    assert any(encoded() for _ in range(1000))
