"""Whether a signature is the desk's: by OpenSSL where that is in memory anyway, else in Python.

An agent with nothing to do hears an order now and then, and has neither hashed nor computed
anything: OpenSSL would take 6 MB for it (measured), Python takes 4 ms. One at work has it loaded,
and hears many.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from edge_agent.adapters.device import ed25519

AT_WORK = ("_hashlib", "numpy")


class SignatureCheck:
    """Of signatures by `key`. Used by one thread."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._verify: Callable[[bytes, bytes, bytes], bool] = ed25519.verify
        self._looked = False

    def signed(self, signature: bytes, message: bytes) -> bool:
        if not self._looked and any(name in sys.modules for name in AT_WORK):
            self._look()
        return self._verify(self._key, signature, message)

    def _look(self) -> None:
        from edge_agent.adapters.device.libcrypto import find_verify

        self._looked = True
        self._verify = find_verify() or ed25519.verify
