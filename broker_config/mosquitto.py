"""Mosquitto as a child process, with our own configuration.

Writes the configuration, the passwords and the access list into `<home>/broker`, starts the
program and returns once it lets a user in. Everything it says is in `<home>/broker/broker.log`.
Always with credentials and the access list, on loopback too.

With a certificate it speaks TLS on its port, and plainly on another that only this machine reaches:
every frame passes the orchestrator twice, and TLS would take a third of what the broker can carry
(measured) to hide it from nobody.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
from dataclasses import replace
from pathlib import Path

from broker_config.access import access_list
from broker_config.child_process import Child
from broker_config.configuration import (
    DEFAULT_LIMITS,
    LOOPBACK,
    BrokerLimits,
    Files,
    Listener,
    configuration,
)
from broker_config.credentials import Credentials
from broker_config.doorkeeper import DOORKEEPER, doorkeeper_secret
from broker_config.launch import START_LIMIT_S, await_welcome, on_a_port
from broker_config.password_file import password_file
from broker_config.port import free_port, port_is_free, reachable_host
from broker_config.private_file import make_private_folder, write_private
from broker_config.url import BrokerUrl
from wire.errors import BrokerUnreachable
from wire.topics import Topics

PROGRAM = "mosquitto"
TITLE = "Mosquitto"


def find_mosquitto() -> Path | None:
    """The Mosquitto on the PATH."""
    found = shutil.which(PROGRAM)
    return None if found is None else Path(found)


class MosquittoBroker:
    """One Mosquitto. `port` 0 takes a free one, which is kept over a restart. `certificate` is a
    file of chain and key."""

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
        certificate: Path | None = None,
    ) -> None:
        self._files = Files(make_private_folder(home / "broker").resolve())
        self._credentials = credentials
        self._listener = Listener(host, port, device_port, certificate)
        self._topics = Topics() if topics is None else topics
        self._limits = limits
        self._program = program or find_mosquitto() or Path(PROGRAM)
        self._child: Child | None = None

    @property
    def host(self) -> str:
        return reachable_host(self._listener.host)

    @property
    def port(self) -> int:
        return self._listener.port

    @property
    def url(self) -> BrokerUrl:
        return _door(self._listener)

    @property
    def outside(self) -> BrokerUrl:
        return BrokerUrl(self.host, self.port, tls=self._listener.certificate is not None)

    @property
    def device_url(self) -> BrokerUrl:
        """The devices' own door where there is one, else the common one."""
        return replace(self.outside, port=self._listener.device_port or self.port)

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
        known = self._credentials.need(user)
        own = known.role == "device" and self._listener.device_port is not None
        where = self.device_url if own else self.url
        return where.login(user, known.secret)

    def describe(self) -> str:
        return f"{TITLE} ({self._program}) at {self.outside.shown}, its log in {self.log}"

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.exit_code is None

    def start(self) -> None:
        if not self.running:
            self._child = on_a_port(self._listener.host, self.port, self._start_on)

    def _start_on(self, port: int) -> Child:
        listener = replace(self._listener, port=port, inside_port=self._inside_port(port))
        account = pwd.getpwuid(os.getuid()).pw_name
        text = configuration(listener, self._files, account, self._limits)
        write_private(self._files.configuration, text.encode())
        door = _door(listener).login(DOORKEEPER, self._write_users())
        child = Child([str(self._program), "-c", str(self._files.configuration)], self.log)
        child.start()
        try:
            await_welcome(child, door, TITLE, self.log, START_LIMIT_S)
        except BaseException:
            child.stop()
            raise
        self._listener = listener
        self._remember(listener.inside_port)
        return child

    def _inside_port(self, port: int) -> int | None:
        """The same as before where that can be, so that programs here find it again."""
        if self._listener.certificate is None:
            return None
        try:
            known = int(self._files.inside_port.read_text())
        except (OSError, ValueError):
            known = port
        if known != port and port_is_free(LOOPBACK, known):
            return known
        return free_port(LOOPBACK)

    def _remember(self, inside_port: int | None) -> None:
        if inside_port is not None:
            write_private(self._files.inside_port, b"%d\n" % inside_port)

    def _write_users(self) -> str:
        """Passwords and access list of the users as they are now; the doorkeeper's secret."""
        users = self._credentials.users()
        secret = doorkeeper_secret(users)
        secret_of = {user.name: user.secret for user in users} | {DOORKEEPER: secret}
        rights = access_list(users, self._topics, outsiders=(DOORKEEPER,))
        write_private(self._files.access_list, rights.encode())
        write_private(self._files.passwords, password_file(secret_of, self._passwords()).encode())
        return secret

    def _passwords(self) -> str:
        """The file as it was left."""
        try:
            return self._files.passwords.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def reload(self) -> None:
        """Have Mosquitto read the users again; connections of users that stay are kept."""
        child = self._running()
        door = self.url.login(DOORKEEPER, self._write_users())
        child.signal(signal.SIGHUP)
        await_welcome(child, door, TITLE, self.log, START_LIMIT_S)

    def _running(self) -> Child:
        if self._child is None or not self.running:
            raise BrokerUnreachable(f"{TITLE} is not running; start it first")
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


def _door(listener: Listener) -> BrokerUrl:
    """Where the desk itself knocks."""
    if listener.inside_port is not None:
        return BrokerUrl(LOOPBACK, listener.inside_port)
    return BrokerUrl(reachable_host(listener.host), listener.port)
