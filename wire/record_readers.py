"""Readers: for each type of a record's field, a function that checks what JSON gave for it.

A reader is composed once from the type hints, at first use, and kept: a message then costs one
call a field, and asks `typing` nothing. It returns the value, or raises `Misfit`, which collects
on its way out where in the record that was; a path for what fits is never built. Bytes, limits
and the error that callers see are the work of `wire.record`.

Types that contain themselves are not supported; no message needs one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any

from wire.errors import InvalidName

MAX_INT = (1 << 53) - 1  # what every reader of JSON gives back exactly: RFC 7493, section 2.2
Reader = Callable[[Any], Any]


class Misfit(Exception):
    """A value is not what its type says; `path` leads to it, from the outside in."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self._steps: list[str] = []

    def inside(self, step: str) -> None:
        self._steps.append(step)

    @property
    def path(self) -> str:
        return "".join(reversed(self._steps))


@functools.cache
def reader_of(kind: Any) -> Reader:
    """The reader of a type, made once; several threads may make it at once, to the same effect."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return reader_of(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return _union(typing.get_args(kind))
    maker = _MAKERS.get(origin)
    if maker is not None:
        return maker(typing.get_args(kind))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _record(kind)
    return _SCALARS.get(kind) or _other(kind)


# --- records --------------------------------------------------------------------------------------


def _record(kind: Any) -> Reader:
    fields = _fields(kind)
    make = _maker(kind)

    def read(plain: Any) -> Any:
        if not isinstance(plain, dict):
            raise Misfit("expected an object")
        values: list[Any] = []
        try:
            for name, read_field, absent in fields:
                values.append(read_field(plain[name]) if name in plain else absent())
        except Misfit as misfit:
            misfit.inside(f".{fields[len(values)][0]}")
            raise
        try:
            return make(*values)
        except (ValueError, InvalidName) as error:
            raise Misfit(str(error)) from None

    return read


def _maker(kind: Any) -> Callable[..., Any]:
    """What makes the record of its fields in their order, also where some take no place."""
    fields = dataclasses.fields(kind)
    if not any(field.kw_only for field in fields):
        return typing.cast(Callable[..., Any], kind)
    names = [field.name for field in fields]
    return lambda *values: kind(**dict(zip(names, values, strict=True)))


def _fields(kind: Any) -> tuple[tuple[str, Reader, Callable[[], Any]], ...]:
    """Name and reader of each field in the order of the record's arguments, and what makes up for
    one that is absent."""
    hints = typing.get_type_hints(kind)
    return tuple(
        (field.name, reader_of(hints[field.name]), _absent(field, hints[field.name]))
        for field in dataclasses.fields(kind)
    )


def _absent(field: dataclasses.Field[Any], hint: Any) -> Callable[[], Any]:
    """The default of a field; None where it has none and may be None; else it is missed."""
    if field.default is not dataclasses.MISSING:
        return lambda: field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return _none if type(None) in typing.get_args(hint) else _missed


def _none() -> None:
    return None


def _missed() -> None:
    raise Misfit("missing")


# --- what is made of other types ------------------------------------------------------------------


def _union(options: tuple[Any, ...]) -> Reader:
    present = [option for option in options if option is not type(None)]
    read_one = reader_of(present[0]) if len(present) == 1 else _tagged(present)
    if len(present) == len(options):
        return read_one

    def read(plain: Any) -> Any:
        return None if plain is None else read_one(plain)

    return read


def _tagged(options: list[Any]) -> Reader:
    """Of dataclasses that are told apart by their `type`; the first of a name counts."""
    tags = {option: getattr(option, "type", None) for option in options}
    readers = {
        tag: reader_of(option) for option, tag in reversed(tags.items()) if isinstance(tag, str)
    }

    def read(plain: Any) -> Any:
        tag = plain.get("type") if isinstance(plain, dict) else None
        read_one = readers.get(tag) if isinstance(tag, str) else None
        if read_one is None:
            raise Misfit(f"unknown type {tag!r:.80}")
        return read_one(plain)

    return read


def _literal(options: tuple[Any, ...]) -> Reader:
    def read(plain: Any) -> Any:
        if plain not in options or isinstance(plain, bool):
            raise Misfit(f"{plain!r:.80} is none of {options}")
        return plain

    return read


def _tuple(kinds: tuple[Any, ...]) -> Reader:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return _entries(reader_of(kinds[0]))
    readers = tuple(map(reader_of, kinds))

    def read(plain: Any) -> Any:
        if not isinstance(plain, list):
            raise Misfit("expected a list")
        if len(plain) != len(readers):
            raise Misfit(f"expected {len(readers)} entries")
        found: list[Any] = []
        try:
            for read_one, entry in zip(readers, plain, strict=True):
                found.append(read_one(entry))
        except Misfit as misfit:
            misfit.inside(f"[{len(found)}]")
            raise
        return tuple(found)

    return read


def _entries(read_one: Reader) -> Reader:
    def read(plain: Any) -> Any:
        if not isinstance(plain, list):
            raise Misfit("expected a list")
        found: list[Any] = []
        try:
            for entry in plain:
                found.append(read_one(entry))
        except Misfit as misfit:
            misfit.inside(f"[{len(found)}]")
            raise
        return tuple(found)

    return read


def _mapping(kinds: tuple[Any, ...]) -> Reader:
    read_one = reader_of(kinds[1])

    def read(plain: Any) -> Any:
        if not isinstance(plain, dict):
            raise Misfit("expected an object")
        found = {}
        key = ""
        try:
            for key, entry in plain.items():
                found[key] = read_one(entry)
        except Misfit as misfit:
            misfit.inside(f".{key:.80}")
            raise
        return found

    return read


# --- scalars --------------------------------------------------------------------------------------


def _int(plain: Any) -> Any:
    if type(plain) is not int:
        raise _of_another_type(int, plain)
    if not -MAX_INT <= plain <= MAX_INT:
        raise Misfit("number out of range")
    return plain


def _float(plain: Any) -> Any:
    if type(plain) is int:
        plain = float(plain) if -MAX_INT <= plain <= MAX_INT else math.inf
    if type(plain) is not float:
        raise _of_another_type(float, plain)
    if not math.isfinite(plain):
        raise Misfit("number out of range")
    return plain


def _str(plain: Any) -> Any:
    if type(plain) is not str:
        raise _of_another_type(str, plain)
    return plain


def _bool(plain: Any) -> Any:
    if type(plain) is not bool:
        raise _of_another_type(bool, plain)
    return plain


def _other(kind: Any) -> Reader:
    def read(plain: Any) -> Any:
        if type(plain) is not kind:
            raise _of_another_type(kind, plain)
        return plain

    return read


def _of_another_type(kind: Any, plain: Any) -> Misfit:
    return Misfit(f"expected {getattr(kind, '__name__', kind)}, got {plain!r:.80}")


_SCALARS: dict[Any, Reader] = {int: _int, float: _float, str: _str, bool: _bool}
_MAKERS: dict[Any, Callable[[tuple[Any, ...]], Reader]] = {
    typing.Literal: _literal,
    tuple: _tuple,
    dict: _mapping,
}
