"""Who may read and who may write the store: roles, and HTTP Basic credentials."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from pathlib import Path

from wire.errors import Refused
from wire.topics import Role
from wire.users import Users, read_users

Authorise = Callable[[str, str], Role | None]
"""`(user, password)` to a role, or None if they do not belong together."""

READERS: frozenset[Role] = frozenset({"device", "client", "orchestrator"})
WRITERS: frozenset[Role] = frozenset({"orchestrator"})


class Unauthorised(Refused):
    """No credentials, or wrong ones."""


def user_of(header: str | None, authorise: Authorise) -> tuple[str, Role]:
    """Name and role behind an `Authorization` header; `Unauthorised` if there are none."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        raise Unauthorised("the store asks for a user name and secret (HTTP Basic)")
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise Unauthorised("the credentials cannot be read (HTTP Basic, base64)") from None
    role = authorise(user, password)
    if role is None:
        raise Unauthorised("the store refused the user name or secret")
    return user, role


def check_may(role: Role, allowed: frozenset[Role], what: str) -> None:
    if role not in allowed:
        raise Refused(f"a {role} may not {what}; {', '.join(sorted(allowed))} may")


class UsersFile:
    """The file of users, looked at at each request, so that a new user is known, and read when it
    was replaced: with 10,000 users reading takes 70 ms, many times what a small blob does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[tuple[int, int, int], Users] | None = None  # replaced as one: threads

    def authorise(self, user: str, password: str) -> Role | None:
        return self._users().verify(user, password)

    def _users(self) -> Users:
        status = self._path.stat()
        stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        read = self._read
        if read is None or read[0] != stamp:
            read = self._read = (stamp, read_users(self._path.read_bytes()))
        return read[1]
