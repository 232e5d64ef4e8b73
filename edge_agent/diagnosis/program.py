"""Verdicts on what the agent is made of: Python, ONNX Runtime, numpy, psutil, its settings."""

from __future__ import annotations

import re

from edge_agent.diagnosis.facts import Interpreter, LibraryTrial, PsutilUse, SettingsUse
from edge_agent.diagnosis.verdict import Verdict, advice, fault, ok

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 14)
OLDEST_RUNTIME = (1, 18)  # the first that takes IR version 10, as segments may have
TRIED_RUNTIME = (1, 20)  # the oldest that is asked for when the agent is installed
INSTALL = {"onnxruntime": "ONNX Runtime", "numpy": "numpy"}
OPEN_TO_OTHERS = 0o077


def judge_python(fact: Interpreter) -> Verdict:
    shown = f"Python {'.'.join(map(str, fact.version))}, {fact.bits} bits"
    if fact.version[:2] < OLDEST_PYTHON:
        return fault(f"{shown} is too old.", "Install Python 3.11 or later.")
    if fact.bits < 64:
        return fault(
            f"{shown}: there is no ONNX Runtime for it.",
            "Install a system (or Termux) of 64 bits, if the processor can.",
        )
    if fact.version[:2] > NEWEST_PYTHON:
        return advice(
            f"{shown} is newer than the agent was tried with.",
            "If something fails, try Python 3.14.",
        )
    return ok(f"{shown}.")


def judge_runtime(fact: LibraryTrial) -> Verdict:
    trouble = _trouble(fact)
    if trouble is not None:
        return trouble
    version = _two_numbers(fact.version)
    shown = f"ONNX Runtime {fact.version} takes models up to opset {fact.max_opset}"
    if version < OLDEST_RUNTIME:
        return fault(
            f"{shown}, and cannot read segments (IR version 10): too old.",
            f"Install 1.20 or later: {_how('onnxruntime')}.",
        )
    if version < TRIED_RUNTIME:
        return advice(
            f"{shown}; it is older than the agent was tried with.",
            f"Install 1.20 or later: {_how('onnxruntime')}.",
        )
    return ok(f"{shown}.")


def judge_numpy(fact: LibraryTrial) -> Verdict:
    return _trouble(fact) or ok(f"numpy {fact.version}.")


def _trouble(fact: LibraryTrial) -> Verdict | None:
    shown = INSTALL[fact.name]
    if not fact.version and not fact.fault:
        return fault(f"{shown} is not installed.", f"Install it: {_how(fact.name)}.")
    if fact.fault:
        return fault(
            f"{shown} does not load: {fact.fault}.",
            f"Install it anew: {_how(fact.name)}. In Termux type 'pkg upgrade' before.",
        )
    return None


def _how(name: str) -> str:
    return f"'pkg install python-{name}' in Termux, 'pip install {name}' elsewhere"


def _two_numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else (0, 0)


def judge_psutil(fact: PsutilUse) -> Verdict:
    if fact.works:
        return ok("psutil is there.")
    return ok("psutil is not there, and need not be.")


def judge_settings(fact: SettingsUse) -> Verdict:
    if fact.fault:
        return fault(f"The settings cannot be used: {fact.fault}.", "Mend that setting.")
    if fact.holds_secret and fact.mode & OPEN_TO_OTHERS:
        return advice(
            f"Others on this device may read the secret in {fact.file} (mode {fact.mode:o}).",
            f"Type: chmod 600 {fact.file}",
        )
    if not fact.broker_given:
        return advice(
            "No broker is set, so neither it nor the store was asked.",
            "Put 'doctor' behind the line that 'crowdpipe device add' printed.",
        )
    return ok(f"The settings can be used{f', some from {fact.file}' if fact.file else ''}.")
