"""Arrays and frames' tensors: the same bits, whatever ONNX type, shape and encoding."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from crowdpipe.client.arrays import DTYPES, decode_array, encode_array, matches
from wire.elements import Element
from wire.frames import encode_lossy_fp16, encode_lossy_int8

PLAIN = [kind for kind in Element if kind is not Element.STRING]
PACKED = {
    Element.UINT4: (0, 15),
    Element.INT4: (-8, 7),
    Element.FLOAT4E2M1: (0, 15),
    Element.UINT2: (0, 3),
    Element.INT2: (-2, 1),
}
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)


def arrays_of(kind: Element) -> st.SearchStrategy[Any]:
    dtype = np.dtype(DTYPES[kind])
    if kind in PACKED:
        low, high = PACKED[kind]
        return hnp.arrays(dtype, SHAPES, elements=st.integers(low, high))
    return hnp.arrays(dtype, SHAPES)


def bits(array: Any) -> bytes:
    return np.asarray(array).tobytes()


def test_every_element_type_has_a_numpy_type():
    assert set(DTYPES) == set(Element)


@pytest.mark.parametrize("kind", PLAIN)
@given(data=st.data())
def test_what_is_encoded_is_decoded(kind: Element, data: st.DataObject):
    array = data.draw(arrays_of(kind))
    assert matches(kind, array)
    back = decode_array(encode_array("x", kind, array, "auto"))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert bits(back) == bits(array)
    assert back.flags.writeable


@given(hnp.arrays(object, SHAPES, elements=st.text(max_size=5), fill=st.nothing()))
def test_strings_are_decoded_as_objects(array: Any):
    back = decode_array(encode_array("x", Element.STRING, array, "auto"))
    assert back.dtype == object
    assert back.shape == array.shape
    assert back.tolist() == array.tolist()


def test_fixed_width_and_byte_strings_are_taken():
    for array in (np.array([["a", "öü"]]), np.array([[b"a", "öü".encode()]])):
        assert matches(Element.STRING, array)
        back = decode_array(encode_array("x", Element.STRING, array, "raw"))
        assert back.tolist() == [["a", "öü"]]


def test_an_object_that_is_no_string_is_refused():
    with pytest.raises(ValueError, match="3 is no string"):
        encode_array("x", Element.STRING, np.array(["a", 3], object), "auto")


@pytest.mark.parametrize("kind", [Element.FLOAT, Element.INT64])
def test_arrays_of_any_layout_are_taken(kind: Element):
    array = np.arange(24).reshape(2, 3, 4).astype(DTYPES[kind])
    for view in (array.T, array[:, ::-1], array.astype(array.dtype.newbyteorder(">"))):
        assert matches(kind, view)
        assert np.array_equal(decode_array(encode_array("x", kind, view, "raw")), view)


def test_types_of_ml_dtypes_are_taken_as_what_they_are():
    halves = np.array([1.5, -2.0, 3.25], ml_dtypes.bfloat16)
    assert matches(Element.BFLOAT16, halves)
    assert not matches(Element.FLOAT16, halves)
    assert not matches(Element.UINT16, halves)
    back = decode_array(encode_array("x", Element.BFLOAT16, halves, "raw"))
    assert back.view(ml_dtypes.bfloat16).tolist() == halves.tolist()
    small = np.array([-8, 7, 3], ml_dtypes.int4)
    assert matches(Element.INT4, small)
    assert decode_array(encode_array("x", Element.INT4, small, "raw")).tolist() == [-8, 7, 3]


def test_a_value_that_a_packed_type_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="between -8 and 7"):
        encode_array("x", Element.INT4, np.array([8], np.int8), "raw")


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (Element.FLOAT, np.float64),
        (Element.INT64, np.int32),
        (Element.INT32, np.uint32),
        (Element.BOOL, np.uint8),
        (Element.STRING, np.float32),
        (Element.FLOAT, object),
    ],
)
def test_another_type_does_not_match(kind: Element, dtype: Any):
    assert not matches(kind, np.zeros(3, dtype))


def test_half_precision_and_int8_transport_give_floats():
    values = np.array([[1.0, -0.5, 2.0], [100.0, 0.0, -100.0]], np.float32)
    halves = encode_lossy_fp16("x", values.shape, values.astype("<f2").tobytes())
    assert decode_array(halves).tolist() == values.tolist()
    scales = (np.abs(values).max(axis=1) / 127).astype("<f4")
    rows = np.rint(values / scales[:, None]).astype("i1")
    back = decode_array(encode_lossy_int8("x", values.shape, scales.tobytes(), rows.tobytes()))
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, values, atol=100 / 127)
