"""Whom we believe over TLS: a server with a certificate of the named authority, for its address."""

from __future__ import annotations

import datetime
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bus import trust as module
from bus.tls_probe import speaks_tls
from bus.trust import Trust, is_no_tls, told_elsewhere
from crowdpipe.serving.certificates import SERVER_DAYS, Certificates
from wire.broker_url import BrokerUrl
from wire.errors import InvalidSettings, Untrusted

HOST = "127.0.0.1"
LIMIT_S = 5.0
LONG_AGO = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2 * SERVER_DAYS)
SOON = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=9)


@contextmanager
def door(certificates: Certificates | None) -> Iterator[int]:
    """A port that shakes hands with whoever comes; without certificates, one that hangs up."""
    context = None
    if certificates is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server)
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                link.settimeout(LIMIT_S)
                with link, suppress(OSError):
                    if context is None:
                        link.recv(1)
                        continue
                    with context.wrap_socket(link, server_side=True) as secured:
                        secured.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(LIMIT_S)


@pytest.fixture
def desk(tmp_path: Path) -> Certificates:
    made = Certificates.of(tmp_path / "desk")
    made.ensure([HOST])
    return made


def shake(trust: Trust, port: int, host: str = HOST) -> None:
    """As every client of ours does it."""
    try:
        trust.learn(host, port)
        with (
            socket.create_connection((host, port), LIMIT_S) as plain,
            trust.context.wrap_socket(plain, server_hostname=host),
        ):
            pass
    except OSError as error:
        raise trust.explained(error, "the desk", host) or error from None


def test_a_desk_is_believed_by_its_authoritys_file_or_fingerprint(desk: Certificates):
    with door(desk) as port:
        shake(Trust(str(desk.authority)), port)
        shake(Trust(desk.fingerprint), port)


def test_an_authority_that_was_fetched_is_kept_and_not_asked_for_again(
    desk: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kept = tmp_path / "authority.pem"
    with door(desk) as port:
        shake(Trust(desk.fingerprint, kept), port)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        monkeypatch.setattr(module, "_chain_of", lambda *_: pytest.fail("it is known"))
        shake(Trust(desk.fingerprint, kept), port)


def test_what_is_kept_does_not_count_for_another_fingerprint(desk: Certificates, tmp_path: Path):
    other = Certificates.of(tmp_path / "other")
    other.ensure([HOST])
    kept = tmp_path / "authority.pem"
    kept.write_bytes(other.authority.read_bytes())
    with door(desk) as port:
        shake(Trust(desk.fingerprint, kept), port)
    assert kept.read_bytes() == desk.authority.read_bytes()


def test_another_authority_is_refused_by_fingerprint_file_and_by_the_systems_own(
    desk: Certificates, tmp_path: Path
):
    other = Certificates.of(tmp_path / "other")
    other.ensure([HOST])
    with door(desk) as port:
        for authority in (other.fingerprint, str(other.authority)):
            with pytest.raises(Untrusted, match=r"another authority .*another desk"):
                shake(Trust(authority), port)
        with pytest.raises(Untrusted, match="name it, by --authority"):
            shake(Trust(None), port)


def test_whoever_shows_the_authority_without_having_its_signature_is_refused(
    desk: Certificates, tmp_path: Path
):
    """Its certificate is no secret: every desk shows it to all."""
    thief = Certificates.of(tmp_path / "thief")
    thief.ensure([HOST])
    pems = thief.server.read_text().split("-----BEGIN ")
    shown = [pems[0], pems[1], desk.authority.read_text().removeprefix("-----BEGIN "), pems[-1]]
    thief.server.write_text("-----BEGIN ".join(shown))
    with door(thief) as port, pytest.raises(Untrusted, match="another authority than"):
        shake(Trust(desk.fingerprint), port)


def test_a_certificate_for_other_addresses_is_refused(tmp_path: Path):
    away = Certificates.of(tmp_path)
    away.ensure(["192.0.2.1", "desk.example"])
    with door(away) as port:
        with pytest.raises(Untrusted, match=r"not for 127.0.0.1: use an address or name"):
            shake(Trust(away.fingerprint), port)
        with pytest.raises(Untrusted, match="not for localhost"):
            shake(Trust(away.fingerprint), port, "localhost")


@pytest.mark.parametrize(("made_at", "word"), [(LONG_AGO, "has ended"), (SOON, "not valid yet")])
def test_a_certificate_of_another_time_is_told_as_such(
    tmp_path: Path, made_at: datetime.datetime, word: str
):
    made = Certificates.of(tmp_path)
    made.ensure([HOST], datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1))
    made._make_server([HOST], made_at)
    with door(made) as port, pytest.raises(Untrusted, match=f"{word}.*set date and time right"):
        shake(Trust(made.fingerprint), port)


def test_until_the_authority_is_known_nobody_is_believed(desk: Certificates):
    with (
        door(desk) as port,
        socket.create_connection((HOST, port), LIMIT_S) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        Trust(desk.fingerprint).context.wrap_socket(plain, server_hostname=HOST)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_that_is_no_certificate_is_told_before_anything_is_connected(
    tmp_path: Path, content: str | None
):
    file = tmp_path / "authority.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidSettings, match=r"authority.pem of the desk's home"):
        _ = Trust(str(file)).context
    with pytest.raises(InvalidSettings):
        told_elsewhere(BrokerUrl("host", 1, True, authority=str(file)))


def test_elsewhere_an_authority_is_told_by_its_fingerprint(desk: Certificates):
    here = BrokerUrl("host", 1, True, authority=str(desk.authority))
    there = BrokerUrl("host", 1, True, authority=desk.fingerprint)
    assert told_elsewhere(here) == told_elsewhere(there) == there
    assert told_elsewhere(BrokerUrl("host", 1)) == BrokerUrl("host", 1)


def test_a_port_without_tls_is_told_from_one_with_it(desk: Certificates):
    with door(desk) as secured, door(None) as plain:
        assert speaks_tls(HOST, secured)
        assert not speaks_tls(HOST, plain)
        with pytest.raises(OSError) as caught:  # noqa: PT011  # of several kinds
            shake(Trust(str(desk.authority)), plain)
        assert is_no_tls(caught.value)


def test_where_nobody_listens_nothing_is_said_of_tls():
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    assert not speaks_tls(HOST, port)
    assert not is_no_tls(ConnectionRefusedError())


class Link:
    """As Python 3.13 has it, or 3.11, or one that has neither."""

    def __init__(self, chain: list[bytes] | None = None, inside: object = None) -> None:
        if chain is not None:
            self.get_unverified_chain = lambda: chain
        self._sslobj = inside


class Inside:
    """What 3.11 and 3.12 have."""

    def __init__(self, pem: str) -> None:
        self._pem = pem

    def get_unverified_chain(self) -> list[Inside]:
        return [self]

    def public_bytes(self) -> str:
        return self._pem


def test_the_chain_is_read_as_each_python_tells_it(desk: Certificates):
    pem = desk.authority.read_text()
    der = ssl.PEM_cert_to_DER_cert(pem)
    assert module._unverified_chain(Link([der])) == [der]
    assert module._unverified_chain(Link(None, Inside(pem))) == [der]
    with pytest.raises(Untrusted, match="give its file"):
        module._unverified_chain(Link())
