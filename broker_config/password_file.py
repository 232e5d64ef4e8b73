"""Mosquitto's password file: one line a user, `name:$7$iterations$salt$hash`.

The hash is PBKDF2 with SHA-512, as `mosquitto_passwd` writes it. Our secrets are 256 random
bits, which no number of iterations protects better; the broker computes the hash on its only
thread at each connect, so the number stays at Mosquitto's own default.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64encode
from collections.abc import Mapping

ITERATIONS = 101
SALT_NBYTES = 12  # Mosquitto 2.0 accepts no other length
HASH_NBYTES = 64


def password_line(name: str, secret: str, salt: bytes | None = None) -> str:
    """The line of one user, without its end."""
    salt = secrets.token_bytes(SALT_NBYTES) if salt is None else salt
    derived = hashlib.pbkdf2_hmac("sha512", secret.encode(), salt, ITERATIONS, HASH_NBYTES)
    return f"{name}:$7${ITERATIONS}${b64encode(salt).decode()}${b64encode(derived).decode()}"


def password_file(secret_of: Mapping[str, str]) -> str:
    """The whole file for `{name: secret}`."""
    return "".join(password_line(name, secret) + "\n" for name, secret in secret_of.items())
