"""The broker's certificate is believed, or it is told why not, by a handshake with a server."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_agent.adapters.broker.certificate import certificate_of
from wire.broker_url import BrokerUrl

x509 = pytest.importorskip("cryptography.x509", reason="makes certificates for this test")


def write_certificate(path: Path, address: str, days: int) -> None:
    """Signed by itself, key and certificate in one file."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "desk")])
    begins = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=30)
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    named = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(named, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(pem, form, plain) + certificate.public_bytes(pem))


@contextlib.contextmanager
def listening(certificate: Path) -> Iterator[BrokerUrl]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def shake_hands() -> None:
        with contextlib.suppress(OSError):
            link, _ = listener.accept()
            link.settimeout(10)
            with context.wrap_socket(link, server_side=True) as secure:
                secure.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        thread = threading.Thread(target=shake_hands)
        thread.start()
        yield BrokerUrl("127.0.0.1", listener.getsockname()[1], tls=True)
        thread.join(20)


@pytest.mark.parametrize(
    ("address", "days", "known", "fault", "said"),
    [
        ("127.0.0.1", 10, True, "", ""),
        ("127.0.0.1", 10, False, "untrusted", "self"),
        ("127.0.0.2", 10, True, "untrusted", "not for 127.0.0.1"),
        ("127.0.0.1", -1, True, "untrusted", "has ended"),
    ],
)
def test_a_certificate_is_believed_or_it_is_told_why_not(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    days: int,
    known: bool,
    fault: str,
    said: str,
):
    file = tmp_path / "desk.pem"
    write_certificate(file, address, days)
    monkeypatch.setenv("SSL_CERT_FILE", str(file if known else tmp_path / "none"))
    with listening(file) as url:
        found = certificate_of(url)
    assert (found.fault, said in found.said) == (fault, True), found
    if not fault:
        assert found.days_left == pytest.approx(days, abs=0.1)
