"""Who may read and who may write the store: roles, and HTTP Basic credentials."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from pathlib import Path

from wire.errors import Refused
from wire.topics import Role
from wire.users import read_users

Authorise = Callable[[str, str], Role | None]
"""`(user, password)` to a role, or None if they do not belong together."""

READERS: frozenset[Role] = frozenset({"device", "client", "orchestrator"})
WRITERS: frozenset[Role] = frozenset({"orchestrator"})


class Unauthorised(Refused):
    """No credentials, or wrong ones."""


def role_of(header: str | None, authorise: Authorise) -> Role:
    """The role behind an `Authorization` header; `Unauthorised` if there is none."""
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
    return role


def check_may(role: Role, allowed: frozenset[Role], what: str) -> None:
    if role not in allowed:
        raise Refused(f"a {role} may not {what}; {', '.join(sorted(allowed))} may")


def authorise_by_file(path: Path) -> Authorise:
    """Ask the file of users at `path`, again at each request, so that a new user is known."""
    return lambda user, password: read_users(path.read_bytes()).verify(user, password)
