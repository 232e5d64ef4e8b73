"""Modules of the standard library that load when they are first touched, not when imported.

paho imports what only TLS, web sockets and proxies use (`ssl`, `urllib.request`, and with them
OpenSSL and the email package): 8 MB that an agent on a plain connection never touches (measured).
While `deferred_modules` lasts, these imports get a stand-in that passes everything on to the real
module, which it imports then. Nothing is taken away: TLS works, and loads what it needs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# Each with the exceptions that callers name in `except`: nothing can raise them before the module
# is there, so naming one need not load it.
MODULES: dict[str, frozenset[str]] = {
    "ssl": frozenset({"SSLWantReadError", "SSLWantWriteError", "CertificateError"}),
    "hashlib": frozenset(),
    "http.client": frozenset({"HTTPException"}),
    "urllib.request": frozenset(),
}


class NeverRaised(Exception):
    """Stands for an exception of a module that is not loaded."""


class Deferred(ModuleType):
    """Stands for a module of the same name."""

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if attribute in MODULES[name] and name not in sys.modules:
            return NeverRaised
        return getattr(importlib.import_module(name), attribute)


@contextmanager
def deferred_modules() -> Iterator[None]:
    """Imports within get stand-ins of `MODULES` that are not loaded yet."""
    stands = {name: Deferred(name) for name in MODULES if name not in sys.modules}
    for name, stand in stands.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(importlib.import_module(parent), child, stand)
        sys.modules[name] = stand
    try:
        yield
    finally:
        for name, stand in stands.items():
            if sys.modules.get(name) is stand:
                del sys.modules[name]
