"""The desk's own certificates: an authority made once, and a server certificate that it signs.

Both lie in `<home>/tls`, readable by their owner alone. Whoever connects from elsewhere is told the
authority, or its fingerprint, and trusts nobody else; so the authority stays as long as the home
does, and the server certificate may be made anew whenever the desk has another address, or a month
before it ends. Makes files; who serves with them reads them again when told.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker_config.private_file import make_private_folder, write_private
from crowdpipe.home import AUTHORITY_KEY, AUTHORITY_NAME, TLS_FOLDER
from wire.authority import fingerprint_of
from wire.errors import OperatorError

AUTHORITY_DAYS = 30 * 365
SERVER_DAYS = 365
RENEW_DAYS = 30
SLOW_CLOCK = datetime.timedelta(days=1)  # a device's clock may be behind ours by so much
LONGEST_NAME = 64  # of a common name, by the standard
Name: TypeAlias = x509.DNSName | x509.IPAddress


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of one home. `server` holds the server's certificate, the authority's behind it,
    and the server's key: what a broker and a store are given."""

    folder: Path

    @classmethod
    def of(cls, home: Path) -> Certificates:
        return cls(home / TLS_FOLDER)

    @property
    def authority(self) -> Path:
        return self.folder / AUTHORITY_NAME

    @property
    def authority_key(self) -> Path:
        return self.folder / AUTHORITY_KEY

    @property
    def server(self) -> Path:
        return self.folder / "server.pem"

    @property
    def fingerprint(self) -> str:
        """By which others know the authority: `sha256:` and its digest."""
        return fingerprint_of(_read(self.authority).public_bytes(serialization.Encoding.DER))

    def ensure(self, names: Iterable[str], now: datetime.datetime | None = None) -> bool:
        """Make what is missing; and the server's certificate anew if it ends soon or does not name
        all of `names`. Whether that is another now. Raises `DiskFull` or `OperatorError`."""
        now = now or datetime.datetime.now(datetime.UTC)
        make_private_folder(self.folder)
        wanted = sorted({_plain(name) for name in names})
        if not self.authority.exists():
            self._make_authority(now)
        elif self._serves(wanted, now):
            return False
        self._make_server(wanted, now)
        return True

    def _serves(self, wanted: list[str], now: datetime.datetime) -> bool:
        """A name too many harms nobody: an address that comes back needs no other certificate."""
        if not self.server.exists():
            return False
        server, authority = _read(self.server), _read(self.authority)
        try:
            server.verify_directly_issued_by(authority)
        except Exception:  # of several kinds; whatever it is, that one is of no use
            return False
        until = server.not_valid_after_utc - datetime.timedelta(days=RENEW_DAYS)
        return server.not_valid_before_utc <= now < until and set(wanted) <= set(names_in(server))

    def _make_authority(self, now: datetime.datetime) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        # Another authority has another name: else a program that knows both mixes them up.
        number = x509.random_serial_number()
        name = _named(f"crowdpipe desk {number:040x}"[:LONGEST_NAME])
        usage = _usage(key_cert_sign=True, crl_sign=True)
        made = (
            _begun(name, name, key.public_key(), number, now, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        write_private(self.authority_key, _pem_of(key))
        write_private(self.authority, made.public_bytes(serialization.Encoding.PEM))

    def _make_server(self, names: list[str], now: datetime.datetime) -> None:
        authority, signs = _read(self.authority), _read_key(self.authority_key)
        if authority.public_key() != signs.public_key():
            raise _unreadable(self.authority_key, "it is another authority's")
        key = ec.generate_private_key(ec.SECP256R1())
        number = x509.random_serial_number()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key())
        made = (
            _begun(
                _named("crowdpipe desk"),
                authority.subject,
                key.public_key(),
                number,
                now,
                SERVER_DAYS,
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(
                x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
            )
            .sign(signs, hashes.SHA256())
        )
        chain = b"".join(
            each.public_bytes(serialization.Encoding.PEM) for each in (made, authority)
        )
        write_private(self.server, chain + _pem_of(key))


def names_in(certificate: x509.Certificate) -> list[str]:
    """The addresses and names that a certificate is for."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(each.value) for each in found]


def _plain(name: str) -> str:
    """As a certificate gives it back: an address can be written in several ways."""
    return str(_alternative(name).value)


def _alternative(name: str) -> Name:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    number: int,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(number)
        .not_valid_before(now - SLOW_CLOCK)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(path, error) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _unreadable(path, "a key of another kind")
    return key


def _unreadable(path: Path, why: object) -> OperatorError:
    return OperatorError(
        f"{path} cannot be read ({why}); restore it from a backup, or remove the folder "
        f"{path.parent}: a new authority is made then, and every device and user must be given "
        "its new address"
    )
