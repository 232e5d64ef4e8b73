"""Frozen dataclasses as JSON objects, and back, believing nothing.

`encode` writes readable UTF-8 JSON. `decode` checks size, nesting, presence and type of every
field and raises `Malformed` with the path of the first that is wrong; unknown fields are
ignored, so that a newer writer can be read. A union of dataclasses is told apart by their
`type` class variable. Ranges and cross-field rules belong to the records' `__post_init__`,
which raise `ValueError`. What the types say is looked at once a type (`wire.record_readers`):
with many devices, most of an orchestrator's time went into reading it again for each message.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable
from typing import Any

from wire.errors import Malformed, TooLarge
from wire.record_readers import Misfit, reader_of

MAX_RECORD_NBYTES = 4 << 20
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def encode(record: Any, indent: int | None = None) -> bytes:
    """The record as UTF-8 JSON. Fields that are None are left out."""
    encoder = _ENCODER if indent is None else _encoder(indent)
    return encoder.encode(record).encode()


def decode(kind: Any, data: bytes | bytearray | memoryview, limit: int = MAX_RECORD_NBYTES) -> Any:
    """A `kind` (dataclass, or union of dataclasses) from JSON of at most `limit` bytes.

    Raises `TooLarge` before parsing, or `Malformed` with the path of what is wrong.
    """
    if len(data) > limit:
        raise TooLarge(f"a record of {len(data)} bytes is over the limit of {limit}")
    try:
        text = str(data, "utf-8")
        plain = _DECODER.decode(text)
        if _SURROGATE.search(text):
            _check_utf8(plain)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    return from_plain(kind, plain)


def _check_utf8(plain: Any) -> None:
    """`ValueError` for half a pair of surrogates: JSON can name it, no UTF-8 can carry it on."""
    json.dumps(plain, ensure_ascii=False).encode()


def from_plain(kind: Any, plain: Any) -> Any:
    """`plain` (what a JSON reader gave) as a `kind`, every field checked."""
    try:
        return reader_of(kind)(plain)
    except Misfit as misfit:
        raise Malformed(f"${misfit.path}: {misfit}") from None


def to_plain(value: Any) -> Any:
    """The value with every record in it as a dict, for whoever writes JSON of more than records."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(entry) for name, entry in _object_of(value).items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: to_plain(entry) for key, entry in value.items()}
    return value


def _object_of(record: Any) -> dict[str, Any]:
    """The record's own fields, records in them as they are: the encoder asks again for those."""
    kind: Any = type(record)
    return _writer_of(kind)(record)


@functools.cache
def _writer_of(kind: Any) -> Callable[[Any], dict[str, Any]]:
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no record: JSON cannot carry it")
    tag = getattr(kind, "type", None)
    head = {"type": tag} if isinstance(tag, str) else {}
    names = tuple(field.name for field in dataclasses.fields(kind))

    def write(record: Any) -> dict[str, Any]:
        plain = head.copy()
        for name in names:
            value = getattr(record, name)
            if value is not None:
                plain[name] = value
        return plain

    return write


def _encoder(indent: int | None) -> json.JSONEncoder:
    """Records are handed out one by one; frozen ones cannot contain themselves."""
    return json.JSONEncoder(
        ensure_ascii=False, check_circular=False, indent=indent, default=_object_of
    )


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


_ENCODER = _encoder(None)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
