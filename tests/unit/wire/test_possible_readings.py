"""What no sensor can have read is no reading, on both sides of the wire."""

from __future__ import annotations

import dataclasses
import json

import pytest

from wire.messages.telemetry import POSSIBLE, Telemetry
from wire.record import decode, encode
from wire.record_readers import MAX_INT

TOLD = Telemetry("c", 1.0, 1, 1, 1, 0, 0)
NUMBERS = [
    field.name
    for field in dataclasses.fields(Telemetry)
    if field.default is None and field.name != "battery_charging"
]


def test_every_reading_that_may_be_absent_has_its_bounds() -> None:
    assert sorted(POSSIBLE) == sorted(NUMBERS)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_least_and_the_most_are_readings_and_what_is_beyond_is_none(name: str) -> None:
    kind = int if "int" in str(Telemetry.__annotations__[name]) else float
    least, most = map(kind, POSSIBLE[name])
    for reading in (least, most):
        assert getattr(dataclasses.replace(TOLD, **{name: reading}), name) == reading
    beyond = (-MAX_INT, MAX_INT + 1) if kind is int else (-1e308, 1e308, float("nan"))
    for reading in beyond:
        assert getattr(dataclasses.replace(TOLD, **{name: reading}), name) is None


def test_what_cannot_be_is_read_as_nothing_and_the_rest_as_it_is() -> None:
    plain = {**json.loads(encode(TOLD)), "battery_percent": -1e308, "temperature_c": 31.5}
    told = decode(Telemetry, json.dumps(plain).encode())
    assert (told.battery_percent, told.temperature_c) == (None, 31.5)
