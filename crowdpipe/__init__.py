"""crowdpipe: run one ONNX model, unmodified, across a crowd of devices.

    session = crowdpipe.Session("minilm")
    outputs = session.run(None, feeds)

Importing this loads nothing else; what is named here comes when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdpipe import errors as errors
    from crowdpipe.client.fleet import devices as devices
    from crowdpipe.client.fleet import models as models
    from crowdpipe.client.fleet import plan as plan
    from crowdpipe.client.run_list import cancel as cancel
    from crowdpipe.client.run_list import runs as runs
    from crowdpipe.client.session import Session as Session

__version__ = "0.1.0"
__all__ = ["Session", "__version__", "cancel", "devices", "errors", "models", "plan", "runs"]

_PLACES = {
    "Session": "crowdpipe.client.session",
    "cancel": "crowdpipe.client.run_list",
    "runs": "crowdpipe.client.run_list",
    "devices": "crowdpipe.client.fleet",
    "models": "crowdpipe.client.fleet",
    "plan": "crowdpipe.client.fleet",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("crowdpipe.errors")
    if name not in _PLACES:
        raise AttributeError(f"module 'crowdpipe' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
