"""A home in one file: its users with their secrets, the authority that vouches for it, the journal,
the desk's key, and models if asked for.

A tar file, so that a person can look into it; `restore` reads it back. The journal is copied by
SQLite while the orchestrator goes on writing: what was on disk at one moment, whole. Not in it are
what is made anew at each start (the broker's files), and what devices keep.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import sqlite3
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from broker_config.credentials import FILE_NAME as USERS
from crowdpipe.home import AUTHORITY_KEY, AUTHORITY_NAME, TLS_FOLDER
from model_store.blobs import FolderBlobs, sync_folder
from model_store.manifests import Manifests, read_manifest
from orchestrator.adapters.home import DESK_KEY, JOURNAL
from orchestrator.adapters.journal_check import check_file
from orchestrator.adapters.journal_file import connect
from orchestrator.adapters.journal_space import is_full
from orchestrator.shell.settings import JOURNAL_FOLDER
from wire.errors import BlobMissing, OperatorError, UnknownModel, UserError
from wire.record import encode
from wire.unwritable import FULL, unwritable

FORMAT = 1
HEAD = "backup.json"
JOURNAL_MEMBER = f"{JOURNAL_FOLDER}/{JOURNAL}"
KEY_MEMBER = f"{JOURNAL_FOLDER}/{DESK_KEY}"
# What a file system answers that has no second names for a file, as on most sticks (FAT, exFAT).
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
# By which devices and users know the desk, wherever it is restored.
AUTHORITY_MEMBERS = (f"{TLS_FOLDER}/{AUTHORITY_NAME}", f"{TLS_FOLDER}/{AUTHORITY_KEY}")
BLOBS, MANIFESTS = "store/blobs", "store/manifests"


@dataclass(frozen=True, slots=True)
class BackupHead:
    """The first member. `digests`: SHA-256 of the members that do not carry their own name."""

    format: int
    made_at: str
    digests: dict[str, str]
    models: tuple[str, ...]

    @property
    def with_journal(self) -> bool:
        return JOURNAL_MEMBER in self.digests


def back_up(home: Path, file: Path, *, models: bool = False) -> BackupHead:
    """Write `file`, readable by its owner alone, whole or not at all. Raises `UserError` if it is
    there already, `OperatorError` if the home has nothing to keep, `DiskFull` without room."""
    if file.exists():
        raise UserError(f"{file} is there already; choose another name")
    if not (home / USERS).exists():
        raise OperatorError(f"{home} is no home of crowdpipe: there are no users in it")
    try:
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=file.absolute().parent) as folder:
            made = Path(folder) / "backup.tar"
            head = _write(home, made, Path(folder), models)
            _put(made, file)
        _sync(file.absolute().parent)
    except FileExistsError:
        raise UserError(f"{file} is there already; choose another name") from None
    except OSError as error:
        if error.errno in FULL:
            raise unwritable(file.absolute().parent, error) from None
        raise OperatorError(f"cannot write {file}: {error.strerror or error}") from None
    return head


def _put(made: Path, file: Path) -> None:
    """Unlike a rename alone it never replaces another's. Raises `FileExistsError`."""
    try:
        os.link(made, file)
        return
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # the name is ours now
    try:
        made.replace(file)
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _sync(folder: Path) -> None:
    """As far as its file system can: some network folders refuse it."""
    try:
        sync_folder(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _write(home: Path, made: Path, folder: Path, models: bool) -> BackupHead:
    kept = {USERS: home / USERS}
    if all((home / name).exists() for name in AUTHORITY_MEMBERS):
        kept |= {name: home / name for name in AUTHORITY_MEMBERS}
    small = frozenset(kept)
    journal = home / JOURNAL_FOLDER / JOURNAL
    if journal.exists():
        kept[JOURNAL_MEMBER] = _copied(journal, folder / JOURNAL)
    key = home / JOURNAL_FOLDER / DESK_KEY
    if key.exists():
        kept[KEY_MEMBER] = key
    blobs = FolderBlobs(home / "store")
    manifests = Manifests(home / "store", blobs)
    names = tuple(manifests.names()) if models else ()
    contents = {name: path.read_bytes() for name, path in kept.items() if name in small}
    digests = {
        name: hashlib.sha256(contents[name]).hexdigest() if name in contents else _digest(path)
        for name, path in kept.items()
    }
    head = BackupHead(FORMAT, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), digests, names)
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out:
        with tarfile.open(fileobj=out, mode="w") as tar:
            _add_bytes(tar, HEAD, encode(head, indent=2))
            for name, path in kept.items():
                if name in contents:
                    _add_bytes(tar, name, contents[name])
                else:
                    _add_file(tar, name, path)
            for name in names:
                _add_model(tar, blobs, manifests, name)
        out.flush()
        os.fsync(out.fileno())
    return head


def _copied(journal: Path, copy: Path) -> Path:
    """The journal as it is at one moment, in one file. Raises `JournalDamaged`."""
    try:
        source, target = connect(journal, read_only=True), sqlite3.connect(copy)
        try:
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")
        finally:
            target.close()
            source.close()
    except sqlite3.Error as error:
        if is_full(copy, error):
            raise OSError(errno.ENOSPC, str(error)) from None  # as any other file beside it
        raise OperatorError(f"cannot copy the journal {journal}: {error}") from None
    check_file(copy)
    return copy


def _add_model(tar: tarfile.TarFile, blobs: FolderBlobs, manifests: Manifests, name: str) -> None:
    """Content first, manifest last; one that is removed meanwhile is left out."""
    try:
        data = manifests.get(name)
        for blob in read_manifest(name, data).blobs:
            if f"{BLOBS}/{blob.digest}" not in tar.getnames():
                _add_file(tar, f"{BLOBS}/{blob.digest}", blobs.path(blob.digest))
    except (UnknownModel, FileNotFoundError):
        if name in manifests.names():
            raise BlobMissing(f"model {name} is not whole; add it again, or leave it") from None
        return
    _add_bytes(tar, f"{MANIFESTS}/{name}.json", data)


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
    tar.addfile(member, io.BytesIO(data))


def _add_file(tar: tarfile.TarFile, name: str, path: Path) -> None:
    with path.open("rb") as file:
        member = tarfile.TarInfo(name)
        member.size = os.fstat(file.fileno()).st_size
        member.mode, member.mtime = 0o600, int(time.time())
        tar.addfile(member, file)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
