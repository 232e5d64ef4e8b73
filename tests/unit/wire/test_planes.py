"""Byte planes: deflated where that saves bytes or time, and never at the cost of a bit."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.noise import gaussian
from wire.elements import Element
from wire.frame_head import FrameSettings
from wire.frames import Frame, encode_frame, encode_tensor
from wire.ids import ActivationId
from wire.planes import deflate, inflate

MODEL = "ab" * 32
LIMIT = 1 << 20


@pytest.mark.parametrize("place", ["start", "end"])
def test_padding_at_either_end_is_found(place: str) -> None:
    zeros, values = bytes(4 * 10_000), gaussian(20_000)
    data = zeros + values if place == "start" else values + zeros
    tensor = encode_tensor("t", Element.FLOAT, (30_000,), data, "zlib")
    assert all(plane.deflated for plane in tensor.planes)
    assert tensor.encoded_nbytes < 0.65 * len(data)
    assert bytes(tensor.data()) == data


def test_repeated_rows_are_matched() -> None:
    data = gaussian(1000) * 20
    tensor = encode_tensor("t", Element.FLOAT, (20, 1000), data, "zlib")
    assert tensor.encoded_nbytes < 0.2 * len(data)


@pytest.mark.parametrize("link", [None, 0.0, 1.0])
def test_a_link_that_is_unknown_or_dead_is_taken_for_slow(link: float | None) -> None:
    data = gaussian(4096)
    tensor = encode_tensor("t", Element.FLOAT, (4096,), data, "auto", link)
    assert tensor == encode_tensor("t", Element.FLOAT, (4096,), data, "zlib")
    assert tensor.encoded_nbytes < 0.9 * len(data)


@pytest.mark.parametrize("shape", [(4096,), (16,), ()])
def test_the_raw_transport_sends_the_bytes_as_they_are(shape: tuple[int, ...]) -> None:
    data = bytes(4 * math.prod(shape))
    tensor = encode_tensor("t", Element.FLOAT, shape, data, "raw")
    assert [bytes(plane.data) for plane in tensor.planes] == [data]


def test_no_tensor_takes_more_room_in_a_frame_than_raw() -> None:
    for count in (1, 15, 16, 63, 64, 65, 100, 1000):
        data = struct.pack(f"<{count}q", *range(count))
        sizes = [
            len(encode_frame(Frame(MODEL, ActivationId("r", 0, 0), 0, FrameSettings(), (tensor,))))
            for transport in ("zlib", "raw")
            for tensor in [encode_tensor("t", Element.INT64, (count,), data, transport)]
        ]
        assert sizes[0] <= sizes[1]


@given(st.binary(max_size=2000), st.sampled_from(["huffman", "match"]))
def test_planes_come_back_from_either_method(data: bytes, method: Any) -> None:
    assert inflate(deflate(data, method), len(data)) == data
