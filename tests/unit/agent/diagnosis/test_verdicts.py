"""What the doctor makes of facts: level, what is said, and what there is to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edge_agent.diagnosis.android import (
    judge_battery_exemption,
    judge_boot,
    judge_phantom,
    judge_service,
    judge_termux,
    judge_termux_api,
    judge_wake_lock,
)
from edge_agent.diagnosis.facts import (
    BatteryExemption,
    BrokerLogin,
    ClockOffset,
    DeskNews,
    DiskRoom,
    FolderUse,
    HostAddresses,
    Interpreter,
    LibraryTrial,
    MemoryRoom,
    PhantomKiller,
    PortKnock,
    PortKnocks,
    ProcAccess,
    PsutilUse,
    ServerCertificate,
    SettingsUse,
    StoreAnswer,
    TermuxApi,
    TermuxApp,
    Upkeep,
)
from edge_agent.diagnosis.program import (
    judge_numpy,
    judge_psutil,
    judge_python,
    judge_runtime,
    judge_settings,
)
from edge_agent.diagnosis.resources import judge_disk, judge_folder, judge_memory, judge_proc
from edge_agent.diagnosis.verdict import Verdict
from edge_agent.diagnosis.way import (
    judge_certificate,
    judge_clock,
    judge_desk,
    judge_host,
    judge_login,
    judge_port,
    judge_store,
)

MIB = 1 << 20
GIB = 1 << 30
Row = tuple[Callable[[Any], Verdict | None], object, str, str]


def knocks(*faults: Any) -> PortKnocks:
    return PortKnocks(
        "desk:18830", tuple(PortKnock(f"10.0.0.{n}", each) for n, each in enumerate(faults))
    )


PROGRAM: list[Row] = [
    (judge_python, Interpreter((3, 11, 0), 64), "ok", "Python 3.11.0"),
    (judge_python, Interpreter((3, 14, 2), 64), "ok", "64 bits"),
    (judge_python, Interpreter((3, 10, 9), 64), "fault", "too old"),
    (judge_python, Interpreter((3, 15, 0), 64), "advice", "newer than"),
    (judge_python, Interpreter((3, 12, 0), 32), "fault", "no ONNX Runtime"),
    (judge_runtime, LibraryTrial("onnxruntime", "1.29.0", "", 26), "ok", "opset 26"),
    (judge_runtime, LibraryTrial("onnxruntime", ""), "fault", "is not installed"),
    (judge_runtime, LibraryTrial("onnxruntime", "1.17.1", "", 20), "fault", "IR version 10"),
    (judge_runtime, LibraryTrial("onnxruntime", "1.19.2", "", 21), "advice", "older than"),
    (judge_runtime, LibraryTrial("onnxruntime", "", "no libomp"), "fault", "load: no libomp"),
    (judge_numpy, LibraryTrial("numpy", "2.4.1"), "ok", "numpy 2.4.1"),
    (judge_numpy, LibraryTrial("numpy", ""), "fault", "numpy is not installed"),
    (judge_psutil, PsutilUse(True), "ok", "is there"),
    (judge_psutil, PsutilUse(False), "ok", "need not be"),
    (judge_settings, SettingsUse("", True), "ok", "can be used"),
    (judge_settings, SettingsUse("", True, "/a.yaml", 0o600, True), "ok", "/a.yaml"),
    (judge_settings, SettingsUse("", True, "/a.yaml", 0o644, False), "ok", "/a.yaml"),
    (judge_settings, SettingsUse("", True, "/a.yaml", 0o640, True), "advice", "the secret in"),
    (judge_settings, SettingsUse("", False), "advice", "No broker is set"),
    (judge_settings, SettingsUse("threads 'x'", True), "fault", "threads 'x'"),
]
RESOURCES: list[Row] = [
    (judge_memory, MemoryRoom(4 * GIB, GIB, 512 * MIB), "ok", "1,024 MiB free"),
    (judge_memory, MemoryRoom(4 * GIB, GIB, 2 * GIB), "advice", "more than is free"),
    (judge_memory, MemoryRoom(4 * GIB, 20 * MIB, 16 * MIB), "fault", "too little"),
    (judge_memory, MemoryRoom(None, None, 16 * MIB), "advice", "cannot be read"),
    (judge_disk, DiskRoom(8 * GIB, 0, 4 * GIB), "ok", "8,192 MiB free"),
    (judge_disk, DiskRoom(3 * GIB, 2 * GIB, 4 * GIB), "ok", "2,048 MiB of it by now"),
    (judge_disk, DiskRoom(3 * GIB, 0, 4 * GIB), "advice", "more than is free"),
    (judge_disk, DiskRoom(2 * MIB, 4 * GIB, 4 * GIB), "fault", "the disk is full"),
    (judge_disk, DiskRoom(None, 0, 4 * GIB), "advice", "cannot be read"),
    (judge_folder, FolderUse("/c"), "ok", "/c can be written"),
    (judge_folder, FolderUse("/c", "Permission denied"), "fault", "Permission denied"),
    (judge_folder, FolderUse("/c", "", "folder"), "advice", "An agent works in /c"),
    (judge_folder, FolderUse("/c", "", "name"), "advice", "with another folder"),
    (judge_proc, ProcAccess((), ()), "ok", "All that"),
    (judge_proc, ProcAccess((), ("/proc/stat",)), "ok", "not missed"),
    (judge_proc, ProcAccess(("/proc/meminfo",), ()), "advice", "/proc/meminfo cannot"),
]
ANDROID: list[Row] = [
    (judge_phantom, PhantomKiller(30, None, None), "ok", "older than 12"),
    (judge_phantom, PhantomKiller(34, "false", None), "ok", "does not end"),
    (judge_phantom, PhantomKiller(34, None, 2147483647), "ok", "does not end"),
    (judge_phantom, PhantomKiller(34, "null", None), "advice", "Android ends busy"),
    (judge_phantom, PhantomKiller(34, "true", 32), "advice", "Android ends busy"),
    (judge_phantom, PhantomKiller(34, None, None), "advice", "cannot be read"),
    (judge_phantom, PhantomKiller(None, None, None), "advice", "cannot be read"),
    (judge_battery_exemption, BatteryExemption(True), "ok", "does not restrict"),
    (judge_battery_exemption, BatteryExemption(False), "advice", "may stop Termux"),
    (judge_battery_exemption, BatteryExemption(None), "advice", "cannot be read"),
    (judge_termux, TermuxApp("0.118.3", "F_DROID"), "ok", "from F_DROID"),
    (judge_termux, TermuxApp("0.118.3", ""), "ok", "Termux 0.118.3."),
    (judge_termux, TermuxApp("googleplay.2026.02", ""), "advice", "Play Store"),
    (judge_termux, TermuxApp("0.120", "GOOGLE_PLAY_STORE"), "advice", "Play Store"),
    (judge_termux, TermuxApp("", ""), "advice", "not Termux"),
    (judge_termux_api, TermuxApi("said", "", 0.7), "ok", "after 0.7 s"),
    (judge_termux_api, TermuxApi("said", "", 5.2), "advice", "took 5.2 s"),
    (judge_termux_api, TermuxApi("said", "", 0.7, ("current",)), "advice", "tell current"),
    (judge_termux_api, TermuxApi("hung", "", 8.0), "advice", "within 8 s"),
    (judge_termux_api, TermuxApi("missing"), "advice", "is missing"),
    (judge_termux_api, TermuxApi("failed", "not yet available"), "advice", "not yet available"),
    (judge_termux_api, TermuxApi("failed"), "advice", "nothing that can be read"),
    (judge_wake_lock, Upkeep(True, True, True), "ok", "the script at boot takes it"),
    (judge_wake_lock, Upkeep(True, True, False), "advice", "cannot be read here"),
    (judge_service, Upkeep(True, False, False), "ok", "termux-services"),
    (judge_service, Upkeep(False, False, False), "advice", "again when it ends"),
    (judge_boot, Upkeep(False, True, False), "ok", "~/.termux/boot"),
    (judge_boot, Upkeep(True, False, False), "advice", "when the phone starts"),
]
NEWS = DeskNews("online", "1.0", 1, "1.0", 1)
WAY: list[Row] = [
    (judge_host, HostAddresses("desk", ("10.0.0.1", "fe80::1")), "ok", "10.0.0.1, fe80::1"),
    (judge_host, HostAddresses("10.0.0.1", ("10.0.0.1",)), "ok", "needs no name"),
    (judge_host, HostAddresses("desk", (), "not known"), "fault", "no address: not known"),
    (judge_port, knocks("", ""), "ok", "Something listens at desk:18830"),
    (judge_port, knocks("nobody"), "fault", "Nothing listens at desk:18830 (10.0.0.0)"),
    (judge_port, knocks("silent", "nobody"), "fault", "Nothing answers"),
    (judge_port, knocks("no_route"), "fault", "no way to"),
    (judge_port, knocks("other"), "fault", "Cannot connect"),
    (judge_port, knocks("silent", ""), "advice", "nothing at 10.0.0.0"),
    (judge_certificate, ServerCertificate(days_left=90.0), "ok", "is believed"),
    (judge_certificate, ServerCertificate(days_left=3.0), "advice", "ends in 3 days"),
    (judge_certificate, ServerCertificate("untrusted", "self-signed"), "fault", "self-signed"),
    (judge_certificate, ServerCertificate("no_tls", "x"), "fault", "does not speak TLS"),
    (judge_certificate, ServerCertificate("other", "HANDSHAKE"), "fault", "HANDSHAKE"),
    (judge_login, BrokerLogin("pixel", "in"), "ok", "lets pixel in"),
    (judge_login, BrokerLogin("pixel", "spared", "x"), "ok", "Not tried: x, and"),
    (judge_login, BrokerLogin("pixel", "refused"), "fault", "refuses pixel"),
    (judge_login, BrokerLogin("pixel", "lost", "no MQTT 5"), "fault", "no MQTT 5"),
    (judge_desk, NEWS, "ok", "crowdpipe 1.0 as here"),
    (judge_desk, DeskNews(None), "fault", "never said a word"),
    (judge_desk, DeskNews("offline"), "fault", "said its farewell"),
    (judge_desk, DeskNews("online", "1.0", 1, "1.1", 1), "advice", "1.0, this agent is 1.1"),
    (judge_desk, DeskNews("online", "1.0", 1, "2.0", 2), "fault", "do not understand"),
    (judge_desk, DeskNews("online", "1.0", 1, "1.0", 1, True), "fault", "Two agents"),
    (judge_store, StoreAnswer("http://d:1", 404), "ok", "knows this device"),
    (judge_store, StoreAnswer("http://d:1", 401), "fault", "refuses this device's secret"),
    (judge_store, StoreAnswer("http://d:1", 500), "fault", "HTTP 500"),
    (judge_store, StoreAnswer("http://d:1", None, "timed out"), "fault", "timed out"),
    (judge_clock, ClockOffset(3.0, False), "ok", "agrees"),
    (judge_clock, ClockOffset(-7200.0, True), "advice", "2 hours behind"),
    (judge_clock, ClockOffset(259200.0, True), "fault", "3 days ahead of"),
    (judge_clock, ClockOffset(259200.0, False), "advice", "3 days ahead of"),
    (judge_clock, ClockOffset(90.0, False), "advice", "90 seconds ahead of"),
]


@pytest.mark.parametrize(("judge", "fact", "level", "said"), PROGRAM + RESOURCES + ANDROID + WAY)
def test_a_fact_has_its_verdict(
    judge: Callable[[Any], Verdict], fact: object, level: str, said: str
):
    verdict = judge(fact)
    assert (verdict.level, said in verdict.what) == (level, True), verdict
    assert bool(verdict.do) == (level != "ok")


def test_a_clock_that_nobody_compared_has_no_verdict():
    assert judge_clock(ClockOffset(None, False)) is None


def test_what_android_may_end_has_the_line_to_type_from_a_computer():
    verdict = judge_phantom(PhantomKiller(34, None, None))
    assert "settings put global settings_enable_monitor_phantom_procs false" in verdict.do
