"""The agent's settings: where they come from, and what is refused with which sentence."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from edge_agent.adapters.device.settings import (
    InvalidSettings,
    default_memory_nbytes,
    parse_size,
    read_settings,
)
from edge_agent.adapters.store.store_address import parse_store
from wire.broker_url import parse_url
from wire.errors import InvalidName, InvalidUrl, Malformed

BROKER = "mqtt://pixel-7:s%3Acret@desk:1999"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_flags_win_over_the_environment_which_wins_over_the_file(tmp_path: Path):
    file = tmp_path / "agent.yaml"
    file.write_text("broker: mqtt://a@file\nmemory: 10MiB\ndisk: 20MiB\nhold: 30MiB\n")
    environment = {"CROWDPIPE_AGENT_MEMORY": "11MiB", "CROWDPIPE_AGENT_DISK": "21MiB"}
    settings = read_settings({"disk": "22MiB", "memory": None}, environment, file)
    assert settings.hold_nbytes == 30 << 20
    assert settings.memory_nbytes == 11 << 20
    assert settings.disk_nbytes == 22 << 20


def test_the_file_in_the_home_folder_is_found_by_itself(home: Path):
    (home / ".config").mkdir()
    (home / ".config" / "crowdpipe-agent.yaml").write_text('{"broker": "mqtt://me@there"}')
    assert read_settings({}, {}).broker.host == "there"


def test_a_name_comes_from_the_broker_address_unless_given():
    assert read_settings({"broker": BROKER}, {}).name == "pixel-7"
    assert read_settings({"broker": BROKER, "name": "other"}, {}).name == "other"


def test_a_secret_is_decoded_and_never_shown():
    address = parse_url(BROKER)
    assert (address.user, address.secret, address.port) == ("pixel-7", "s:cret", 1999)
    assert "cret" not in repr(address) + address.shown


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("64MiB", 64 << 20), ("1.5GB", 1_500_000_000), ("4096", 4096), ("2 kib", 2048), (7, 7)],
)
def test_sizes_are_read_as_people_write_them(text: str | int, nbytes: int):
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "much", "-1", "1 XB", "1e9", "nan"])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(InvalidSettings, match="write it like 64MiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("flags", "error", "says"),
    [
        ({}, InvalidSettings, "--broker"),
        ({"broker": "http://desk"}, InvalidUrl, "mqtt://"),
        ({"broker": "mqtt://u:sesame@desk/path"}, InvalidUrl, "after the port"),
        ({"broker": "mqtt://desk:99999"}, InvalidUrl, "[Pp]ort"),
        ({"broker": BROKER, "name": "Pixel 7"}, InvalidName, "a-z"),
        ({"broker": BROKER, "name": "orchestrator"}, InvalidName, "reserved"),
        ({"broker": BROKER, "memory": "1kB"}, InvalidSettings, "too small"),
        ({"broker": BROKER, "threads": "many"}, InvalidSettings, "threads"),
        ({"broker": BROKER, "log": "loud"}, InvalidSettings, "none of"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_sentence(
    flags: dict[str, str], error: type[Exception], says: str
):
    with pytest.raises(error, match=says) as refused:
        read_settings(flags, {})
    assert "sesame" not in str(refused.value)


def test_an_unknown_setting_in_the_file_is_refused(tmp_path: Path):
    file = tmp_path / "agent.yaml"
    file.write_text("broker: mqtt://a@b\nmemmory: 1MiB\n")
    with pytest.raises(InvalidSettings, match="memmory"):
        read_settings({}, {}, file)


def test_the_default_memory_is_at_most_half_of_what_is_available():
    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable")
    )
    assert 16 << 20 <= default_memory_nbytes() <= max(16 << 20, available * 0.6)


@pytest.mark.parametrize(
    ("base", "shown"),
    [
        ("http://store:8080/", "http://store:8080"),
        ("http://:8080/prefix/", "http://10.0.0.9:8080/prefix"),
        (":8080", "http://10.0.0.9:8080"),
        ("https://store", "https://store:443"),
    ],
)
def test_a_base_without_a_host_means_the_brokers(base: str, shown: str):
    assert parse_store(base, "10.0.0.9").shown == shown


@pytest.mark.parametrize(
    "base",
    [
        "",
        "ftp://x",
        "http://u:p@x",
        "/only/path",
        "http://x:0x",
        "http://x?q",
        "https://x?authority=f",
    ],
)
def test_a_base_that_is_no_plain_address_is_refused(base: str):
    with pytest.raises(Malformed):
        parse_store(base, "10.0.0.9")


def test_the_key_of_a_desk_is_read_wherever_it_stands(tmp_path: Path):
    key = base64.b64encode(bytes(range(32))).decode()
    file = tmp_path / "agent.json"
    file.write_text(json.dumps({"broker": BROKER, "desk_key": key}))
    assert read_settings({"broker": BROKER}, {}).desk_key is None
    assert read_settings({}, {}, file).desk_key == bytes(range(32))
    environment = {"CROWDPIPE_AGENT_DESK_KEY": key}
    assert read_settings({"broker": BROKER}, environment).desk_key == bytes(range(32))
    assert read_settings({"broker": BROKER, "desk_key": key}, {}).desk_key == bytes(range(32))


def test_what_is_no_key_of_a_desk_is_refused_with_where_to_find_it():
    with pytest.raises(InvalidSettings, match="device add"):
        read_settings({"broker": BROKER, "desk_key": "secret"}, {})


def test_a_base_may_name_who_vouches_for_the_store():
    fingerprint = f"sha256:{'ab' * 32}"
    address = parse_store(f"https://store:8443?authority={fingerprint}", "10.0.0.9")
    assert (address.authority, address.shown) == (fingerprint, "https://store:8443")
    assert parse_store("https://:8443", "10.0.0.9").authority is None


def test_an_authority_may_be_given_apart_from_the_address():
    settings = read_settings({"broker": BROKER, "authority": "~/a.pem"}, {})
    assert settings.broker.authority == str(Path("~/a.pem").expanduser())
    environment = {"CROWDPIPE_AGENT_BROKER": BROKER, "CROWDPIPE_AGENT_AUTHORITY": "/b.pem"}
    assert read_settings({}, environment).broker.authority == "/b.pem"
