"""Which models the store has, asked once a second: says what came, changed and went.

While nothing changed that is one small question; a manifest travels again only when its bytes
changed. While the store cannot be reached nothing is said to have gone; that it cannot, and that it
can again, is said once each. Reads manifests only: blobs are between the store and the devices.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import httpx

from bus.trust import Trust
from bus.vital_thread import VitalThread
from wire.errors import CrowdpipeError, Malformed, Refused, StoreUnreachable, TooLarge
from wire.ids import check_name, digest_of
from wire.manifest import Manifest
from wire.record import decode

EVERY_S = 1.0
TIMEOUT_S = 10.0  # until the store answers, and between two pieces of what it sends
BODY_LIMIT_S = 60.0
MANIFEST_LIMIT_NBYTES = 32 << 20
MODELS_LIMIT = 10_000
CLOSE_LIMIT_S = 15.0

_log = logging.getLogger("crowdpipe.orchestrator.store")


class StoreListener(Protocol):
    """Called in the watch's thread. `store_read` comes after each complete look;
    `model_replaced` before the other of that name is added; `ended` if there
    will be no more of them."""

    def model_added(self, manifest: Manifest) -> None: ...
    def model_removed(self, name: str) -> None: ...
    def model_replaced(self, name: str) -> None: ...
    def store_read(self) -> None: ...
    def store_failed(self, error: CrowdpipeError) -> None: ...
    def ended(self, error: CrowdpipeError) -> None: ...


@dataclass(frozen=True, slots=True)
class Found:
    """What the store gave, and the tag by which it knows whether it is still that."""

    body: bytes
    tag: str | None


class StoreWatch:
    def __init__(
        self,
        base: str,
        listener: StoreListener,
        user: str | None = None,
        secret: str | None = None,
        authority: Path | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._base = base.rstrip("/")
        self._listener = listener
        self._every_s = every_s
        login = httpx.BasicAuth(user, secret or "") if user is not None else None
        # The store is ours and near: a proxy that the environment names is not for it.
        trust = Trust(None if authority is None else str(authority))
        verified = trust.context if base.startswith("https:") else True
        self._http = httpx.Client(auth=login, timeout=TIMEOUT_S, trust_env=False, verify=verified)
        self._listing: str | None = None
        self._known: dict[str, str] = {}
        self._manifests: dict[str, Manifest] = {}
        self._refused: dict[str, str] = {}
        self._failing = False
        self._closing = threading.Event()
        self._thread = VitalThread("store-watch", self._run, listener.ended)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_LIMIT_S)
        self._http.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            self.look()
            self._closing.wait(self._every_s)

    def look(self) -> None:
        """One look at the store, and what it tells."""
        try:
            self._look()
        except CrowdpipeError as error:
            if not self._failing:
                self._failing = True
                _log.warning("%s", error)
                self._listener.store_failed(error)
            return
        except Exception:
            _log.exception("looking at the store failed")
            return
        if self._failing:
            self._failing = False
            _log.info("the store at %s answers again", self._base)
        self._listener.store_read()

    def _look(self) -> None:
        """One question while nothing changes. The listing's tag is kept once all of it was seen."""
        found = self._get("/manifests", self._listing)
        if isinstance(found, Found):
            self._compare(_names(found.body))
            self._listing = found.tag
        elif found == "gone":
            raise StoreUnreachable(f"{self._base} is no model store; start one with `crowdpipe up`")

    def _compare(self, names: list[str]) -> None:
        for name in names:
            known = self._refused.get(name) or self._known.get(name)
            found = self._get(f"/manifests/{name}", known)
            if isinstance(found, Found):
                self._seen(name, found.body)
        for name in [name for name in self._known if name not in names]:
            del self._known[name], self._manifests[name]
            self._listener.model_removed(name)
        self._refused = {name: why for name, why in self._refused.items() if name in names}

    def _seen(self, name: str, data: bytes) -> None:
        digest = digest_of(data)
        if digest == self._known.get(name):
            self._refused.pop(name, None)
            return
        try:
            manifest = _manifest(name, data)
        except (Malformed, TooLarge) as error:
            self._refused[name] = digest
            _log.error("model %r cannot be served: %s", name, error)
            return
        known = self._manifests.get(name)
        if known is not None and not known.serves_as(manifest):
            self._listener.model_replaced(name)  # the old one's runs end
        self._known[name], self._manifests[name] = digest, manifest
        self._listener.model_added(manifest)

    def _get(self, path: str, known: str | None = None) -> Found | Literal["gone", "same"]:
        """The same: it is still the one whose tag is known."""
        headers = {"If-None-Match": f'"{known}"'} if known is not None else {}
        try:
            with self._http.stream("GET", self._base + path, headers=headers) as answer:
                if answer.status_code in (304, 404):
                    return "same" if answer.status_code == 304 else "gone"
                if answer.status_code in (401, 403):
                    raise Refused(
                        f"the store at {self._base} does not let us read models "
                        f"({answer.status_code}); check the orchestrator's secret"
                    )
                answer.raise_for_status()
                return Found(_body(answer), answer.headers.get("ETag", "").strip('"') or None)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise StoreUnreachable(
                f"the store at {self._base} cannot be read: {error}; start it with `crowdpipe up`"
            ) from None


def _names(data: bytes) -> list[str]:
    names: Any = decode(tuple[str, ...], data)
    if len(names) > MODELS_LIMIT:
        raise TooLarge(f"the store lists {len(names)} models; {MODELS_LIMIT} are read")
    return [check_name(name, "model name") for name in names]


def _body(answer: httpx.Response) -> bytes:
    body, limit_at = bytearray(), time.monotonic() + BODY_LIMIT_S
    for piece in answer.iter_bytes():
        body += piece
        if len(body) > MANIFEST_LIMIT_NBYTES:
            raise TooLarge(f"{answer.url} is longer than {MANIFEST_LIMIT_NBYTES} bytes")
        if time.monotonic() > limit_at:
            raise StoreUnreachable(f"{answer.url} did not end within {BODY_LIMIT_S:g} s")
    return bytes(body)


def _manifest(name: str, data: bytes) -> Manifest:
    manifest: Manifest = decode(Manifest, data, limit=MANIFEST_LIMIT_NBYTES)
    if manifest.name != name:
        raise Malformed(f"it has the name {manifest.name!r}")
    return manifest
