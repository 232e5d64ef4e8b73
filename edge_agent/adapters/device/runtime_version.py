"""Which ONNX Runtime this device has, and what follows from its version, without importing it.

Loading and running are done in `runtime.onnx_runtime`.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

from edge_agent.adapters.device.processor import processor_features

# The highest opset of the default domain that a version takes (looked up or measured).
_OPSETS = ((32, 28), (29, 26), (22, 23), (18, 21), (17, 20), (15, 19), (14, 18), (0, 17))
_PREPARING_SINCE = (1, 21)  # saves packed weights
# Fusions whose kernels take longer than what they replace (measured with 1.32 on x86-64, [128, 768]
# and [128, 3072]: 0.61 against 0.10 ms, and 0.76 against 0.49), and which a plan's cuts bring
# about: fused kernels made 19 segments take 94 ms where one session of the whole model takes 88.
UNFUSED = ("SkipLayerNormFusion", "BiasGeluFusion")
_VERSION = re.compile(r"""^__version__\s*=\s*["']([^"']+)["']""", re.MULTILINE)


@functools.cache
def runtime_version() -> str:
    """The installed ONNX Runtime's version, read without importing it; empty if there is none.

    `importlib.metadata` would say it too, and takes more memory than all the rest of an idle
    agent's modules of ours.
    """
    for folder in sys.path:
        package = Path(folder or ".") / "onnxruntime" / "__init__.py"
        try:
            found = _VERSION.search(package.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
        return found.group(1) if found else ""
    return ""


def max_opset(version: str) -> int:
    """The highest opset that this version of ONNX Runtime accepts; 0 if there is none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        return 0
    major, minor = int(found.group(1)), int(found.group(2))
    if major > 1:
        return _OPSETS[0][1]
    return next(opset for least, opset in _OPSETS if minor >= least)


def can_prepare(version: str) -> bool:
    """Whether that version saves packed weights."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found.group(1)), int(found.group(2))) >= _PREPARING_SINCE


def prepared_for() -> str:
    """What prepared segments are made for: they suit no other runtime or processor."""
    return f"{runtime_version()} without {' '.join(UNFUSED)}, {processor_features()}"
