"""The floor of an agent's memory: this interpreter with every module that an agent imports.

    python -m benchmarks.floor

Imports all of `edge_agent`, numpy and ONNX Runtime, loads no model, connects to nobody, and prints
its peak in bytes. What an agent takes above it is what the partition costs.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

from benchmarks.process import peak_nbytes
from wire.errors import OperatorError

LIMIT_S = 60.0


def floor_nbytes() -> int:
    """The peak of a process that only imports; raises `OperatorError` if it fails."""
    command = [sys.executable, "-m", __name__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0 or not done.stdout.strip().isdecimal():
        raise OperatorError(f"the floor cannot be measured: {done.stderr.strip()[-300:]}")
    return int(done.stdout)


def main() -> None:
    import edge_agent

    for module in pkgutil.walk_packages(edge_agent.__path__, "edge_agent."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    importlib.import_module("edge_agent.adapters.runtime.onnx_runtime").import_runtime()
    print(peak_nbytes())


if __name__ == "__main__":
    main()
