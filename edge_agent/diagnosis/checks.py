"""Every check there is, in the order in which they are told: which fact it looks at, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edge_agent.diagnosis import android, program, resources, way
from edge_agent.diagnosis.facts import Unanswered
from edge_agent.diagnosis.verdict import LEVELS, Level, Verdict, advice, fault


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """`judge` returns None if the fact tells nothing about it. `vital`: without an answer the
    agent cannot work."""

    key: str
    title: str
    fact: str
    judge: Callable[[Any], Verdict | None]
    vital: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    key: str
    title: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Examination:
    """`not_asked`: what stands behind something that failed, or was spared."""

    findings: tuple[Finding, ...]
    not_asked: tuple[DoctorCheck, ...]

    @property
    def level(self) -> Level:
        found = {finding.verdict.level for finding in self.findings}
        return next((level for level in reversed(LEVELS) if level in found), "ok")

    def titles(self, level: Level) -> list[str]:
        return [each.title for each in self.findings if each.verdict.level == level]


DEVICE_CHECKS = (
    DoctorCheck("python", "Python", "python", program.judge_python),
    DoctorCheck("runtime", "ONNX Runtime", "runtime", program.judge_runtime, vital=True),
    DoctorCheck("numpy", "numpy", "numpy", program.judge_numpy, vital=True),
    DoctorCheck("psutil", "psutil", "psutil", program.judge_psutil),
    DoctorCheck("settings", "settings", "settings", program.judge_settings),
    DoctorCheck("memory", "memory", "memory", resources.judge_memory),
    DoctorCheck("disk", "disk", "disk", resources.judge_disk),
    DoctorCheck("folder", "cache folder", "folder", resources.judge_folder),
    DoctorCheck("proc", "/proc", "proc", resources.judge_proc),
)
ANDROID_CHECKS = (
    DoctorCheck("termux", "Termux", "termux", android.judge_termux),
    DoctorCheck("termux_api", "Termux:API", "termux_api", android.judge_termux_api),
    DoctorCheck("phantom_processes", "child processes", "phantom", android.judge_phantom),
    DoctorCheck(
        "battery_optimisation", "battery use", "exemption", android.judge_battery_exemption
    ),
    DoctorCheck("wake_lock", "wake lock", "upkeep", android.judge_wake_lock),
    DoctorCheck("service", "restarting", "upkeep", android.judge_service),
    DoctorCheck("boot", "start at boot", "upkeep", android.judge_boot),
)
WAY_CHECKS = (
    DoctorCheck("broker_name", "broker's name", "host", way.judge_host, vital=True),
    DoctorCheck("broker_port", "broker's port", "port", way.judge_port, vital=True),
)
TLS_CHECKS = (
    DoctorCheck("certificate", "certificate", "certificate", way.judge_certificate, vital=True),
)
DESK_CHECKS = (
    DoctorCheck("broker_login", "login", "login", way.judge_login, vital=True),
    DoctorCheck("desk", "desk", "desk", way.judge_desk, vital=True),
    DoctorCheck("store", "model store", "store", way.judge_store, vital=True),
    DoctorCheck("clock", "clock", "clock", way.judge_clock),
)


def checks_for(*, android: bool, broker: bool, tls: bool) -> tuple[DoctorCheck, ...]:
    """Those that concern this device, and what it was told to connect to."""
    here = (*DEVICE_CHECKS, *(ANDROID_CHECKS if android else ()))
    there = (*WAY_CHECKS, *(TLS_CHECKS if tls else ()), *DESK_CHECKS)
    return (*here, *(there if broker else ()))


def examine(checks: tuple[DoctorCheck, ...], facts: Mapping[str, object]) -> Examination:
    """Facts that are not there were not asked for, because something before them failed."""
    findings = []
    for check in checks:
        if check.fact in facts and (verdict := _verdict(check, facts[check.fact])) is not None:
            findings.append(Finding(check.key, check.title, verdict))
    not_asked = tuple(check for check in checks if check.fact not in facts)
    return Examination(tuple(findings), not_asked)


def _verdict(check: DoctorCheck, fact: object) -> Verdict | None:
    if isinstance(fact, Unanswered):
        level = fault if check.vital else advice
        return level(f"This {fact.said}.", "Try again; if it stays, restart the device.")
    return check.judge(fact)
