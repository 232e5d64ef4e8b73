"""How activations travel: left to the sender, always deflated, never, or with fewer bits."""

from __future__ import annotations

from typing import Literal, get_args

Transport = Literal["auto", "zlib", "raw", "fp16", "int8"]
TRANSPORTS: tuple[Transport, ...] = get_args(Transport)
