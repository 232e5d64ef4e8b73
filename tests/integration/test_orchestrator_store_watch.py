"""The watch on a real store: what came, changed and went, and a store that is away."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model_store.server import StoreServer
from orchestrator.adapters.store_watch import StoreWatch
from tests.support.tiny_manifest import tiny_manifest
from wire.errors import CrowdpipeError
from wire.ids import digest_of
from wire.manifest import BlobRef, Manifest, Reference
from wire.record import encode
from wire.topics import Role


class Told:
    """Keeps what the watch tells, in order."""

    def __init__(self) -> None:
        self.all: queue.Queue[tuple[str, Any]] = queue.Queue()

    def model_added(self, manifest: Manifest) -> None:
        self.all.put(("added", manifest))

    def model_removed(self, name: str) -> None:
        self.all.put(("removed", name))

    def model_replaced(self, name: str) -> None:
        self.all.put(("replaced", name))

    def store_read(self) -> None:
        self.all.put(("read", None))

    def store_failed(self, error: CrowdpipeError) -> None:
        self.all.put(("failed", error.kind))

    def ended(self, error: CrowdpipeError) -> None:
        self.all.put(("ended", error.kind))

    def since(self) -> list[tuple[str, Any]]:
        said = []
        while not self.all.empty():
            said.append(self.all.get())
        return said


def verify(user: str, secret: str) -> Role | None:
    return "orchestrator" if (user, secret) == ("orchestrator", "s") else None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreServer]:
    with StoreServer(tmp_path / "store", authorise=verify) as store:
        yield store


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def watch(store: StoreServer, told: Told) -> Iterator[StoreWatch]:
    watch = StoreWatch(store.base, told, "orchestrator", "s")
    yield watch
    watch.close()


def put(store: StoreServer, seed: str = "a", **changes: Any) -> Manifest:
    """A manifest whose blobs are in the store."""
    manifest = tiny_manifest("tiny", weights=(10,))
    (segment,) = manifest.segments
    data = seed.encode()
    blob = BlobRef(digest_of(data), len(data))
    store.blobs.put([data])
    made = replace(manifest, segments=(replace(segment, graph=blob, weights=()),), **changes)
    store.manifests.put("tiny", encode(made))
    return made


def test_a_model_is_told_once_and_when_it_goes(store: StoreServer, told: Told, watch: StoreWatch):
    watch.look()
    assert told.since() == [("read", None)]
    manifest = put(store)
    watch.look()
    watch.look()
    assert told.since() == [("added", manifest), ("read", None), ("read", None)]
    store.manifests.remove("tiny")
    watch.look()
    assert told.since() == [("removed", "tiny"), ("read", None)]


def test_a_manifest_travels_only_when_its_bytes_changed(
    store: StoreServer, told: Told, watch: StoreWatch
):
    answers: list[int] = []
    watch._http.event_hooks = {"response": [lambda answer: answers.append(answer.status_code)]}
    put(store)
    watch.look()
    watch.look()
    put(store, "b")
    watch.look()
    assert answers == [200, 200, 304, 200, 200]
    (store.manifests.folder / "tiny.json").write_bytes(b"{")
    for _ in range(3):
        watch.look()
    assert answers[5:] == [200, 200, 304, 304]


def test_a_manifest_that_is_mended_as_it_was_changes_nothing(
    store: StoreServer, told: Told, watch: StoreWatch
):
    path = store.manifests.folder / "tiny.json"
    manifest = put(store)
    watch.look()
    good = path.read_bytes()
    for content in (b"{", good, b"{", good):
        path.write_bytes(content)
        watch.look()
    assert [each for each in told.since() if each[0] != "read"] == [("added", manifest)]
    assert not watch._refused


def test_another_model_of_the_same_name_replaces_the_old_one(
    store: StoreServer, told: Told, watch: StoreWatch
):
    put(store)
    watch.look()
    told.since()
    other = put(store, "b")
    watch.look()
    assert told.since() == [("replaced", "tiny"), ("added", other), ("read", None)]


def test_what_was_measured_later_does_not_end_a_models_runs(
    store: StoreServer, told: Told, watch: StoreWatch
):
    put(store)
    watch.look()
    told.since()
    measured = put(store, reference=Reference("1.20", 2e-6))
    watch.look()
    assert told.since() == [("added", measured), ("read", None)]


def test_a_store_that_is_away_is_told_once_and_takes_no_model_with_it(
    store: StoreServer, told: Told, watch: StoreWatch
):
    put(store)
    watch.look()
    told.since()
    store.stop()
    for _ in range(3):
        watch.look()
    assert told.since() == [("failed", "store_unreachable")]
    store.start()
    watch.look()
    assert told.since() == [("read", None)]


def test_a_wrong_secret_is_a_refusal(store: StoreServer, told: Told):
    watch = StoreWatch(store.base, told, "orchestrator", "wrong")
    watch.look()
    watch.close()
    assert told.since() == [("failed", "refused")]


def test_a_manifest_that_cannot_be_read_keeps_no_other_from_being_served(
    store: StoreServer, told: Told, watch: StoreWatch
):
    manifest = put(store)
    (store.manifests.folder / "broken").write_bytes(b"{}")
    (store.manifests.folder / "broken.json").write_bytes(b"{}")
    watch.look()
    assert told.since() == [("added", manifest), ("read", None)]


def test_it_looks_by_itself(store: StoreServer, told: Told):
    watch = StoreWatch(store.base, told, "orchestrator", "s", every_s=0.05)
    watch.start()
    assert told.all.get(timeout=10) == ("read", None)
    manifest = put(store)
    while (said := told.all.get(timeout=10))[0] == "read":
        continue
    assert said == ("added", manifest)
    watch.close()
