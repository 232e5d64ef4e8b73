"""The desk's certificates: what they are for, who may read them, and when they are made anew."""

from __future__ import annotations

import datetime
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from broker_config.credentials import Credentials
from crowdpipe.serving.addresses import names_of_desk
from crowdpipe.serving.backup import back_up
from crowdpipe.serving.certificates import RENEW_DAYS, SERVER_DAYS, Certificates, names_in
from crowdpipe.serving.restore import restore
from wire.authority import is_fingerprint
from wire.errors import OperatorError

NAMES = ["desk", "desk.local", "192.168.1.10", "fd00::1", "127.0.0.1", "::1", "localhost"]
NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    certificates = Certificates.of(tmp_path)
    assert certificates.ensure(NAMES, NOW)
    return certificates


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One that can be backed up."""
    home = tmp_path / "home"
    Credentials(home).add("phone", "device")
    return home


def authority_of(home: Path) -> bytes:
    return Certificates.of(home).authority.read_bytes()


def server_of(certificates: Certificates) -> x509.Certificate:
    return x509.load_pem_x509_certificates(certificates.server.read_bytes())[0]


def test_the_servers_certificate_names_all_by_which_the_desk_is_reached(made: Certificates):
    assert sorted(names_in(server_of(made))) == sorted(NAMES)


def test_nobody_else_may_read_any_of_it(made: Certificates):
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.folder.iterdir()}
    assert set(modes) == {"authority.pem", "authority.key", "server.pem"}
    assert set(modes.values()) == {0o600}


def test_the_authoritys_certificate_comes_along_with_the_servers(made: Certificates):
    server, authority = x509.load_pem_x509_certificates(made.server.read_bytes())
    assert authority == x509.load_pem_x509_certificate(made.authority.read_bytes())
    server.verify_directly_issued_by(authority)


def test_python_and_openssl_serve_with_it(made: Certificates):
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(made.server)


def test_asked_again_it_is_the_same(made: Certificates):
    before = made.server.read_bytes()
    assert not made.ensure(NAMES, NOW + DAY)
    assert not made.ensure(NAMES[:3], NOW + DAY), "an address that is gone for now may come back"
    assert made.server.read_bytes() == before


@pytest.mark.parametrize(
    ("names", "days"),
    [([*NAMES, "10.0.0.7"], 1), (NAMES, SERVER_DAYS - RENEW_DAYS), (NAMES, SERVER_DAYS + 9)],
    ids=["another address", "it ends soon", "it has ended"],
)
def test_the_servers_is_made_anew_by_the_same_authority(
    made: Certificates, names: list[str], days: int
):
    fingerprint = made.fingerprint
    assert made.ensure(names, NOW + days * DAY)
    assert made.fingerprint == fingerprint
    server = server_of(made)
    assert sorted(names_in(server)) == sorted(names)
    assert server.not_valid_after_utc > NOW + (days + RENEW_DAYS) * DAY


def test_a_server_certificate_of_another_authority_is_replaced(made: Certificates, tmp_path: Path):
    other = Certificates.of(tmp_path / "other")
    other.ensure(NAMES, NOW)
    made.server.write_bytes(other.server.read_bytes())
    assert made.ensure(NAMES, NOW)
    assert made.fingerprint != other.fingerprint


def test_an_address_counts_however_it_is_written(made: Certificates):
    assert not made.ensure(["FD00:0:0::1", "::0001"], NOW)


def test_the_fingerprint_is_what_an_address_carries(made: Certificates):
    assert is_fingerprint(made.fingerprint)


def test_a_damaged_authority_is_told_and_never_replaced_by_itself(made: Certificates):
    made.authority.write_text("-----BEGIN nonsense")
    with pytest.raises(OperatorError, match="every device and user must be given"):
        made.ensure(NAMES, NOW)


def test_a_key_that_is_not_the_authoritys_signs_nothing(made: Certificates, tmp_path: Path):
    other = Certificates.of(tmp_path / "other")
    other.ensure(NAMES, NOW)
    made.authority_key.write_bytes(other.authority_key.read_bytes())
    with pytest.raises(OperatorError, match="another authority's"):
        made.ensure([*NAMES, "10.0.0.7"], NOW)


def test_a_desk_is_reached_by_its_names_and_addresses():
    names = names_of_desk("0.0.0.0")
    assert {"localhost", "127.0.0.1", "::1"} <= set(names)
    assert any(name.endswith(".local") for name in names)
    assert "0.0.0.0" not in names
    assert "desk.example" in names_of_desk("desk.example")


def test_devices_know_a_restored_desk_by_the_same_authority(home: Path, tmp_path: Path):
    Certificates.of(home).ensure(["127.0.0.1"])
    back_up(home, tmp_path / "b.tar")
    elsewhere = tmp_path / "elsewhere"
    restore(tmp_path / "b.tar", elsewhere)
    assert authority_of(elsewhere) == authority_of(home)
    again = Certificates.of(elsewhere)
    assert again.ensure(["10.0.0.1"]), "the server's certificate is the new machine's own"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in again.folder.iterdir()}
    assert set(modes.values()) == {0o600}
    assert again.fingerprint == Certificates.of(home).fingerprint


def test_the_authority_of_a_backup_takes_the_place_of_the_homes_own(home: Path, tmp_path: Path):
    Certificates.of(home).ensure(["127.0.0.1"])
    back_up(home, tmp_path / "b.tar")
    kept = authority_of(home)
    other = tmp_path / "other"
    Certificates.of(other).ensure(["127.0.0.1"])
    restore(tmp_path / "b.tar", other)
    assert authority_of(other) == kept
    assert Certificates.of(other).ensure(["127.0.0.1"]), "what the other authority signed is no use"
