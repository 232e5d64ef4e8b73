"""Frames: golden bytes, round trips, and nothing but typed errors for everything else."""

from __future__ import annotations

import contextlib
import math
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.noise import gaussian
from wire import frames as wire_frames
from wire.elements import Element, itemsize_of, nbytes_of
from wire.errors import CrowdpipeError, Malformed, TooLarge
from wire.frame_head import MAX_BATCH, FrameSettings
from wire.frames import (
    TRANSPORTS,
    Encoding,
    Frame,
    Tensor,
    attempt_of,
    decode_frame,
    encode_frame,
    encode_lossy_fp16,
    encode_lossy_int8,
    encode_strings,
    encode_tensor,
    head_of,
    peek,
    rehead,
)
from wire.ids import ActivationId, is_name
from wire.planes import Plane, inflate

MODEL = "ab" * 32
LIMIT = 1 << 20
runs = st.from_regex(r"[a-z0-9-]{1,32}", fullmatch=True).filter(is_name)
FIXED_SIZE = [kind for kind in Element if kind is not Element.STRING]

# fmt: off  (a line for each field)
GOLDEN = bytes.fromhex(
    "43504631"  # magic
    "77000000"  # 119 bytes of header
    "54788720"  # check sum
    "03010200" + MODEL + "07000000"  # exact and barrier, zlib, two tensors
    "02000000"
    "01000000"  # item, cut, attempt
    "027231"  # run r1
    "0100"
    "78"
    "0a"
    "00"
    "01"  # x, float16, raw, rank 1
    "0200000000000000"
    "01"  # two elements, one plane
    "00"
    "0400000000000000"
    "0400000000000000"
    "0100"
    "73"
    "0b"
    "00"
    "00"
    "01"  # s, double, raw, scalar, one plane
    "00"
    "0800000000000000"
    "0800000000000000"
    "003c00c0"  # 1.0, -2.0
    "000000000000f03f"  # 1.0
)
# fmt: on


def small_frame() -> Frame:
    return Frame(
        MODEL,
        ActivationId("r1", 7, 2),
        1,
        FrameSettings(exact=True, barrier=True, transport="zlib"),
        (
            encode_tensor("x", Element.FLOAT16, (2,), bytes.fromhex("003c00c0")),
            encode_tensor("s", Element.DOUBLE, (), struct.pack("<d", 1.0)),
        ),
    )


@st.composite
def tensors(draw: Any, name: str = "t") -> Tensor:
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    transport = draw(st.sampled_from(["auto", "zlib", "raw"]))
    link = draw(st.sampled_from([None, 1e5, 1e9]))
    kind = draw(st.sampled_from(list(Element)))
    if kind is Element.STRING:
        words = draw(
            st.lists(st.binary(max_size=8), min_size=math.prod(shape), max_size=math.prod(shape))
        )
        return encode_strings(name, shape, words, transport, link)
    count = nbytes_of(kind, math.prod(shape))
    data = draw(st.one_of(st.binary(min_size=count, max_size=count), st.just(bytes(count))))
    return encode_tensor(name, kind, shape, data, transport, link)


@st.composite
def frames(draw: Any) -> Frame:
    number = st.integers(0, 2**32 - 1)
    return Frame(
        MODEL,
        ActivationId(draw(runs), draw(number), draw(number)),
        draw(number),
        FrameSettings(
            draw(st.booleans()),
            draw(st.booleans()),
            draw(st.sampled_from(TRANSPORTS)),
            draw(st.integers(1, MAX_BATCH)),
        ),
        tuple(draw(tensors(f"t{i}")) for i in range(draw(st.integers(0, 3)))),
    )


def contents(tensor: Tensor) -> Any:
    return tensor.strings() if tensor.kind is Element.STRING else bytes(tensor.data())


def test_a_frame_has_these_bytes() -> None:
    assert encode_frame(small_frame()) == GOLDEN


def test_these_bytes_are_that_frame() -> None:
    frame = decode_frame(GOLDEN, LIMIT)
    assert frame == small_frame()
    assert [contents(tensor) for tensor in frame.tensors] == [
        bytes.fromhex("003c00c0"),
        struct.pack("<d", 1.0),
    ]


@given(frames())
def test_what_is_encoded_comes_back_bit_for_bit(frame: Frame) -> None:
    decoded = decode_frame(encode_frame(frame), LIMIT)
    assert decoded == frame
    assert list(map(contents, decoded.tensors)) == list(map(contents, frame.tensors))


@given(frames())
def test_the_header_alone_says_the_same(frame: Frame) -> None:
    data = encode_frame(frame)
    header = peek(data)
    assert (header.activation, header.attempt, header.settings, header.raw_nbytes) == (
        frame.activation,
        frame.attempt,
        frame.settings,
        frame.raw_nbytes,
    )
    assert header.nbytes == len(data)
    assert head_of(frame, len(encode_frame(frame))) == peek(encode_frame(frame))
    assert attempt_of(encode_frame(frame)) == frame.attempt


@given(frames(), st.sampled_from(TRANSPORTS))
def test_a_new_head_leaves_every_plane_as_it_was(frame: Frame, transport: Any) -> None:
    wanted = FrameSettings(True, False, transport)
    changed = decode_frame(rehead(encode_frame(frame), 9, wanted), LIMIT)
    assert (changed.attempt, changed.settings) == (9, wanted)
    assert (changed.tensors, changed.activation) == (frame.tensors, frame.activation)


@pytest.mark.parametrize("batch", [0, MAX_BATCH + 1])
def test_no_more_items_at_once_are_asked_for_than_the_head_can_say(batch: int) -> None:
    settings_ = FrameSettings(batch=batch)
    with pytest.raises(ValueError, match="items at once"):
        encode_frame(Frame(MODEL, ActivationId("r", 0, 0), 0, settings_, ()))


@settings(max_examples=30)
@given(frames())
def test_every_truncated_prefix_is_refused(frame: Frame) -> None:
    data = encode_frame(frame)
    for length in range(len(data)):
        with pytest.raises((Malformed, TooLarge)):
            decode_frame(data[:length], LIMIT)


@given(frames(), st.binary(min_size=1, max_size=8))
def test_bytes_left_over_are_refused(frame: Frame, rest: bytes) -> None:
    with pytest.raises(Malformed):
        decode_frame(encode_frame(frame) + rest, LIMIT)


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    for candidate in (data, b"CPF1" + data):
        with pytest.raises(CrowdpipeError):
            decode_frame(candidate, LIMIT)


@settings(max_examples=300)
@given(frames(), st.data())
def test_a_changed_byte_is_refused(frame: Frame, data: Any) -> None:
    encoded = bytearray(encode_frame(frame))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CrowdpipeError):
        decode_frame(encoded, LIMIT)


@settings(max_examples=300)
@given(frames(), st.data())
def test_a_changed_byte_under_a_true_check_sum_gives_a_frame_or_a_typed_error(
    frame: Frame, data: Any
) -> None:
    encoded = bytearray(encode_frame(frame))
    place = data.draw(st.integers(12, len(encoded) - 1))
    encoded[place] ^= data.draw(st.integers(1, 255))
    encoded[8:12] = struct.pack("<I", zlib.crc32(encoded[12:]))
    with contextlib.suppress(CrowdpipeError):
        for tensor in decode_frame(encoded, LIMIT).tensors:
            if tensor.encoding is Encoding.INT8_ROWS:
                tensor.rows()
            else:
                contents(tensor)


@pytest.mark.parametrize("kind", FIXED_SIZE, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", [(), (0, 3), (3, 5)], ids=["scalar", "empty", "matrix"])
def test_every_element_type_is_carried(kind: Element, shape: tuple[int, ...]) -> None:
    data = bytes(range(nbytes_of(kind, math.prod(shape))))
    tensor = encode_tensor("t", kind, shape, data)
    frame = Frame(MODEL, ActivationId("r", 0, 0), 0, FrameSettings(), (tensor,))
    assert bytes(decode_frame(encode_frame(frame), LIMIT).tensors[0].data()) == data


def test_data_that_does_not_fill_its_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fill"):
        encode_tensor("t", Element.FLOAT, (2,), b"1234")


def test_a_frame_beyond_the_limit_is_refused_before_its_planes_are_read() -> None:
    plane = Plane(b"x" * 10, True, 1 << 40)
    huge = Tensor("t", Element.UINT8, (1 << 40,), Encoding.RAW, (plane,))
    frame = Frame(MODEL, ActivationId("r", 0, 0), 0, FrameSettings(), (huge,))
    with pytest.raises(TooLarge, match="over the limit"):
        decode_frame(encode_frame(frame), LIMIT)


def test_dimensions_whose_product_overflows_are_refused() -> None:
    plane = Plane(b"", False, 0)
    huge = Tensor("t", Element.FLOAT, (1 << 63, 1 << 63), Encoding.RAW, (plane,))
    frame = Frame(MODEL, ActivationId("r", 0, 0), 0, FrameSettings(), (huge,))
    with pytest.raises(Malformed, match="no tensor has the shape"):
        decode_frame(encode_frame(frame), LIMIT)


def test_two_tensors_of_one_name_are_refused() -> None:
    tensor = encode_tensor("t", Element.INT8, (1,), b"1")
    frame = Frame(MODEL, ActivationId("r", 0, 0), 0, FrameSettings(), (tensor, tensor))
    with pytest.raises(Malformed, match="same name"):
        decode_frame(encode_frame(frame), LIMIT)


def test_a_plane_that_inflates_to_more_is_refused_without_inflating_it() -> None:
    bomb = zlib.compress(bytes(50_000_000), 9)
    with pytest.raises(TooLarge, match="inflates to more"):
        inflate(bomb, 1000)


@pytest.mark.parametrize("raw_nbytes", [0, 3, 5])
def test_a_plane_must_inflate_to_exactly_its_length(raw_nbytes: int) -> None:
    with pytest.raises((Malformed, TooLarge)):
        inflate(zlib.compress(b"four"), raw_nbytes)


def test_a_plane_with_bytes_behind_its_stream_is_refused() -> None:
    with pytest.raises(Malformed):
        inflate(zlib.compress(b"four") + b"!", 4)


def test_exponents_of_floats_make_frames_smaller_than_raw() -> None:
    values = [math.sin(i * 12.9898) * 3 for i in range(4096)]
    data = struct.pack("<4096f", *values)
    tensor = encode_tensor("t", Element.FLOAT, (4096,), data, "zlib")
    assert tensor.encoding is Encoding.PLANES
    assert [plane.deflated for plane in tensor.planes][:2] == [False, False]
    assert tensor.planes[3].deflated
    assert tensor.encoded_nbytes < 0.9 * len(data)


def test_a_fast_link_is_sent_raw_planes_and_a_slow_one_deflated() -> None:
    data = struct.pack("<4096f", *(math.sin(i * 12.9898) * 3 for i in range(4096)))
    fast = encode_tensor("t", Element.FLOAT, (4096,), data, "auto", 10e9)
    slow = encode_tensor("t", Element.FLOAT, (4096,), data, "auto", 1e6)
    assert fast.encoding is Encoding.RAW
    assert slow.encoded_nbytes < fast.encoded_nbytes


def test_zeros_after_a_relu_are_found() -> None:
    data = struct.pack("<4096f", *(max(0.0, math.sin(i * 12.9898)) for i in range(4096)))
    tensor = encode_tensor("t", Element.FLOAT, (4096,), data, "zlib")
    assert tensor.encoded_nbytes < 0.7 * len(data)


def test_lossy_transports_say_so_in_their_encoding() -> None:
    halves = encode_lossy_fp16("t", (2, 2), bytes(8))
    rows = encode_lossy_int8("u", (2, 2), bytes(8), b"\1\2\3\4")
    frame = Frame(
        MODEL, ActivationId("r", 0, 0), 0, FrameSettings(transport="int8"), (halves, rows)
    )
    decoded = decode_frame(encode_frame(frame), LIMIT)
    assert [tensor.encoding for tensor in decoded.tensors] == [Encoding.FP16, Encoding.INT8_ROWS]
    assert bytes(decoded.tensors[1].rows()[1]) == b"\1\2\3\4"
    assert decoded.settings.lossless == "auto"


def test_strings_whose_lengths_lie_are_refused() -> None:
    planes = (Plane(struct.pack("<2I", 1, 5), False, 8), Plane(b"abc", False, 3))
    tensor = Tensor("t", Element.STRING, (2,), Encoding.STRINGS, planes)
    with pytest.raises(Malformed, match="lengths"):
        tensor.strings()


def test_item_sizes_are_those_of_onnx() -> None:
    assert [itemsize_of(kind) for kind in (Element.INT4, Element.BFLOAT16, Element.COMPLEX128)] == [
        1,
        2,
        16,
    ]


@pytest.mark.parametrize("run", ["../x", "a/b", "+", "#", "from", "A", "", "a" * 33])
def test_a_run_whose_name_could_not_stand_in_a_topic_is_not_sent(run: str) -> None:
    with pytest.raises(ValueError, match="cannot travel"):
        encode_frame(Frame(MODEL, ActivationId(run, 0, 0), 0, FrameSettings(), ()))


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_numbers_that_do_not_fit_are_not_sent(number: int) -> None:
    for activation, attempt in (
        (ActivationId("r", number, 0), 0),
        (ActivationId("r", 0, 0), number),
    ):
        with pytest.raises(ValueError, match="does not fit"):
            encode_frame(Frame(MODEL, activation, attempt, FrameSettings(), ()))


@pytest.mark.parametrize("run", [b"..", b"/x", b"#+", b"R1", b"\xff1"])
def test_a_run_whose_name_could_not_stand_in_a_topic_is_refused(run: bytes) -> None:
    with pytest.raises(Malformed, match=r"a run called|not UTF-8"):
        decode_frame(GOLDEN.replace(b"r1", run), LIMIT)


def test_a_shape_that_no_array_can_have_is_refused_though_it_is_empty() -> None:
    plane = Plane(b"", False, 0)
    for shape in ((0, 1 << 62), (1 << 40, 0, 1 << 40)):
        empty = Tensor("t", Element.FLOAT, shape, Encoding.RAW, (plane,))
        frame = Frame(MODEL, ActivationId("r", 0, 0), 0, FrameSettings(), (empty,))
        with pytest.raises(Malformed, match="no tensor has the shape"):
            decode_frame(encode_frame(frame), LIMIT)


def test_a_tensor_that_passes_through_is_copied_as_it_came() -> None:
    first = Frame(
        MODEL,
        ActivationId("r", 0, 1),
        0,
        FrameSettings(),
        (encode_tensor("t", Element.FLOAT, (4096,), gaussian(4096)),),
    )
    received = decode_frame(encode_frame(first), LIMIT)
    onward = Frame(MODEL, ActivationId("r", 0, 2), 0, FrameSettings(), received.tensors)
    assert decode_frame(encode_frame(onward), LIMIT).tensors == first.tensors


def test_a_change_that_a_streams_own_check_sum_misses_is_refused() -> None:
    data = gaussian(500)
    tensor = encode_tensor("t", Element.FLOAT, (500,), data, "zlib")
    encoded = encode_frame(Frame(MODEL, ActivationId("r", 0, 0), 0, FrameSettings(), (tensor,)))
    start = encoded.index(bytes(tensor.planes[3].data))
    mutated = bytearray(encoded)
    mutated[start + 98] ^= 0x55  # four exponents change by one, up and down: Adler-32 is the same
    stream = mutated[start : start + len(tensor.planes[3].data)]
    assert inflate(stream, 500) != data[3::4]
    with pytest.raises(Malformed, match="altered"):
        decode_frame(mutated, LIMIT)


def test_a_header_that_was_read_before_says_nothing_of_another_frame() -> None:
    """Tables of tensors are remembered as bytes; what is not in them is read each time."""
    data = [bytes([number]) * 8 for number in range(3)]
    for item, each in enumerate(data):
        tensor = encode_tensor("x", Element.FLOAT, (2,), each)
        frame = Frame(MODEL, ActivationId("r1", item, 1), item, FrameSettings(), (tensor,))
        encoded = encode_frame(frame)
        assert decode_frame(encoded, LIMIT).tensor("x").data() == each
        assert peek(encoded) == head_of(frame, len(encoded))


def test_long_tables_of_tensors_are_not_remembered() -> None:
    """They come from anybody, and what is remembered must stay small."""
    before = wire_frames._remembered.cache_info()
    tensors = tuple(encode_tensor(f"x{n}", Element.INT8, (1,), b"1") for n in range(64))
    frame = Frame(MODEL, ActivationId("r1", 0, 1), 0, FrameSettings(), tensors)
    peek(encode_frame(frame))
    assert wire_frames._remembered.cache_info() == before
