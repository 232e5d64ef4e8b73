"""Blobs on a disk that rots, fills up, or was written by a process that died."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from model_store.access import Unauthorised, UsersFile, check_may, user_of
from model_store.blobs import FolderBlobs
from wire.errors import BlobCorrupt, DiskFull, Refused
from wire.ids import digest_of
from wire.users import User, Users, write_users


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path)


def test_a_blob_lies_under_its_digest_in_one_flat_folder(blobs: FolderBlobs, tmp_path: Path):
    digest = blobs.put([b"flat"]).digest
    assert (tmp_path / "blobs" / digest).read_bytes() == b"flat"


@pytest.mark.parametrize("damaged", [b"shor", b"longer than it was"])
def test_a_blob_that_changed_its_length_is_noticed_at_once(blobs: FolderBlobs, damaged: bytes):
    digest = blobs.put([b"short"]).digest
    blobs.path(digest).write_bytes(damaged)
    with pytest.raises(BlobCorrupt, match="add its model again"):
        blobs.size(digest)
    with pytest.raises(BlobCorrupt):
        blobs.read(digest)


def test_altered_bytes_of_the_same_length_are_found_by_verifying(blobs: FolderBlobs):
    digest = blobs.put([b"sound"]).digest
    blobs.path(digest).write_bytes(b"sOund")
    with pytest.raises(BlobCorrupt, match="altered"):
        blobs.verify(digest)


def test_putting_again_heals_a_damaged_blob(blobs: FolderBlobs):
    digest = blobs.put([b"sound"]).digest
    blobs.path(digest).write_bytes(b"s")
    blobs.put([b"sound"])
    assert blobs.verify(digest).nbytes == 5


def test_a_file_that_someone_copied_in_is_believed_only_after_hashing(blobs: FolderBlobs):
    blobs.path(digest_of(b"copied")).write_bytes(b"copied")
    blobs.path(digest_of(b"liar")).write_bytes(b"something else")
    assert blobs.size(digest_of(b"copied")) == 6
    with pytest.raises(BlobCorrupt):
        blobs.size(digest_of(b"liar"))


def test_a_lost_record_of_the_length_is_made_again(blobs: FolderBlobs):
    digest = blobs.put([b"recorded"]).digest
    for damage in (b"", b"\xff", b"-1"):
        blobs.length_path(digest).write_bytes(damage)
        assert blobs.size(digest) == 8
        assert blobs.length_path(digest).read_bytes() == b"8"


def test_a_blob_that_is_cut_short_while_it_is_read_is_not_passed_off_as_whole(blobs: FolderBlobs):
    digest = blobs.put([b"x" * 3_000_000]).digest
    reading = blobs.read(digest)
    next(reading)
    with blobs.path(digest).open("r+b") as file:
        file.truncate(1_500_000)
    with pytest.raises(BlobCorrupt, match="early"):
        list(reading)


def test_what_a_dead_writer_left_is_invisible_and_can_be_forgotten(blobs: FolderBlobs):
    writer = blobs.writer()
    writer.write(b"never finished")
    assert blobs.digests() == []
    assert blobs.forget_unfinished() == 1
    assert list(blobs.folder.iterdir()) == []


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from model_store.blobs import FolderBlobs
from wire.errors import OperatorError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
blobs = FolderBlobs(Path(sys.argv[1]))
try:
    blobs.put([b"x" * 200_000])
except OperatorError as error:
    print(f"{error}: {len(list(blobs.folder.iterdir()))} files")
"""


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path):
    """A file size limit stands in for a failing disk: it stops the write half-way."""
    said = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    assert said == f"cannot write in {tmp_path}/blobs: File too large: 0 files\n"


def test_a_full_disk_is_a_typed_error(blobs: FolderBlobs):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full, the device that is always full")
    writer = blobs.writer()
    writer._file.close()
    with (
        Path("/dev/full").open("wb", buffering=0) as writer._file,
        pytest.raises(DiskFull, match="make room"),
    ):
        writer.write(b"x")
    writer.abort()


def test_credentials_are_read_as_http_basic():
    def authorise(user: str, password: str) -> str | None:
        return "device" if (user, password) == ("p", "a:b") else None

    assert user_of("Basic cDphOmI=", authorise) == ("p", "device")
    for header in (None, "", "Bearer x", "Basic", "Basic !!", "Basic /////w==", "Basic cDph"):
        with pytest.raises(Unauthorised):
            user_of(header, authorise)


def test_a_role_that_may_not_is_told_who_may():
    with pytest.raises(Refused, match="a device may not store blobs; orchestrator may"):
        check_may("device", frozenset({"orchestrator"}), "store blobs")


def test_a_user_added_to_the_file_is_known_at_the_next_request(tmp_path: Path):
    path = tmp_path / "users.json"
    path.write_bytes(write_users(Users(1, ())))
    authorise = UsersFile(path).authorise
    assert authorise("p", "s") is None
    path.write_bytes(write_users(Users(1, (User("p", "device", "s"),))))
    assert authorise("p", "s") == "device"
