"""The users of this system and their generated secrets, kept in one file in the home folder.

Adds, removes and verifies. The broker and the store learn of a change when they are told
(`reload`) or look again; handing a secret to its device is the operator's work.
"""

from __future__ import annotations

import fcntl
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from broker_config.private_file import make_private_folder, write_private
from wire.errors import InvalidName
from wire.topics import Role
from wire.unwritable import writing_in
from wire.users import FORMAT, User, Users, check_user_name, read_users, write_users

SECRET_NBYTES = 32
FILE_NAME = "credentials.json"


class Credentials:
    """`<home>/credentials.json`; safe to use from several threads and processes."""

    def __init__(self, home: Path) -> None:
        self.path = make_private_folder(home) / FILE_NAME
        self._guard = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._users = Users(FORMAT, ())

    def users(self) -> tuple[User, ...]:
        """All users as the file has them now, in the order they were added."""
        return self._current().users

    def get(self, name: str) -> User | None:
        return self._current().by_name.get(name)

    def need(self, name: str) -> User:
        """The user; `InvalidName` says that there is none."""
        known = self.get(name)
        if known is None:
            raise InvalidName(f"there is no user {name!r}; add it first")
        return known

    def add(self, name: str, role: Role) -> User:
        """The user, made with a fresh secret unless there is one of that name and role.

        Raises `InvalidName` for a name that may not be used, or has another role already, and
        `DiskFull` or `OperatorError` if the file cannot be written.
        """
        try:
            check_user_name(name, role)
        except ValueError as error:
            raise InvalidName(str(error)) from None

        def change(users: tuple[User, ...]) -> tuple[User, ...]:
            known = next((user for user in users if user.name == name), None)
            if known is None:
                return (*users, User(name, role, secrets.token_urlsafe(SECRET_NBYTES)))
            if known.role != role:
                raise InvalidName(f"user {name!r} is a {known.role} already; choose another name")
            return users

        return next(user for user in self._change(change) if user.name == name)

    def remove(self, name: str) -> bool:
        """Forget the user; False if there was none."""
        before = self.get(name)
        self._change(lambda users: tuple(user for user in users if user.name != name))
        return before is not None

    def verify(self, user: str, secret: str) -> Role | None:
        """The user's role, or None if name and secret do not belong together."""
        return self._current().verify(user, secret)

    def _change(self, change: Callable[[tuple[User, ...]], tuple[User, ...]]) -> tuple[User, ...]:
        with self._guard, self._locked():
            before = self._read().users
            after = change(before)
            if after != before:
                write_private(self.path, write_users(Users(FORMAT, after)))
            return after

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, across processes: two may add a user at once."""
        with writing_in(self.path.parent):
            lock = self.path.with_suffix(".lock").open("a")
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _current(self) -> Users:
        with self._guard:
            return self._read()

    def _read(self) -> Users:
        """The file's users; read again only when it was replaced."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._users = None, Users(FORMAT, ())
            return self._users
        stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
        if stamp != self._stamp:
            self._users = read_users(self.path.read_bytes())
            self._stamp = stamp
        return self._users
