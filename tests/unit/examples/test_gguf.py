"""The reader of GGUF files: its encodings, number by number, and files that are not as they say."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from examples.gguf import GgufFile, NotGguf

F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(tensors: dict[str, tuple[tuple[int, ...], int, bytes]], version: int = 3) -> bytes:
    """A file with one fact of each shape, and tensors as (shape, encoding, bytes)."""
    facts = [
        string("general.architecture") + struct.pack("<I", 8) + string("llama"),
        string("llama.block_count") + struct.pack("<II", 4, 30),
        string("tokens") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("Ġb"),
    ]
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(facts)) + b"".join(facts)
    data = b""
    for name, (shape, encoding, raw) in tensors.items():
        data += bytes(-len(data) % 32)
        dims = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += string(name) + struct.pack("<I", len(shape)) + dims
        head += struct.pack("<IQ", encoding, len(data))
        data += raw
    return head + bytes(-len(head) % 32) + data


def opened(tmp_path: Path, content: bytes) -> GgufFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return GgufFile(path)


def test_facts_of_every_shape_are_read(tmp_path: Path) -> None:
    file = opened(tmp_path, gguf({}))
    assert file.facts == {
        "general.architecture": "llama",
        "llama.block_count": 30,
        "tokens": ["a", "Ġb"],
    }


def test_plain_numbers_come_as_they_are(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    file = opened(
        tmp_path,
        gguf(
            {
                "a": ((2, 3), F32, array.tobytes()),
                "b": ((6,), F16, array.astype(np.float16).tobytes()),
            }
        ),
    )
    assert file.names == ("a", "b")
    np.testing.assert_array_equal(file.tensor("a"), array)
    np.testing.assert_array_equal(file.tensor("b"), array.ravel())


def test_eight_bits_are_times_their_blocks_scale(tmp_path: Path) -> None:
    steps = np.arange(-16, 16, dtype=np.int8)
    blocks = [np.float16(scale).tobytes() + steps.tobytes() for scale in (0.5, 2.0)]
    file = opened(tmp_path, gguf({"a": ((2, 32), Q8_0, b"".join(blocks))}))
    np.testing.assert_array_equal(file.tensor("a"), [0.5 * steps, 2.0 * steps])


def test_four_bits_are_times_scale_plus_the_least(tmp_path: Path) -> None:
    """The low halves of the bytes come first, then the high ones."""
    halves = np.arange(32) % 16
    packed = (halves[:16] | (halves[16:][::-1] << 4)).astype(np.uint8)
    block = np.float16(0.25).tobytes() + np.float16(-1.0).tobytes() + packed.tobytes()
    file = opened(tmp_path, gguf({"a": ((32,), Q4_1, block)}))
    expected = np.concatenate([halves[:16], halves[16:][::-1]]) * 0.25 - 1.0
    np.testing.assert_array_equal(file.tensor("a"), expected)


def test_every_head_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    whole = gguf({"a": ((2,), F32, bytes(8))})
    for length in range(whole.index("Ġb".encode())):
        with pytest.raises(NotGguf):
            opened(tmp_path, whole[:length])


def test_a_tensor_beyond_the_end_is_refused(tmp_path: Path) -> None:
    file = opened(tmp_path, gguf({"a": ((2,), F32, bytes(8))})[:-1])
    with pytest.raises(NotGguf, match="beyond the end"):
        file.tensor("a")


def test_an_encoding_that_is_not_known_is_named(tmp_path: Path) -> None:
    file = opened(tmp_path, gguf({"a": ((2,), 12, bytes(8))}))
    with pytest.raises(NotGguf, match="type 12"):
        file.tensor("a")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "too short"),
        (b"PK\x03\x04 and so on, for a while", "not a GGUF file"),
        (gguf({}, version=9), "version 9"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "a list of"),
    ],
)
def test_what_is_no_such_file_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, says: str
) -> None:
    with pytest.raises(NotGguf, match=says):
        opened(tmp_path, content)
