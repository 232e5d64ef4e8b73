"""Names, digests and identifiers: what is allowed, and how a fresh one is minted.

A name is what people choose (devices, models, users). A digest is the SHA-256 of bytes, in
lower-case hex. A run's id is minted by the client, so that submitting twice is one run.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass

from wire.errors import InvalidName, Malformed

RESERVED = frozenset({"orchestrator", "clients", "from"})
NAME_NBYTES = 32  # at most
_NAME = re.compile(rf"[a-z0-9-]{{1,{NAME_NBYTES}}}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_name(name: str, what: str = "name") -> str:
    """`name` itself, if it may stand in a topic; otherwise `InvalidName` that says why."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"{what} {name!r} is not allowed: use 1 to 32 of the characters a-z, 0-9 and '-'"
        )
    if name in RESERVED:
        raise InvalidName(f"{what} {name!r} is reserved; choose another")
    return name


def is_name(text: str) -> bool:
    """Whether `text` may stand in a topic, as `check_name` asks of names."""
    return _NAME.fullmatch(text) is not None and text not in RESERVED


def check_digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise Malformed(f"{text[:80]!r} is not a SHA-256 digest in lower-case hex")
    return text


def digest_of(data: bytes | bytearray | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def mint(nbytes: int = 8) -> str:
    """A fresh identifier of `2 * nbytes` hex characters, for runs, boots and connections."""
    return os.urandom(nbytes).hex()


@dataclass(frozen=True, slots=True, order=True)
class ActivationId:
    """What an activation is: whoever sends it, under whatever assignment.

    Cut k is the one before segment k: cut 0 carries the input, cut n the result.
    """

    run: str
    item: int
    cut: int

    def __str__(self) -> str:
        return f"{self.run}/{self.item}@{self.cut}"


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One item's pass through one range of segments, `last` included; `attempt` fences events."""

    run: str
    item: int
    first: int
    last: int
    attempt: int = 0

    @property
    def needs(self) -> ActivationId:
        return ActivationId(self.run, self.item, self.first)

    @property
    def makes(self) -> ActivationId:
        return ActivationId(self.run, self.item, self.last + 1)

    def __str__(self) -> str:
        return f"{self.run}/{self.item}[{self.first}-{self.last}]#{self.attempt}"


@dataclass(frozen=True, slots=True, order=True)
class PartitionId:
    """A range of consecutive segments of one model in one mode, `last` included."""

    model: str
    exact: bool
    first: int
    last: int

    @property
    def cut(self) -> int:
        """The cut after the range, where its output lives."""
        return self.last + 1

    def __str__(self) -> str:
        return f"{self.model[:8]}[{self.first}-{self.last}]{'=' if self.exact else ''}"
