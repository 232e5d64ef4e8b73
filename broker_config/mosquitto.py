"""Mosquitto as a child process, with our own configuration.

Writes the configuration, the passwords and the access list into `<home>/broker`, starts the
program and returns once it lets a user in. Everything it says is in `<home>/broker/broker.log`.
Always with credentials and the access list, on loopback too.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import time
from pathlib import Path

from broker_config.access import access_list
from broker_config.child import Child
from broker_config.configuration import (
    DEFAULT_LIMITS,
    BrokerLimits,
    Files,
    Listener,
    configuration,
)
from broker_config.credentials import Credentials
from broker_config.knock import knock
from broker_config.password_file import password_file
from broker_config.port import free_port, reachable_host
from broker_config.private_file import make_private_folder, write_private
from broker_config.url import BrokerUrl
from wire.errors import BrokerUnreachable, PortTaken, Refused, UserError
from wire.topics import Topics

PROGRAM = "mosquitto"
START_LIMIT_S = 10.0
RELOAD_LIMIT_S = 10.0
POLL_S = 0.02
PORT_ATTEMPTS = 8
# Not a name that a user can have, and without rights: we knock as it to see that the broker is
# up, and with a fresh secret to see that it has read the new files.
DOORKEEPER = "_doorkeeper"


def find_mosquitto() -> Path | None:
    """The Mosquitto on the PATH."""
    found = shutil.which(PROGRAM)
    return None if found is None else Path(found)


class MosquittoBroker:
    """One Mosquitto. `port` 0 takes a free one, which is kept over a restart."""

    name = PROGRAM

    def __init__(
        self,
        home: Path,
        credentials: Credentials,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        device_port: int | None = None,
        topics: Topics | None = None,
        limits: BrokerLimits = DEFAULT_LIMITS,
        program: Path | None = None,
    ) -> None:
        self._files = Files(make_private_folder(home / "broker").resolve())
        self._credentials = credentials
        self._listener = Listener(host, port, device_port)
        self._topics = Topics() if topics is None else topics
        self._limits = limits
        self._program = program or find_mosquitto() or Path(PROGRAM)
        self._child: Child | None = None
        self._secret = ""

    @property
    def host(self) -> str:
        return reachable_host(self._listener.host)

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def url(self) -> BrokerUrl:
        return BrokerUrl(self.host, self.port)

    @property
    def device_url(self) -> BrokerUrl:
        """The devices' own door where there is one, else the common one."""
        return BrokerUrl(self.host, self._listener.device_port or self.port)

    @property
    def packet_limit_nbytes(self) -> int | None:
        return self._limits.packet_nbytes

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def log(self) -> Path:
        return self._files.log

    def url_for(self, user: str) -> BrokerUrl:
        known = self._credentials.get(user)
        if known is None:
            raise UserError(f"there is no user {user!r}; add it first")
        where = self.device_url if known.role == "device" else self.url
        return where.login(user, known.secret)

    def describe(self) -> str:
        return f"Mosquitto ({self._program}) at {self.url.shown}, its log in {self.log}"

    def start(self) -> None:
        if self._child is not None and self._child.exit_code is None:
            return
        if self.port != 0:
            self._start_once()
            return
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self._listener = self._on_port(free_port(self._listener.host))
            try:
                self._start_once()
                return
            except PortTaken:
                self._listener = self._on_port(0)
                if attempt == PORT_ATTEMPTS:
                    raise

    def _on_port(self, port: int) -> Listener:
        return Listener(self._listener.host, port, self._listener.device_port)

    def _start_once(self) -> None:
        account = pwd.getpwuid(os.getuid()).pw_name
        text = configuration(self._listener, self._files, account, self._limits)
        write_private(self._files.configuration, text.encode())
        self._write_users()
        child = Child([str(self._program), "-c", str(self._files.configuration)], self.log)
        child.start()
        try:
            self._await_start(child)
        except BaseException:
            child.stop()
            raise
        self._child = child

    def _write_users(self) -> None:
        """Passwords and access list of the users as they are now."""
        users = self._credentials.users()
        self._secret = secrets.token_urlsafe()
        secret_of = {user.name: user.secret for user in users} | {DOORKEEPER: self._secret}
        write_private(self._files.access_list, access_list(users, self._topics).encode())
        write_private(self._files.passwords, password_file(secret_of).encode())

    def _await_start(self, child: Child) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not child.wait(POLL_S):
            if self._lets_us_in():
                return
            if time.monotonic() > deadline:
                raise BrokerUnreachable(
                    f"Mosquitto did not let anyone in within {START_LIMIT_S:g} s; see {self.log}"
                )
        raise self._why_it_ended(child)

    def _lets_us_in(self) -> bool:
        try:
            knock(self.url.login(DOORKEEPER, self._secret), limit_s=2.0)
        except (BrokerUnreachable, Refused):
            return False
        return True

    def _why_it_ended(self, child: Child) -> Exception:
        said = child.output().strip()
        if "Address already in use" in said:
            return PortTaken(
                f"port {self.port} on {self._listener.host} is taken by another program; "
                "stop that one or choose another port"
            )
        last = said.splitlines()[-1] if said else "it said nothing"
        return BrokerUnreachable(
            f"Mosquitto ended at once (code {child.exit_code}): {last}; see {self.log}"
        )

    def reload(self) -> None:
        """Have Mosquitto read the users again; connections of users that stay are kept."""
        child = self._running()
        self._write_users()
        child.signal(signal.SIGHUP)
        deadline = time.monotonic() + RELOAD_LIMIT_S
        while not self._lets_us_in():
            if child.wait(POLL_S):
                raise self._why_it_ended(child)
            if time.monotonic() > deadline:
                raise BrokerUnreachable(
                    f"Mosquitto did not take the new users within {RELOAD_LIMIT_S:g} s; "
                    f"see {self.log}"
                )

    def _running(self) -> Child:
        if self._child is None or self._child.exit_code is not None:
            raise BrokerUnreachable("Mosquitto is not running; start it first")
        return self._child

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None

    def __enter__(self) -> MosquittoBroker:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
