"""Bytes as activations have them: float32 around zero."""

from __future__ import annotations

import random
import struct


def gaussian(count: int, seed: int = 1) -> bytes:
    chance = random.Random(seed)
    return struct.pack(f"<{count}f", *(chance.gauss(0, 1) for _ in range(count)))
