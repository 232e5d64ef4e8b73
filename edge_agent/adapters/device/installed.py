"""Whether the libraries that the agent stands on load: each in a process of its own.

A library for another processor ends the process that loads it, and one that hangs holds it.
"""

from __future__ import annotations

import importlib
import signal
import struct
import sys

from edge_agent.adapters.device.command import CommandAnswer, ask_command
from edge_agent.adapters.device.runtime_version import max_opset
from edge_agent.diagnosis.facts import Interpreter, LibraryTrial, PsutilUse

IMPORT_LIMIT_S = 15.0
MISSING = "ModuleNotFoundError: No module named '{}'"
TRIAL = "import {0}; print('version', getattr({0}, '__version__', '?'))"
SAID_LENGTH = 200


def interpreter() -> Interpreter:
    major, minor, micro = sys.version_info[:3]
    return Interpreter((major, minor, micro), 8 * struct.calcsize("P"))


def library(name: str, limit_s: float = IMPORT_LIMIT_S) -> LibraryTrial:
    answer = ask_command([sys.executable, "-P", "-c", TRIAL.format(name)], limit_s)
    if MISSING.format(name) in answer.text:
        return LibraryTrial(name, "")
    lines = answer.text.splitlines() or [""]
    if not answer.worked or not lines[-1].startswith("version "):
        return LibraryTrial(name, "", _fault(answer, lines[-1], limit_s))
    version = lines[-1].removeprefix("version ")
    opset = max_opset(version) if name == "onnxruntime" else 0
    return LibraryTrial(name, version, max_opset=opset)


def _fault(answer: CommandAnswer, last: str, limit_s: float) -> str:
    if answer.outcome == "hung":
        return f"importing it did not end within {limit_s:g} s"
    if answer.status is not None and answer.status < 0:
        return f"importing it ended Python ({signal.Signals(-answer.status).name})"
    return last[:SAID_LENGTH].rstrip(".") or "importing it fails without a word"


def psutil_use() -> PsutilUse:
    try:
        importlib.import_module("psutil")
    except Exception:  # psutil raises NotImplementedError on a platform that it does not know
        return PsutilUse(False)
    return PsutilUse(True)
