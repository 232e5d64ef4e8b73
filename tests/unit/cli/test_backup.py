"""`crowdpipe backup` keeps a home as it is at one moment; `restore` makes it again, or nothing."""

from __future__ import annotations

import errno
import io
import os
import queue
import sqlite3
import stat
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_config.credentials import Credentials
from crowdpipe.home import HomeTaken, hold_home
from crowdpipe.serving import backup
from crowdpipe.serving.backup import back_up
from crowdpipe.serving.restore import restore
from model_store.blobs import FolderBlobs
from model_store.manifests import Manifests
from orchestrator.adapters.home import HomeFolder
from orchestrator.adapters.journal import Journal
from orchestrator.run_record import RunRecord
from orchestrator.segmentation.options import SegmentOptions
from orchestrator.segmentation.segmenter import segment
from tests.support.models import mlp, save
from wire.errors import CrowdpipeError, DiskFull, JournalDamaged, OperatorError, UserError
from wire.messages.requests import RunOptions
from wire.record import encode

LIMIT_S = 20.0
FRAME = bytes(range(256)) * 8


def journal_of(home: Path) -> Path:
    return home / "orchestrator" / "journal.sqlite"


def run_of(name: str) -> RunRecord:
    return RunRecord(name, "clients/me/s1", "tiny", "ab" * 32, RunOptions(), 2)


def store_run(journal: Journal, name: str) -> None:
    done: queue.Queue[object] = queue.Queue()
    journal.store_run(run_of(name), done.put, [(0, FRAME), (1, FRAME)])
    assert done.get(timeout=LIMIT_S) is None


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    Credentials(home).add("phone", "device")
    journal = Journal(journal_of(home))
    journal.raise_generation(0, lambda generation, error: None)
    store_run(journal, "r1")
    journal.close()
    return home


def add_model(home: Path) -> None:
    blobs = FolderBlobs(home / "store")
    model = save(mlp(3), home / "mlp.onnx")
    manifest = segment(model, "mlp", blobs.put, options=SegmentOptions(segments=3))
    Manifests(home / "store", blobs).put("mlp", encode(manifest))


def replayed(home: Path) -> list[str]:
    journal = Journal(journal_of(home))
    try:
        for run in journal.replay():
            assert [journal.input_frame(run.run, item) for item in run.inputs] == [FRAME, FRAME]
        return [run.run for run in journal.replay()]
    finally:
        journal.close()


def changed(file: Path, name: str, data: bytes | None) -> Path:
    """The backup with another content of that member, or without it."""
    made = file.with_name("changed.tar")
    with tarfile.open(file) as old, tarfile.open(made, "w") as new:
        for member in old.getmembers():
            content = old.extractfile(member)
            assert content is not None
            said = content.read() if member.name != name else data
            if said is not None:
                member.size = len(said)
                new.addfile(member, io.BytesIO(said))
    return made


def test_a_home_comes_back_with_its_users_runs_and_models(home: Path, tmp_path: Path):
    add_model(home)
    back_up(home, tmp_path / "b.tar", models=True)
    other = tmp_path / "other"
    assert restore(tmp_path / "b.tar", other).models == ("mlp",)
    assert Credentials(other).users() == Credentials(home).users()
    assert replayed(other) == ["r1"]
    store, theirs = FolderBlobs(other / "store"), FolderBlobs(home / "store")
    assert Manifests(other / "store", store).get("mlp") == Manifests(home / "store", theirs).get(
        "mlp"
    )
    assert store.digests() == theirs.digests()
    for digest in store.digests():
        store.verify(digest)


def test_what_is_restored_outranks_all_that_began_after_the_backup(home: Path, tmp_path: Path):
    raised: queue.Queue[int | None] = queue.Queue()
    back_up(home, tmp_path / "b.tar")
    restore(tmp_path / "b.tar", tmp_path / "other")
    for each, starts in ((home, 5), (tmp_path / "other", 1)):
        for _ in range(starts):
            journal = Journal(journal_of(each))
            journal.raise_generation(0, lambda generation, error: raised.put(generation))
            journal.close()
    generations = [raised.get(timeout=LIMIT_S) or 0 for _ in range(6)]
    assert generations[-1] > max(generations[:-1])


def test_models_are_left_out_unless_asked_for(home: Path, tmp_path: Path):
    add_model(home)
    back_up(home, tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as tar:
        names = tar.getnames()
    assert names == ["backup.json", "credentials.json", "orchestrator/journal.sqlite"]


def test_only_its_owner_may_read_it(home: Path, tmp_path: Path):
    back_up(home, tmp_path / "b.tar")
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "home"]


def test_it_is_of_one_moment_while_the_orchestrator_goes_on_writing(home: Path, tmp_path: Path):
    journal = Journal(journal_of(home))
    stop = threading.Event()
    written = []

    def write() -> None:
        while not stop.is_set():
            name = f"more{len(written)}"
            store_run(journal, name)
            written.append(name)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            before = len(written)
            back_up(home, tmp_path / f"{number}.tar")
            restore(tmp_path / f"{number}.tar", tmp_path / f"home{number}")
            runs = replayed(tmp_path / f"home{number}")
            assert len(runs) > before
            assert runs == ["r1", *(f"more{each}" for each in range(len(runs) - 1))]
    finally:
        stop.set()
        writer.join()
        journal.close()


def test_a_file_that_is_there_is_not_written_over(home: Path, tmp_path: Path):
    (tmp_path / "b.tar").write_bytes(b"mine")
    with pytest.raises(UserError, match="already"):
        back_up(home, tmp_path / "b.tar")
    assert (tmp_path / "b.tar").read_bytes() == b"mine"


def without_links(code: int) -> Callable[[object, object], None]:
    def link(source: object, target: object) -> None:
        raise OSError(code, os.strerror(code))

    return link


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_stick_without_hard_links_takes_a_backup_and_keeps_what_it_has(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
):
    monkeypatch.setattr(os, "link", without_links(code))
    back_up(home, tmp_path / "b.tar")
    restore(tmp_path / "b.tar", tmp_path / "other")
    assert replayed(tmp_path / "other") == ["r1"]
    assert stat.S_IMODE((tmp_path / "b.tar").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "home", "other"]


def test_on_a_stick_a_file_that_came_meanwhile_is_not_written_over(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def link(source: object, target: Path) -> None:
        target.write_bytes(b"mine")
        without_links(errno.EPERM)(source, target)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UserError, match="already"):
        back_up(home, tmp_path / "b.tar")
    assert (tmp_path / "b.tar").read_bytes() == b"mine"


@pytest.mark.parametrize("links", [True, False])
def test_a_backup_that_cannot_be_put_in_place_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
):
    def fail(source: object, target: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "link", fail if links else without_links(errno.EPERM))
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OperatorError, match="Input/output error"):
        back_up(home, tmp_path / "b.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_folder_that_cannot_be_synced_at_all_takes_a_backup(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(folder: Path) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(backup, "sync_folder", refuse)
    back_up(home, tmp_path / "b.tar")
    assert (tmp_path / "b.tar").exists()


def test_the_name_of_a_backup_is_on_disk_before_it_is_said_to_be_made(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    synced: list[tuple[Path, bool]] = []
    monkeypatch.setattr(
        backup, "sync_folder", lambda at: synced.append((at, (at / "b.tar").exists()))
    )
    back_up(home, tmp_path / "b.tar")
    assert synced == [(tmp_path, True)]


def test_a_folder_without_users_has_nothing_to_keep(tmp_path: Path):
    with pytest.raises(OperatorError, match="no home"):
        back_up(tmp_path, tmp_path / "b.tar")


def test_a_damaged_journal_is_no_backup(home: Path, tmp_path: Path):
    data = journal_of(home).read_bytes()
    journal_of(home).write_bytes(data.replace(FRAME[:64], bytes(64)))
    with pytest.raises(JournalDamaged):
        back_up(home, tmp_path / "b.tar")
    assert not (tmp_path / "b.tar").exists()


def test_what_a_home_has_already_is_kept_aside_and_only_if_asked(home: Path, tmp_path: Path):
    back_up(home, tmp_path / "b.tar")
    Credentials(home).add("later", "device")
    users = (home / "credentials.json").read_bytes()
    with pytest.raises(UserError, match="--replace"):
        restore(tmp_path / "b.tar", home)
    assert (home / "credentials.json").read_bytes() == users
    restore(tmp_path / "b.tar", home, replace=True)
    assert Credentials(home).get("later") is None
    (kept,) = home.glob("credentials-replaced-*.json")
    assert kept.read_bytes() == users
    assert list((home / "orchestrator").glob("journal-replaced-*.sqlite"))
    assert replayed(home) == ["r1"]


def test_nothing_is_restored_below_a_program_that_serves(home: Path, tmp_path: Path):
    back_up(home, tmp_path / "b.tar")
    other = tmp_path / "other"
    with hold_home(other), pytest.raises(HomeTaken):
        restore(tmp_path / "b.tar", other)
    folder = HomeFolder(other / "orchestrator")
    with pytest.raises(OperatorError, match="already runs"):
        restore(tmp_path / "b.tar", other)
    folder.close()
    assert not (other / "credentials.json").exists()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("backup.json", b"{}"),
        ("backup.json", None),
        ("backup.json", b'{"format": 9, "made_at": "", "digests": {}, "models": []}'),
        (
            "backup.json",
            b'{"format": 1, "made_at": "", "models": [], '
            b'"digests": {"credentials.json": "", "../escaped": ""}}',
        ),
        ("credentials.json", b"{}"),
        ("credentials.json", None),
        ("orchestrator/journal.sqlite", b"another"),
        ("orchestrator/journal.sqlite", None),
    ],
)
def test_of_a_changed_backup_nothing_is_put_in_place(
    home: Path, tmp_path: Path, name: str, data: bytes | None
):
    back_up(home, tmp_path / "b.tar")
    other = tmp_path / "other"
    with pytest.raises(CrowdpipeError, match="backup"):
        restore(changed(tmp_path / "b.tar", name, data), other)
    assert not other.exists()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_of_half_a_backup_nothing_is_put_in_place(home: Path, tmp_path: Path, share: float):
    back_up(home, tmp_path / "b.tar")
    data = (tmp_path / "b.tar").read_bytes()
    (tmp_path / "b.tar").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UserError, match="backup"):
        restore(tmp_path / "b.tar", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_target_is_told_and_not_the_source(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "stick"
    target.mkdir()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFull, match=f"no room left on the disk of {target}: make room"):
        back_up(home, target / "b.tar")
    assert list(target.iterdir()) == []


def test_a_journal_that_does_not_fit_beside_the_target_is_told_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "stick"
    target.mkdir()

    connect = sqlite3.connect

    def connect_to_little_room(path: str, **options: Any) -> sqlite3.Connection:
        connection = connect(path, **options)
        if not options:  # the copy's, not the journal's
            connection.execute("PRAGMA max_page_count=1")
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_to_little_room)
    with pytest.raises(DiskFull, match=f"no room left on the disk of {target}: make room"):
        back_up(home, target / "b.tar")
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("there", [False, True])
def test_a_home_that_does_not_fit_is_gone_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
):
    add_model(home)
    back_up(home, tmp_path / "b.tar", models=True)
    other = tmp_path / "other"
    if there:
        other.mkdir()
    monkeypatch.setattr(Manifests, "put", full)
    with pytest.raises(DiskFull, match=f"no room left on the disk of {other}"):
        restore(tmp_path / "b.tar", other)
    assert other.exists() == there
    assert not there or list(other.iterdir()) == []


def test_a_home_that_was_there_stays_as_it_was_if_a_backup_does_not_fit(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    add_model(home)
    back_up(home, tmp_path / "b.tar", models=True)
    other = tmp_path / "other"
    Credentials(other).add("mine", "device")
    users = (other / "credentials.json").read_bytes()
    monkeypatch.setattr(Manifests, "put", full)
    with pytest.raises(DiskFull):
        restore(tmp_path / "b.tar", other, replace=True)
    assert (other / "credentials.json").read_bytes() == users
    assert not list(other.glob("*replaced*"))
    assert FolderBlobs(other / "store").digests() == []


def test_a_home_without_a_journal_says_so_in_its_backup(tmp_path: Path):
    Credentials(tmp_path / "home").add("phone", "device")
    assert not back_up(tmp_path / "home", tmp_path / "b.tar").with_journal
    (tmp_path / "home" / "orchestrator").mkdir()
    Journal(journal_of(tmp_path / "home")).close()
    assert back_up(tmp_path / "home", tmp_path / "c.tar").with_journal
