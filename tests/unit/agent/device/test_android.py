"""What Android and Termux tell, with commands that stand in for theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.adapters.device import android
from edge_agent.diagnosis.facts import PhantomKiller, TermuxApp, Upkeep
from tests.unit.agent.device.test_command import commands, write

__all__ = ["commands"]
NEW = (
    '{"percentage": 64, "status": "CHARGING", "temperature": 31.5, "current": 512000, '
    '"charge_counter": 1900000, "voltage": 4100, "health": "GOOD"}'
)
OLD = '{"health": "GOOD", "percentage": 64, "status": "DISCHARGING", "temperature": 31.5}'
DENIED = "cmd: Failure calling service settings: Failed transaction (2147483646)"


def test_android_is_told_by_python_or_by_what_android_sets(monkeypatch: pytest.MonkeyPatch):
    assert android.on_android({"ANDROID_ROOT": "/system"})
    assert not android.on_android({})
    monkeypatch.setattr("sys.platform", "android")
    assert android.on_android({})


def test_the_phantom_killers_settings_are_read(commands: Path):
    write(commands, "getprop", '[ "$1" = ro.build.version.sdk ] && echo 34')
    write(commands, "settings", '[ "$3" = settings_enable_monitor_phantom_procs ] && echo false')
    write(commands, "device_config", "echo 2147483647")
    assert android.phantom_killer() == PhantomKiller(34, "false", 2147483647)


@pytest.mark.parametrize("body", [f"echo '{DENIED}'", f"echo '{DENIED}' >&2; exit 255", "exit 1"])
def test_settings_that_are_denied_are_unreadable(commands: Path, body: str):
    write(commands, "getprop", "echo 34")
    write(commands, "settings", body)
    write(commands, "device_config", body)
    assert android.phantom_killer() == PhantomKiller(34, None, None)


def test_settings_that_hang_are_unreadable(commands: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(android, "SETTING_LIMIT_S", 0.2)
    for name in ("getprop", "settings", "device_config"):
        write(commands, name, "exec sleep 600")
    assert android.phantom_killer() == PhantomKiller(None, None, None)


def test_what_is_not_android_tells_nothing(commands: Path):
    assert android.phantom_killer() == PhantomKiller(None, None, None)
    assert android.battery_exemption({}).exempt is None


@pytest.mark.parametrize(
    ("listed", "exempt"),
    [
        ("user,com.termux,10123", True),
        ("system-excidle,com.android.shell,2000\nuser,com.termux.api,10124", False),
        ("java.lang.SecurityException: Permission Denial", None),
        ("", None),
    ],
)
def test_the_list_of_exempt_apps_is_read_where_it_may_be(
    commands: Path, listed: str, exempt: bool | None
):
    write(commands, "cmd", f"echo '{listed}'")
    assert android.battery_exemption({}).exempt is exempt


def test_termux_tells_its_version_and_shop():
    environment = {"TERMUX_VERSION": "0.118.3", "TERMUX_APK_RELEASE": "F_DROID"}
    assert android.termux_app(environment) == TermuxApp("0.118.3", "F_DROID")
    assert android.termux_app({}) == TermuxApp("", "")


@pytest.mark.parametrize(
    ("body", "outcome", "said", "missing"),
    [
        (f"echo '{NEW}'", "said", "", ()),
        (f"echo '{OLD}'", "said", "", ("current", "charge_counter")),
        ("echo 'Termux:API is not yet available'", "failed", "Termux:API is not yet available", ()),
        ("echo '[1]'", "failed", "[1]", ()),
        ("exit 1", "failed", "", ()),
        ("exec sleep 600", "hung", "", ()),
    ],
)
def test_termux_api_is_seen_as_it_is(
    commands: Path, body: str, outcome: str, said: str, missing: tuple[str, ...]
):
    write(commands, "termux-battery-status", body)
    fact = android.termux_api(limit_s=0.5 if "sleep" in body else 10)
    assert (fact.outcome, fact.said, fact.missing_fields) == (outcome, said, missing)


def test_a_slow_termux_api_is_timed(commands: Path):
    write(commands, "termux-battery-status", f"sleep 0.3; echo '{NEW}'")
    assert android.termux_api().took_s >= 0.3


def test_termux_api_that_is_not_installed_is_missing(commands: Path):
    assert android.termux_api().outcome == "missing"


def test_services_and_scripts_at_boot_are_found(tmp_path: Path):
    prefix, home = tmp_path / "usr", tmp_path / "home"
    environment = {"PREFIX": str(prefix)}
    assert android.upkeep(environment, home) == Upkeep(False, False, False)
    service, boot = prefix / "var/service/crowdpipe", home / ".termux/boot"
    service.mkdir(parents=True)
    boot.mkdir(parents=True)
    (service / "run").write_text("#!/bin/sh\nexec crowdpipe-agent 2>&1\n")
    (boot / "other").write_text("sshd\n")
    assert android.upkeep(environment, home) == Upkeep(True, True, False)
    (boot / "crowdpipe").write_text("termux-wake-lock\n")
    assert android.upkeep(environment, home) == Upkeep(True, True, True)
