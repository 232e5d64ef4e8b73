"""Every record that a message is made of: it comes back as it was, or is refused by name."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.record_values import message_types, values_of
from wire.errors import Malformed
from wire.frame_head import FrameHead
from wire.messages.commands import Command
from wire.messages.events import DeviceEvent
from wire.messages.requests import Request, Response
from wire.record import decode, encode, from_plain, to_plain
from wire.record_readers import MAX_INT

UNIONS = (Command, DeviceEvent, Request, Response)
TYPES = [*message_types(), FrameHead]  # the head is built by its fields' names alone
WRONG: dict[Any, tuple[Any, ...]] = {  # what is no value of a scalar type
    int: ("1", 1.0, True, [1], {}, MAX_INT + 1, -MAX_INT - 1),
    float: ("1.5", False, [1.5], {}, MAX_INT + 1, -MAX_INT - 1),
    str: (1, True, ["x"], {}),
    bool: (0, 1, "true", []),
}

each_type = pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
few = settings(max_examples=8)


def fields_with_hints(kind: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind)]


def default_of(field: dataclasses.Field[Any]) -> Any:
    """`dataclasses.MISSING` where it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def refused(kind: Any, plain: Any, path: str, why: str = "") -> None:
    with pytest.raises(Malformed, match=rf"^{re.escape(path)}.*: .*{re.escape(why)}"):
        decode(kind, json.dumps(plain).encode())


@each_type
@few
@given(st.data())
def test_it_comes_back_as_it_was(kind: Any, data: st.DataObject) -> None:
    record = data.draw(values_of(kind))
    assert decode(kind, encode(record)) == record
    assert decode(kind, encode(record, indent=2)) == record
    assert encode(record) == json.dumps(to_plain(record), ensure_ascii=False).encode()


@each_type
@few
@given(st.data())
def test_fields_of_a_later_version_are_left_alone(kind: Any, data: st.DataObject) -> None:
    record = data.draw(values_of(kind))
    assert from_plain(kind, to_plain(record) | {"from the future": [1]}) == record


@each_type
@few
@given(st.data())
def test_a_field_that_is_missing_has_its_default_or_is_named(
    kind: Any, data: st.DataObject
) -> None:
    record = data.draw(values_of(kind))
    for field, hint in fields_with_hints(kind):
        plain = to_plain(record)
        plain.pop(field.name, None)
        default = default_of(field)
        if default is not dataclasses.MISSING:
            assert getattr(from_plain(kind, plain), field.name) == default
        elif type(None) in typing.get_args(hint):
            assert getattr(from_plain(kind, plain), field.name) is None
        else:
            refused(kind, plain, f"$.{field.name}", "missing")


@each_type
@few
@given(st.data())
def test_a_value_of_another_type_is_named(kind: Any, data: st.DataObject) -> None:
    record = data.draw(values_of(kind))
    for field, hint in fields_with_hints(kind):
        options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
        for wrong in WRONG.get(options[0], (1.5, True, "", [[{}]])):
            refused(kind, to_plain(record) | {field.name: wrong}, f"$.{field.name}")


@each_type
def test_what_is_no_object_is_no_record(kind: Any) -> None:
    for plain in (None, 1, "x", [], [{}]):
        refused(kind, plain, "$", "expected an object")


@pytest.mark.parametrize("union", UNIONS, ids=lambda union: typing.get_args(union)[0].__name__)
@few
@given(st.data())
def test_of_several_types_the_one_that_is_named_is_read(union: Any, data: st.DataObject) -> None:
    record = data.draw(values_of(union))
    assert type(decode(union, encode(record))) is type(record)
    assert decode(union, encode(record)) == record
    for tag in ("from the future", None, [], {}, 1):
        refused(union, to_plain(record) | {"type": tag}, "$", f"unknown type {tag!r}")
    refused(union, [], "$", "unknown type None")
