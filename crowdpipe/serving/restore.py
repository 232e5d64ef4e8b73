"""What `backup` wrote becomes a home again: all of it is checked before anything is put in place.

Names in the file are compared with the few that a backup has, never used as paths.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from broker_config.credentials import FILE_NAME as USERS
from broker_config.private_file import PRIVATE, make_private_folder
from crowdpipe.home import hold_home
from crowdpipe.serving.additions import adding
from crowdpipe.serving.backup import (
    AUTHORITY_MEMBERS,
    BLOBS,
    FORMAT,
    HEAD,
    JOURNAL_MEMBER,
    KEY_MEMBER,
    MANIFESTS,
    BackupHead,
)
from crowdpipe.serving.stores import ServedStore
from model_store.blobs import FolderBlobs
from model_store.manifests import MAX_MANIFEST_NBYTES, Manifests
from orchestrator.adapters.desk_key import check_desk_key
from orchestrator.adapters.home import DESK_KEY, JOURNAL, HomeFolder
from orchestrator.adapters.journal_aside import set_aside
from orchestrator.adapters.journal_check import check_file
from orchestrator.adapters.journal_file import outgrow
from orchestrator.shell.settings import JOURNAL_FOLDER
from wire.errors import CrowdpipeError, OperatorError, UserError
from wire.record import decode
from wire.unwritable import FULL, unwritable
from wire.users import read_users

CHUNK_NBYTES = 1 << 20
MEMBERS = {USERS, JOURNAL_MEMBER, KEY_MEMBER, *AUTHORITY_MEMBERS}
SMALL_NBYTES = 64 << 20  # the head and the users


def restore(file: Path, home: Path, *, replace: bool = False) -> BackupHead:
    """Raises `UserError` if the file is no whole backup, or if the home has users or a journal of
    its own: with `replace` these are kept aside. `HomeTaken` if it is being served."""
    with (
        _without_a_trace(home),
        hold_home(home),
        closing(HomeFolder(home / JOURNAL_FOLDER)),
        tempfile.TemporaryDirectory(prefix=".restore-", dir=home) as folder,
    ):
        present = [path for path in _places(home) if path.exists()]
        if present and not replace:
            raise UserError(
                f"{present[0]} is there already; give another --home, or --replace to keep what "
                "is there aside"
            )
        try:
            with tarfile.open(file, "r:") as tar:
                return _restore(tar, home, Path(folder))
        except (tarfile.TarError, EOFError) as error:
            raise UserError(f"{file} is no backup, or not a whole one: {error}") from None
        except OSError as error:
            if error.errno in FULL:
                raise unwritable(home, error) from None
            raise OperatorError(f"cannot restore {file}: {error.strerror or error}") from None


@contextmanager
def _without_a_trace(home: Path) -> Iterator[None]:
    """A home that was not there, or had nothing in it, is so again if it was not restored."""
    there = home.is_dir()
    new = not there or not any(home.iterdir())
    try:
        yield
    except BaseException:
        if new and home.is_dir():
            for path in home.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            if not there:
                home.rmdir()
        raise


def _places(home: Path) -> tuple[Path, Path]:
    return home / USERS, home / JOURNAL_FOLDER / JOURNAL


def _restore(tar: tarfile.TarFile, home: Path, folder: Path) -> BackupHead:
    head = _head(tar)
    for name in head.digests:
        _take_out(tar, name, head, folder)
    users = (folder / USERS).read_bytes()
    read_users(users)
    if (folder / JOURNAL).exists():
        check_file(folder / JOURNAL)
        outgrow(folder / JOURNAL)
    if (folder / DESK_KEY).exists():
        check_desk_key(folder / DESK_KEY)
    with _store(home) as store:
        _restore_models(tar, store, head)
    users_at, journal_at = _places(home)
    (folder / USERS).chmod(PRIVATE)
    set_aside(users_at, "replaced")  # from here on nothing needs room
    (folder / USERS).rename(users_at)
    set_aside(journal_at, "replaced")
    if (folder / JOURNAL).exists():
        (folder / JOURNAL).rename(journal_at)
    _restore_key(folder / DESK_KEY, home / JOURNAL_FOLDER / DESK_KEY)
    _restore_authority(head, home, folder)
    return head


def _restore_key(found: Path, at: Path) -> None:
    """Devices obey the desk that they were added by, so that its key comes along. A backup of
    before desks had keys leaves the one that is here."""
    if found.exists():
        found.chmod(PRIVATE)
        set_aside(at, "replaced")
        found.rename(at)


def _restore_authority(head: BackupHead, home: Path, folder: Path) -> None:
    """What the server shows is made anew at the next start, when it is signed by another."""
    for name in AUTHORITY_MEMBERS:
        if name in head.digests:
            taken, at = folder / Path(name).name, home / name
            make_private_folder(at.parent)
            taken.chmod(PRIVATE)
            if at.exists():
                set_aside(at, "replaced")
            taken.rename(at)


def _head(tar: tarfile.TarFile) -> BackupHead:
    member = tar.next()
    if member is None or member.name != HEAD:
        raise UserError("this is no backup of crowdpipe: its first member is another")
    try:
        head: BackupHead = decode(BackupHead, _small(tar, member))
    except CrowdpipeError as error:
        raise UserError(f"the backup's first member cannot be read: {error}") from None
    if head.format != FORMAT:
        raise UserError(f"the backup has format {head.format}; this program reads {FORMAT}")
    if USERS not in head.digests or not head.digests.keys() <= MEMBERS:
        raise UserError("the backup lists other things than a backup has")
    return head


def _take_out(tar: tarfile.TarFile, name: str, head: BackupHead, folder: Path) -> None:
    """Into `folder`, if its bytes are those that were put in."""
    seen = hashlib.sha256()
    with (folder / Path(name).name).open("xb") as target:
        for chunk in _chunks(_open(tar, name)):
            seen.update(chunk)
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())
    if seen.hexdigest() != head.digests[name]:
        raise UserError(f"the backup is damaged: {name} is not what was put into it")


def _restore_models(tar: tarfile.TarFile, store: ServedStore, head: BackupHead) -> None:
    """Beside those that are there. Each blob is checked against its name, and a manifest is taken
    only with all its blobs."""
    blobs, manifests = store.blobs, store.manifests
    for member in tar.getmembers():
        if member.name.startswith(f"{BLOBS}/"):
            digest = member.name.removeprefix(f"{BLOBS}/")
            if blobs.size(digest) is None:
                blobs.put(_chunks(_open(tar, member.name)), digest)
    for name in head.models:
        at = f"{MANIFESTS}/{name}.json"
        if at in tar.getnames():  # else it was removed meanwhile
            manifests.put(name, _small(tar, tar.getmember(at), MAX_MANIFEST_NBYTES))


@contextmanager
def _store(home: Path) -> Iterator[ServedStore]:
    """The home's, which nobody serves meanwhile; nothing is left in it of what fails."""
    blobs = FolderBlobs(home / "store")
    manifests = Manifests(home / "store", blobs)
    opened = ServedStore(blobs, manifests, str(home / "store"), blobs.folder)
    with adding(opened, replacing=True) as store:
        yield store


def _open(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    try:
        source = tar.extractfile(name)
    except KeyError:
        source = None
    if source is None:
        raise UserError(f"the backup is not whole: {name} is missing")
    return source


def _small(tar: tarfile.TarFile, member: tarfile.TarInfo, limit: int = SMALL_NBYTES) -> bytes:
    if member.size > limit:
        raise UserError(f"the backup is damaged: {member.name} has {member.size} bytes")
    with _open(tar, member.name) as source:
        return source.read()


def _chunks(source: IO[bytes]) -> Iterator[bytes]:
    with source:
        while chunk := source.read(CHUNK_NBYTES):
            yield chunk
