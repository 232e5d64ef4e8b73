"""Verifies an Ed25519 signature with OpenSSL's libcrypto, through `ctypes`.

The library is the one that Python's own hash functions are linked with: it is in memory already
once anything was hashed. Where it cannot be found, is too old for Ed25519, or does not pass a trial
of a signature that is known, there is no verifier, and `ed25519` has to do.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

ED25519 = 1087  # NID_ED25519 of OpenSSL 1.1.1 and later
NAMES = ("libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so")
_NEEDED = ("EVP_PKEY_new_raw_public_key", "EVP_DigestVerifyInit", "EVP_DigestVerify")
# RFC 8032, section 7.1, test 1: of the empty message.
_TRIAL_KEY = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
_TRIAL_SIGNATURE = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)

Verify = Callable[[bytes, bytes, bytes], bool]


def find_verify() -> Verify | None:
    """What answers whether `key` signed `message`, given as (key, signature, message)."""
    for library in _libraries():
        verify = _verifier(library)
        if _passes(verify):
            return verify
    return None


def _libraries() -> Iterator[Any]:
    """Those that have what is needed. A name found through another library is one that this was
    linked with, so the first needs no path of its own."""
    for name in (_linked(), *_beside(), *NAMES):
        if not name or (sys.platform == "darwin" and name in NAMES):
            continue  # macOS ends a process that loads its own libcrypto by name
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if all(hasattr(library, each) for each in _NEEDED):
            yield library


def _linked() -> str | None:
    try:
        import _hashlib
    except ImportError:
        return None
    return getattr(_hashlib, "__file__", None)


def _beside() -> tuple[str, ...]:
    """Where Termux has it."""
    prefix = os.environ.get("PREFIX")
    return tuple(f"{prefix}/lib/{name}" for name in NAMES) if prefix else ()


def _verifier(library: Any) -> Verify:
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    new_key = _typed(
        library.EVP_PKEY_new_raw_public_key, pointer, ctypes.c_int, pointer, text, size
    )
    free_key = _typed(library.EVP_PKEY_free, None, pointer)
    new_context = _typed(library.EVP_MD_CTX_new, pointer)
    free_context = _typed(library.EVP_MD_CTX_free, None, pointer)
    begin = _typed(library.EVP_DigestVerifyInit, ctypes.c_int, *[pointer] * 5)
    check = _typed(library.EVP_DigestVerify, ctypes.c_int, pointer, text, size, text, size)
    forget_errors = _typed(library.ERR_clear_error, None)

    def verify(key: bytes, signature: bytes, message: bytes) -> bool:
        public, context = new_key(ED25519, None, key, len(key)), new_context()
        try:
            return bool(
                public
                and context
                and begin(context, None, None, None, public) == 1
                and check(context, signature, len(signature), message, len(message)) == 1
            )
        finally:
            free_context(context)
            free_key(public)
            forget_errors()  # else Python's own TLS would find them in this thread

    return verify


def _typed(function: Any, result: Any, *arguments: Any) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


def _passes(verify: Verify) -> bool:
    """It takes what is right and refuses what is not."""
    return verify(_TRIAL_KEY, _TRIAL_SIGNATURE, b"") and not verify(
        _TRIAL_KEY, _TRIAL_SIGNATURE, b"x"
    )
