"""Frozen dataclasses as JSON objects, and back, believing nothing.

`encode` writes readable UTF-8 JSON. `decode` checks size, nesting, presence and type of every
field and raises `Malformed` with the path of the first that is wrong; unknown fields are
ignored, so that a newer writer can be read. A union of dataclasses is told apart by their
`type` class variable. Ranges and cross-field rules belong to the records' `__post_init__`,
which raise `ValueError`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from typing import Any

from wire.errors import InvalidName, Malformed, TooLarge

MAX_RECORD_NBYTES = 4 << 20
MAX_INT = 1 << 63


def encode(record: Any, indent: int | None = None) -> bytes:
    """The record as UTF-8 JSON. Fields that are None are left out."""
    return json.dumps(to_plain(record), ensure_ascii=False, indent=indent).encode()


def decode(kind: Any, data: bytes | bytearray | memoryview, limit: int = MAX_RECORD_NBYTES) -> Any:
    """A `kind` (dataclass, or union of dataclasses) from JSON of at most `limit` bytes.

    Raises `TooLarge` before parsing, or `Malformed` with the path of what is wrong.
    """
    if len(data) > limit:
        raise TooLarge(f"a record of {len(data)} bytes is over the limit of {limit}")
    try:
        plain = json.loads(bytes(data), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    return from_plain(kind, plain)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def to_plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _object_of(value)
    if isinstance(value, (list, tuple)):
        return [to_plain(entry) for entry in value]
    if isinstance(value, dict):
        return {key: to_plain(entry) for key, entry in value.items()}
    return value


def _object_of(record: Any) -> dict[str, Any]:
    tag = getattr(record, "type", None)
    plain: dict[str, Any] = {"type": tag} if isinstance(tag, str) else {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if value is not None:
            plain[field.name] = to_plain(value)
    return plain


def from_plain(kind: Any, plain: Any, path: str = "$") -> Any:
    """`plain` (what `json.loads` gave) as a `kind`, every field checked."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return from_plain(typing.get_args(kind)[0], plain, path)
    if origin in (typing.Union, types.UnionType):
        return _union(kind, plain, path)
    if origin is typing.Literal:
        return _literal(kind, plain, path)
    if origin is tuple:
        return _tuple(kind, plain, path)
    if origin is dict:
        return _mapping(kind, plain, path)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _record(kind, plain, path)
    return _scalar(kind, plain, path)


def _union(kind: Any, plain: Any, path: str) -> Any:
    options = typing.get_args(kind)
    if plain is None and type(None) in options:
        return None
    present = [option for option in options if option is not type(None)]
    if len(present) == 1:
        return from_plain(present[0], plain, path)
    tag = plain.get("type") if isinstance(plain, dict) else None
    for option in present:
        if getattr(option, "type", None) == tag and tag is not None:
            return from_plain(option, plain, path)
    raise Malformed(f"{path}: unknown type {tag!r}")


def _literal(kind: Any, plain: Any, path: str) -> Any:
    if plain not in typing.get_args(kind) or isinstance(plain, bool):
        raise Malformed(f"{path}: {plain!r} is none of {typing.get_args(kind)}")
    return plain


def _tuple(kind: Any, plain: Any, path: str) -> Any:
    if not isinstance(plain, list):
        raise Malformed(f"{path}: expected a list")
    args = typing.get_args(kind)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(from_plain(args[0], entry, f"{path}[{i}]") for i, entry in enumerate(plain))
    if len(plain) != len(args):
        raise Malformed(f"{path}: expected {len(args)} entries")
    pairs = zip(args, plain, strict=True)
    return tuple(from_plain(arg, entry, f"{path}[{i}]") for i, (arg, entry) in enumerate(pairs))


def _mapping(kind: Any, plain: Any, path: str) -> Any:
    if not isinstance(plain, dict):
        raise Malformed(f"{path}: expected an object")
    value_kind = typing.get_args(kind)[1]
    return {key: from_plain(value_kind, entry, f"{path}.{key}") for key, entry in plain.items()}


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(kind)
    return tuple(
        (
            field.name,
            hints[field.name],
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING,
        )
        for field in dataclasses.fields(kind)
    )


def _record(kind: Any, plain: Any, path: str) -> Any:
    if not isinstance(plain, dict):
        raise Malformed(f"{path}: expected an object")
    values = {}
    for name, hint, required in _fields(kind):
        if name in plain:
            values[name] = from_plain(hint, plain[name], f"{path}.{name}")
        elif required:
            if type(None) not in typing.get_args(hint):
                raise Malformed(f"{path}.{name}: missing")
            values[name] = None
    try:
        return kind(**values)
    except (ValueError, InvalidName) as error:
        raise Malformed(f"{path}: {error}") from None


def _scalar(kind: Any, plain: Any, path: str) -> Any:
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        plain = float(plain) if abs(plain) < MAX_INT else math.inf
    if type(plain) is not kind:
        raise Malformed(f"{path}: expected {getattr(kind, '__name__', kind)}, got {plain!r:.80}")
    if (kind is int and abs(plain) > MAX_INT) or (kind is float and not math.isfinite(plain)):
        raise Malformed(f"{path}: number out of range")
    return plain
