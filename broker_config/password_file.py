"""Mosquitto's password file: one line a user, `name:$7$iterations$salt$hash`.

The hash is PBKDF2 with SHA-512, as `mosquitto_passwd` writes it. Iterations make guessing slow,
which protects what a person chose. A secret of 256 random bits, as `broker_config.credentials`
generates it, cannot be guessed at any speed, so it gets one iteration: the broker computes the
hash on its only thread at each connect, and we compute all of them at each start and each new
user (10,000 devices: 2 to 4 s with Mosquitto's own default of 101, 0.1 s with one). A shorter
secret, which somebody wrote into the file of users by hand, keeps the default.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping

STRETCHING_ITERATIONS = 101  # Mosquitto's own default
GENERATED_LENGTH = 43  # 256 bits in base64, as credentials are generated
SALT_NBYTES = 12  # Mosquitto 2.0 accepts no other length
HASH_NBYTES = 64


def password_line(name: str, secret: str, salt: bytes | None = None) -> str:
    """The line of one user, without its end."""
    salt = secrets.token_bytes(SALT_NBYTES) if salt is None else salt
    iterations = 1 if len(secret) >= GENERATED_LENGTH else STRETCHING_ITERATIONS
    derived = hashlib.pbkdf2_hmac("sha512", secret.encode(), salt, iterations, HASH_NBYTES)
    return f"{name}:$7${iterations}${b64encode(salt).decode()}${b64encode(derived).decode()}"


def password_file(secret_of: Mapping[str, str], before: str = "") -> str:
    """The whole file for `{name: secret}`. Lines of the file `before` that still hold are kept, so
    that nothing has to be written where nothing has changed."""
    known = {line.partition(":")[0]: line for line in before.splitlines()}
    lines = (_kept(known.get(name, ""), name, secret) for name, secret in secret_of.items())
    return "".join(f"{line}\n" for line in lines)


def _kept(line: str, name: str, secret: str) -> str:
    """`line` if it is of this name and secret, else a new one."""
    salt = _salt_of(line)
    if salt is not None and password_line(name, secret, salt) == line:
        return line
    return password_line(name, secret)


def _salt_of(line: str) -> bytes | None:
    parts = line.split("$")
    try:
        salt = b64decode(parts[3], validate=True) if len(parts) == 5 else b""
    except ValueError:
        return None
    return salt if len(salt) == SALT_NBYTES else None
