"""What this device announces: constant for a boot."""

from __future__ import annotations

import os
import platform
import sys

from edge_agent.adapters.device.runtime_version import max_opset, runtime_version
from edge_agent.adapters.device.settings import AgentSettings
from wire.errors import OperatorError
from wire.messages.state import Capabilities


class RuntimeMissing(OperatorError):
    """There is no ONNX Runtime on this device."""

    kind = "runtime_missing"


def capabilities_of(settings: AgentSettings) -> Capabilities:
    """Raises `RuntimeMissing`: without ONNX Runtime an agent would only pretend to serve."""
    version = runtime_version()
    if not version:
        raise RuntimeMissing(
            "ONNX Runtime is not installed here; in Termux type 'pkg install python-onnxruntime', "
            "elsewhere 'pip install onnxruntime'"
        )
    return Capabilities(
        memory_budget_nbytes=settings.memory_nbytes,
        disk_budget_nbytes=settings.disk_nbytes,
        hold_nbytes=settings.hold_nbytes,
        cores=os.cpu_count() or 1,
        architecture=platform.machine(),
        runtime_version=version,
        max_opset=max_opset(version),
        platform=sys.platform,
        python_version=platform.python_version(),
    )
