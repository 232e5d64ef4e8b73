"""Whom we believe at the other end of a TLS connection: one authority, or those the system knows.

An address names its authority by a file or by a fingerprint. With a fingerprint the authority's
certificate is fetched first, over a connection that verifies nothing and over which nothing is
said, from the chain that the server shows; what has another digest is not believed. All that is
said goes over later connections, which verify the server's certificate and its address against
that authority and no other. `ssl` is loaded by whoever asks for a context, not by importing this.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wire.authority import fingerprint_of, is_fingerprint
from wire.broker_url import BrokerUrl
from wire.errors import InvalidSettings, Untrusted

if TYPE_CHECKING:
    import ssl

LOOK_LIMIT_S = 5.0
PRIVATE = 0o600
NOT_YET_VALID, ENDED, OTHER_NAME, OTHER_ADDRESS = 9, 10, 62, 64  # as OpenSSL numbers them
NO_TLS_THERE = (
    "what answers there does not speak TLS; check the port, or write mqtt:// for a broker without"
)
ONLY_TLS_THERE = (
    "what answers there speaks TLS alone; write mqtts://, as in the line that `crowdpipe device "
    "add` or `crowdpipe user add` prints on the desk"
)
_NO_TLS = frozenset(  # as one OpenSSL and another call an answer that is none
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"}
)
_PEM_BEGIN = "-----BEGIN CERTIFICATE-----"


class Trust:
    """In `authority`, a file or a fingerprint; None: in those the system knows. An authority that
    was fetched is kept in the file `kept`. Safe to use from several threads."""

    def __init__(self, authority: str | None, kept: Path | None = None) -> None:
        self._authority = authority
        self._kept = kept
        self._guard = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._known = False

    @property
    def context(self) -> ssl.SSLContext:
        """Always the same. Until `learn` has returned, nobody is believed. Raises
        `InvalidSettings` if the authority's file is none."""
        with self._guard:
            if self._context is None:
                self._context = self._made()
            return self._context

    def learn(self, host: str, port: int) -> None:
        """Return once the authority is known; the server there may be asked for it. Waits. Raises
        `Untrusted` if it shows another, and `OSError`."""
        context = self.context
        with self._guard:
            if self._known or self._authority is None:
                return
            certificate = self._from_kept() or self._shown_by(host, port)
            context.load_verify_locations(cadata=certificate)
            self._known = True

    def _made(self) -> ssl.SSLContext:
        import ssl

        if self._authority is None:
            return ssl.create_default_context()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies, and checks the address
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not is_fingerprint(self._authority):
            _load(context, Path(self._authority))
            self._known = True
        return context

    def _from_kept(self) -> bytes | None:
        """What was fetched once, if it is what the address names now."""
        import ssl

        if self._kept is None:
            return None
        try:
            certificate = ssl.PEM_cert_to_DER_cert(self._kept.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return certificate if fingerprint_of(certificate) == self._authority else None

    def _shown_by(self, host: str, port: int) -> bytes:
        shown = {fingerprint_of(each): each for each in _chain_of(host, port)}
        certificate = shown.get(self._authority or "")
        if certificate is None:
            raise Untrusted(
                f"who answers at {host}:{port} shows another authority than the address names: it "
                "is another desk, or somebody in between; if the desk's home was made anew, use "
                "the line that `crowdpipe device add` or `crowdpipe user add` prints there now"
            )
        if self._kept is not None:
            _keep(self._kept, certificate)
        return certificate

    def explained(self, error: Exception, where: str, host: str) -> Untrusted | None:
        """Why the server at `where` is not believed, if that is what the error says."""
        import ssl

        if not isinstance(error, ssl.SSLCertVerificationError):
            return None
        return Untrusted(f"{where}: {self._doubt(error, host)}")

    def _doubt(self, error: ssl.SSLCertVerificationError, host: str) -> str:
        if error.verify_code in (ENDED, NOT_YET_VALID):
            when = "has ended" if error.verify_code == ENDED else "is not valid yet"
            return (
                f"its certificate {when}, by the clock here: set date and time right, and start "
                "`crowdpipe up` there again, which renews a certificate that ends"
            )
        if error.verify_code in (OTHER_NAME, OTHER_ADDRESS):
            return (
                f"its certificate is not for {host}: use an address or name of the desk's own, as "
                "`crowdpipe device add` prints it there; for a new one, start `crowdpipe up` again"
            )
        if self._authority is None:
            return (
                f"no authority that this system knows has signed its certificate "
                f"({error.verify_message}): name it, by --authority FILE, CROWDPIPE_AUTHORITY or "
                "the address that the desk prints"
            )
        return (
            f"another authority than the one named to us has signed its certificate "
            f"({error.verify_message}): it is another desk, or somebody in between; if the desk's "
            "home was made anew, use the line that `crowdpipe device add` prints there now"
        )


def told_elsewhere(url: BrokerUrl) -> BrokerUrl:
    """An authority's file is of no use on another machine: its fingerprint is. Raises
    `InvalidSettings`."""
    import ssl

    if url.authority is None or is_fingerprint(url.authority):
        return url
    try:
        certificate = ssl.PEM_cert_to_DER_cert(Path(url.authority).read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise _unusable(url.authority, error) from None
    return replace(url, authority=fingerprint_of(certificate))


def is_no_tls(error: Exception) -> bool:
    """Whether a handshake failed in the ways of one who speaks no TLS: an answer that is none, or
    the connection closed on our first words."""
    import ssl

    closed = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError)
    return isinstance(error, closed) or getattr(error, "reason", None) in _NO_TLS


def _load(context: ssl.SSLContext, file: Path) -> None:
    try:
        context.load_verify_locations(cafile=file)
    except OSError as error:  # which an `SSLError` is
        raise _unusable(file, error) from None


def _unusable(file: Path | str, error: Exception) -> InvalidSettings:
    return InvalidSettings(
        f"the authority {file} cannot be used ({getattr(error, 'strerror', None) or error}); give "
        "the file tls/authority.pem of the desk's home"
    )


def _chain_of(host: str, port: int) -> list[bytes]:
    """The certificates that a server shows, in DER; whoever it is. Nothing is said to it."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection((host, port), LOOK_LIMIT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as link,
    ):
        return _unverified_chain(link)


def _unverified_chain(link: Any) -> list[bytes]:
    """Python says it from 3.13 on. 3.11 and 3.12 know it inside, and change no more."""
    if hasattr(link, "get_unverified_chain"):
        return list(link.get_unverified_chain())
    inside: Any = getattr(link, "_sslobj", None)
    if not hasattr(inside, "get_unverified_chain"):
        raise Untrusted(
            "this Python cannot tell which authority a server shows: give its file, by --authority "
            "FILE or CROWDPIPE_AUTHORITY"
        )
    import ssl

    texts = [each.public_bytes() for each in inside.get_unverified_chain() or ()]  # PEM
    return [ssl.PEM_cert_to_DER_cert(text) for text in texts if _PEM_BEGIN in text]


def _keep(path: Path, certificate: bytes) -> None:
    """Without it, the next start asks again: no reason to end."""
    import ssl

    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(ssl.DER_cert_to_PEM_cert(certificate))
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
