"""The text of Mosquitto's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_config import broker_choice
from broker_config.broker_choice import choose_broker
from broker_config.configuration import Files, Listener, configuration
from broker_config.credentials import Credentials
from wire.errors import BrokerUnreachable

CERTIFICATE = Path("/home/desk/tls/server.pem")


def lines_of(listener: Listener) -> list[str]:
    text = configuration(listener, Files(Path("/home/desk/broker")), "desk")
    lines = text.splitlines()
    return lines[next(n for n, line in enumerate(lines) if line.startswith("listener ")) :]


def test_without_a_certificate_there_is_one_plain_door():
    assert lines_of(Listener("127.0.0.1", 1883)) == ["listener 1883 127.0.0.1"]


def test_with_one_the_door_to_others_speaks_tls_alone_and_the_plain_one_is_on_loopback():
    assert lines_of(Listener("0.0.0.0", 1883, None, CERTIFICATE, 40_000)) == [
        "listener 1883 0.0.0.0",
        f"certfile {CERTIFICATE}",
        f"keyfile {CERTIFICATE}",
        "tls_version tlsv1.2",
        "listener 40000 127.0.0.1",
    ]


def test_the_devices_own_door_speaks_it_as_well():
    lines = lines_of(Listener("0.0.0.0", 1883, 1884, CERTIFICATE, 40_000))
    devices = lines.index("listener 1884 0.0.0.0")
    assert lines[devices + 1 : devices + 4] == lines[1:4]


def test_nobody_is_let_in_without_a_credential_whichever_door():
    text = configuration(Listener("0.0.0.0", 1, None, CERTIFICATE, 2), Files(Path("/b")), "desk")
    assert "\nallow_anonymous false\n" in text
    assert "per_listener_settings" not in text


def test_a_broker_that_does_not_speak_tls_is_not_started_in_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(broker_choice, "find_mosquitto", lambda: None)
    monkeypatch.setattr(broker_choice, "embedded_is_there", lambda: True)
    with pytest.raises(BrokerUnreachable, match="install Mosquitto 2"):
        choose_broker(None, tmp_path, Credentials(tmp_path), certificate=CERTIFICATE)
