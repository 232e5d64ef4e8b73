"""The text of `mosquitto.conf`, for Mosquitto 2.0 and 2.1.

Uses `acl_file` and `password_file`, which 2.1 deprecates and still obeys, because 2.0 has
nothing else. Writes no file and starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wire.errors import InvalidName

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """What the broker holds, and what happens beyond.

    A larger packet closes its sender's connection; the limit is announced in CONNACK. Messages
    beyond a session's queue are dropped by Mosquitto without a word, which the protocol mends
    (the orchestrator has them sent again); its default of 1,000 is reached in ordinary use.
    A session that nobody resumes is forgotten after `session_expiry`, whatever it asked for.
    """

    packet_nbytes: int = 8 << 20
    queued_messages: int = 1_000_000
    queued_nbytes: int = 512 << 20
    inflight_messages: int = 100
    session_expiry: str = "1d"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the broker listens. `device_port` is a second door for devices alone: there the
    client id is the user name, so that no device can disconnect another by claiming its id.
    On the first door, where one user has several sessions, it could (though never read or write
    in the other's name).

    With `certificate` (a file that holds chain and key) these speak TLS alone, and `inside_port` is
    a plain door on loopback for the desk itself."""

    host: str
    port: int
    device_port: int | None = None
    certificate: Path | None = None
    inside_port: int | None = None


@dataclass(frozen=True, slots=True)
class Files:
    """What the configuration refers to, all in one folder."""

    folder: Path

    def __post_init__(self) -> None:
        text = str(self.folder)
        if not text.isprintable() or text != text.strip():
            raise InvalidName(f"the broker's folder {text!r} has characters Mosquitto cannot read")

    @property
    def configuration(self) -> Path:
        return self.folder / "mosquitto.conf"

    @property
    def passwords(self) -> Path:
        return self.folder / "passwords"

    @property
    def access_list(self) -> Path:
        return self.folder / "access"

    @property
    def inside_port(self) -> Path:
        """The plain door's port, as it was last."""
        return self.folder / "inside-port"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"


DEFAULT_LIMITS = BrokerLimits()


def configuration(
    listener: Listener, files: Files, run_as: str, limits: BrokerLimits = DEFAULT_LIMITS
) -> str:
    """The whole file. `run_as` is the account Mosquitto changes to when it starts as root: the
    one that owns `files`, since by default it would become one that cannot read them."""
    lines = [
        "# Generated; changes are overwritten.",
        "allow_anonymous false",
        f"password_file {files.passwords}",
        f"acl_file {files.access_list}",
        f"user {run_as}",
        # Without it a small QoS 1 round trip takes 88 ms instead of 0.2 ms (measured).
        "set_tcp_nodelay true",
        f"max_packet_size {limits.packet_nbytes}",
        f"max_queued_messages {limits.queued_messages}",
        f"max_queued_bytes {limits.queued_nbytes}",
        f"max_inflight_messages {limits.inflight_messages}",
        f"persistent_client_expiration {limits.session_expiry}",
        # Written at an orderly stop and now and then; after a kill, agents say again what they
        # hold. Saving at every change costs two thirds of the throughput (measured).
        "persistence true",
        f"persistence_location {files.folder}/",
        "autosave_interval 300",
        # To stderr, which is a file here: stdout would be buffered.
        "log_dest stderr",
        *(f"log_type {kind}" for kind in ("error", "warning", "notice")),
        *_listener_lines(listener),
    ]
    return "\n".join(lines) + "\n"


def _listener_lines(listener: Listener) -> list[str]:
    secured = _tls_lines(listener.certificate)
    lines = [f"listener {listener.port} {listener.host}", *secured]
    if listener.device_port is not None:
        lines += [f"listener {listener.device_port} {listener.host}", *secured]
        lines.append("use_username_as_clientid true")
    if listener.inside_port is not None:
        lines.append(f"listener {listener.inside_port} {LOOPBACK}")
    return lines


def _tls_lines(certificate: Path | None) -> list[str]:
    """Of one listener. `tlsv1.2` is the least: 1.3 is spoken with whoever can."""
    if certificate is None:
        return []
    return [f"certfile {certificate}", f"keyfile {certificate}", "tls_version tlsv1.2"]
