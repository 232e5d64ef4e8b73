"""An embedded broker for machines without Mosquitto: `iotcore` from the package index.

Speaks MQTT 5 (and nothing older here), runs as a child process, listens where it is told. What
it does, tried against version 0.4.0: logins, QoS 1, retained messages and clearing them, last
wills, user properties and content types, message expiry, wildcards, taking over a client id.

What it does not, so that nobody relies on it:

- It has no access list: whoever has a login may read and write everything.
- It keeps no session of a client that is away: what was sent meanwhile is lost, and a resumed
  session's subscriptions are too. The protocol mends that; it just takes longer.
- It announces no limits (packet size, receive maximum): ask `packet_limit_nbytes`.
- A wrong login is answered by closing the connection, not by a reason code.
- It learns of users only when it starts: `reload` restarts it, which ends all connections and
  forgets what was retained. Add all users before `start` where you can.
- It writes nothing to disk.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker_config import embedded_child
from broker_config.child_process import Child
from broker_config.credentials import Credentials
from broker_config.doorkeeper import DOORKEEPER, doorkeeper_secret
from broker_config.launch import START_LIMIT_S, await_welcome, on_a_port
from broker_config.port import reachable_host
from broker_config.private_file import make_private_folder, write_private
from broker_config.url import BrokerUrl
from wire.errors import BrokerUnreachable

PACKAGE = "iotcore"
TITLE = "the embedded broker"


def embedded_is_there() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


@dataclass(frozen=True, slots=True)
class EmbeddedLimits:
    """What the broker holds. A larger payload closes its sender's connection. Each topic filter
    that somebody subscribed to has a log of `segments` times `segment_nbytes`, which stays in
    memory after delivery (measured: up to 1.8 times as much); who falls behind by more loses the
    oldest messages, without a word. Credits in the protocol keep readers far from that."""

    payload_nbytes: int = 8 << 20
    connections: int = 1000
    inflight_messages: int = 100
    segment_nbytes: int = 8 << 20
    segments: int = 8


DEFAULT_LIMITS = EmbeddedLimits()


def embedded_configuration(
    host: str, port: int, secret_of: Mapping[str, str], limits: EmbeddedLimits = DEFAULT_LIMITS
) -> str:
    """The broker's TOML file."""
    address = f"[{host}]:{port}" if ":" in host else f"{host or '0.0.0.0'}:{port}"
    logins = "".join(
        f"{json.dumps(name)} = {json.dumps(secret)}\n" for name, secret in secret_of.items()
    )
    return f"""# Generated; changes are overwritten.
id = 0

[router]
id = 0
max_connections = {limits.connections}
max_outgoing_packet_count = 200
max_segment_size = {limits.segment_nbytes}
max_segment_count = {limits.segments}

[v5.1]
name = "crowdpipe"
listen = "{address}"
next_connection_delay_ms = 1

[v5.1.connections]
connection_timeout_ms = 10000
max_payload_size = {limits.payload_nbytes}
max_inflight_count = {limits.inflight_messages}
dynamic_filters = true

[v5.1.connections.auth]
{logins}"""


class EmbeddedBroker:
    """One embedded broker. `port` 0 takes a free one, which is kept over a restart."""

    name = "embedded"

    def __init__(
        self,
        home: Path,
        credentials: Credentials,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        limits: EmbeddedLimits = DEFAULT_LIMITS,
    ) -> None:
        self._folder = make_private_folder(home / "broker").resolve()
        self._credentials = credentials
        self._host = host
        self._port = port
        self._limits = limits
        self._child: Child | None = None
        self._known: dict[str, str] = {}

    @property
    def host(self) -> str:
        return reachable_host(self._host)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> BrokerUrl:
        return BrokerUrl(self.host, self._port)

    @property
    def outside(self) -> BrokerUrl:
        return self.url

    @property
    def packet_limit_nbytes(self) -> int | None:
        return self._limits.payload_nbytes

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def log(self) -> Path:
        return self._folder / "broker.log"

    def url_for(self, user: str) -> BrokerUrl:
        return self.url.login(user, self._credentials.need(user).secret)

    def describe(self) -> str:
        version = importlib.metadata.version(PACKAGE)
        return (
            f"the embedded broker ({PACKAGE} {version}) at {self.url.shown}: good for trying; it "
            "has no access list and keeps nothing on disk, so put Mosquitto on the PATH for use"
        )

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.exit_code is None

    def start(self) -> None:
        if self.running:
            return
        if not embedded_is_there():
            raise BrokerUnreachable(
                f"{TITLE} is not installed: pip install {PACKAGE}, or install Mosquitto"
            )
        self._child = on_a_port(self._host, self._port, self._start_on)

    def _start_on(self, port: int) -> Child:
        users = self._credentials.users()
        known = {user.name: user.secret for user in users}
        secret_of = known | {DOORKEEPER: doorkeeper_secret(users)}
        path = self._folder / "embedded.toml"
        text = embedded_configuration(self._host, port, secret_of, self._limits)
        write_private(path, text.encode())
        door = BrokerUrl(self.host, port).login(DOORKEEPER, secret_of[DOORKEEPER])
        child = Child([sys.executable, "-P", embedded_child.__file__, str(path)], self.log)
        child.start()
        try:
            await_welcome(child, door, TITLE, self.log, START_LIMIT_S)
        except BaseException:
            child.stop()
            raise
        self._port, self._known = port, known
        return child

    def _logins(self) -> dict[str, str]:
        return {user.name: user.secret for user in self._credentials.users()}

    def reload(self) -> None:
        """Restart with the users as they are now; nothing happens if they are the same."""
        self._running()
        if self._logins() != self._known:
            self.stop()
            self.start()

    def _running(self) -> Child:
        if self._child is None or not self.running:
            raise BrokerUnreachable(f"{TITLE} is not running; start it first")
        return self._child

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
