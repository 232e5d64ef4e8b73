"""The file of users that the broker's configuration and the model store share.

Says what a user is and how the list is written; keeping the file and its mode is
`broker_config.credentials`' work. The secret stands in the clear, because whoever runs the
system has to hand it to the device; the file therefore belongs to its owner alone (0600).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import cached_property

from wire.ids import check_name
from wire.record import decode, encode
from wire.topics import ORCHESTRATOR, Role

FORMAT = 1


@dataclass(frozen=True, slots=True)
class User:
    """Who may connect: a device's user name is its device name."""

    name: str
    role: Role
    secret: str

    def __post_init__(self) -> None:
        check_user_name(self.name, self.role)
        if not self.secret:
            raise ValueError(f"user {self.name!r} has no secret")

    def __repr__(self) -> str:
        return f"User({self.name!r}, {self.role!r})"


@dataclass(frozen=True)
class Users:
    format: int
    users: tuple[User, ...]

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"users of format {self.format}; this program reads {FORMAT}")
        if len(self.by_name) != len(self.users):
            raise ValueError("a user name appears twice")

    @cached_property
    def by_name(self) -> dict[str, User]:
        return {user.name: user for user in self.users}

    def verify(self, name: str, secret: str) -> Role | None:
        """The role of `name` if `secret` is theirs, in a time that does not tell how wrong."""
        user = self.by_name.get(name)
        if user is None or not hmac.compare_digest(user.secret.encode(), secret.encode()):
            return None
        return user.role


def check_user_name(name: str, role: Role) -> str:
    """`name` itself; only the orchestrator may bear the reserved name, and it must."""
    if role == "orchestrator" and name == ORCHESTRATOR:
        return name
    if role == "orchestrator":
        raise ValueError(f"the orchestrator's user name is {ORCHESTRATOR!r}, not {name!r}")
    return check_name(name, "user name")


def read_users(data: bytes) -> Users:
    """Users from the file's bytes; `Malformed` says which field is wrong."""
    users: Users = decode(Users, data)
    return users


def write_users(users: Users) -> bytes:
    return encode(users, indent=2) + b"\n"
