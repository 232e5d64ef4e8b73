"""The desk's own key pair (Ed25519): made once, kept in its folder, signs its orders.

The private part never leaves the file, which its owner alone may read; the public one is what
agents are given. A file that cannot be read is not replaced: each agent knows its key and obeys no
other.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wire.errors import OperatorError
from wire.outbox import Message
from wire.signed_orders import SIGNATURE, signed_bytes, write_bytes
from wire.unwritable import unwritable

PRIVATE = 0o600
FILE_NBYTES = 4096  # more than such a file has


class DeskKey:
    """Safe to use from any thread."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = write_bytes(private.public_key().public_bytes_raw())

    def signed(self, order: Message) -> Message:
        """The same, with its signature beside the payload."""
        signature = self._private.sign(signed_bytes(order.topic, order.payload))
        said = (SIGNATURE, write_bytes(signature))
        return replace(order, properties=(*order.properties, said))


def open_desk_key(path: Path) -> DeskKey:
    """The one in `path`, made if there is none. Raises `DiskFull` or `OperatorError`."""
    try:
        return _read(path)
    except FileNotFoundError:
        return _make(path)


def check_desk_key(path: Path) -> None:
    """Raises `OperatorError` if this is no such file."""
    try:
        if path.stat().st_size > FILE_NBYTES:
            raise ValueError("it is too large")
        _parsed(path.read_bytes())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise OperatorError(f"this is no key of a desk: {error}") from None


def _read(path: Path) -> DeskKey:
    try:
        return DeskKey(_parsed(path.read_bytes()))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise OperatorError(f"cannot read the desk's key {path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise OperatorError(
            f"the desk's key {path} is damaged ({error}): restore it from a backup; or remove it, "
            "and type on each phone the line that `crowdpipe device add` then prints"
        ) from None


def _parsed(data: bytes) -> Ed25519PrivateKey:
    key = serialization.load_pem_private_key(data, password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("it is of another kind")
    return key


def _make(path: Path) -> DeskKey:
    private = Ed25519PrivateKey.generate()
    data = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        _write(path, data)
    except OSError as error:
        raise unwritable(path.parent, error) from None
    return DeskKey(private)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, on the disk before anything is signed by it. Whoever works in the folder
    holds its lock, so that nobody else writes there."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
