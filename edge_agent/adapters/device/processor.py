"""Which kind of processor this is: what is packed for one need not suit another."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from wire.ids import digest_of

_CPUINFO = Path("/proc/cpuinfo")
_FEATURES = re.compile(r"^(?:flags|features|model)\s*:.*$", re.I | re.M)


@functools.cache
def processor_features() -> str:
    """A digest of architecture and instruction sets, over all cores. Only the architecture
    counts where `/proc/cpuinfo` cannot be read."""
    try:
        told = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        told = ""
    lines = sorted({" ".join(line.split()) for line in _FEATURES.findall(told)})
    return digest_of("\n".join([os.uname().machine, *lines]).encode())
