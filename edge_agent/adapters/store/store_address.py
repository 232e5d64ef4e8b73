"""Where blobs are: the assignment's base, completed with the broker's host as we reached it.

A base without a host (`:8080`, `http://:8080/prefix`) leaves the choice of route to each device,
since the laptop that runs broker and store has another address in every network. A base may name
the authority that vouches for the store, as a broker's address does, where the broker is somebody
else's: by it the device was told what to fetch, and each blob's digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from wire.authority import is_fingerprint
from wire.broker_url import AUTHORITY
from wire.errors import Malformed
from wire.ids import check_digest


@dataclass(frozen=True, slots=True)
class StoreAddress:
    host: str
    port: int
    tls: bool
    prefix: str
    authority: str | None = None

    def blob(self, digest: str) -> str:
        """The path of a blob on the store."""
        return f"{self.prefix}/blobs/{check_digest(digest)}"

    @property
    def shown(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.prefix}"


def parse_store(base: str, broker_host: str) -> StoreAddress:
    """`base` as an address. Raises `Malformed`: assignments are the orchestrator's words."""
    text = base if "://" in base else f"http://{base}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise Malformed(f"the store's base {base!r}: {error}") from None
    authority = parts.query.removeprefix(AUTHORITY) if parts.query else None
    if authority is not None and not is_fingerprint(authority):
        raise Malformed(f"the store's base {base!r} names no authority by its fingerprint")
    if parts.scheme not in ("http", "https") or parts.username or parts.fragment:
        raise Malformed(f"the store's base {base!r} is no plain http or https address")
    if not parts.hostname and port is None:
        raise Malformed(f"the store's base {base!r} has neither host nor port")
    tls = parts.scheme == "https"
    return StoreAddress(
        host=parts.hostname or broker_host,
        port=port if port is not None else (443 if tls else 80),
        tls=tls,
        prefix=parts.path.rstrip("/"),
        authority=authority,
    )
