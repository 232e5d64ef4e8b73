"""Files that hold secrets: written once, and on a full disk refused in a sentence."""

import errno
import os
from pathlib import Path

import pytest

from broker_config.credentials import Credentials
from broker_config.doorkeeper import doorkeeper_secret
from broker_config.password_file import password_file
from broker_config.private_file import make_private_folder, write_private
from wire.errors import DiskFull, OperatorError
from wire.unwritable import unwritable
from wire.users import User

ANN, BEN = User("ann", "client", "a" * 43), User("ben", "device", "b" * 43)


def test_equal_content_is_not_written_again(tmp_path: Path):
    path = tmp_path / "secret"
    write_private(path, b"same")
    first = path.stat()
    write_private(path, b"same")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    write_private(path, b"more")
    assert path.read_bytes() == b"more"


def test_equal_content_that_others_may_read_is_written_again(tmp_path: Path):
    path = tmp_path / "secret"
    path.write_bytes(b"same")
    path.chmod(0o644)
    write_private(path, b"same")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_the_folder_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    """The real writers on a disk that has no more: the calls that fail are the system's."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    credentials = Credentials(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    monkeypatch.setattr(os, "mkdir", fail)
    told = f"no room left on the disk of {tmp_path}.*: make room there"
    with pytest.raises(DiskFull, match=told):
        credentials.add("ann", "client")
    with pytest.raises(DiskFull, match=told):
        make_private_folder(tmp_path / "broker")
    assert {path.name for path in tmp_path.iterdir()} <= {"credentials.lock"}


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.EROFS, "/home/x is on a file system that is mounted read-only: mount it anew"),
        (errno.EACCES, "/home/x may not be written by this user: change the rights"),
        (errno.EIO, "cannot write in /home/x: Input/output error"),
    ],
)
def test_whatever_keeps_a_file_from_being_written_is_told_in_a_sentence(number: int, told: str):
    error = unwritable(Path("/home/x"), OSError(number, os.strerror(number)))
    assert type(error) is OperatorError
    assert str(error).startswith(told)


def test_a_password_file_of_the_same_users_is_the_same_file():
    secret_of = {"ann": "a" * 43, "ben": "short"}
    first = password_file(secret_of)
    assert password_file(secret_of, first) == first


def test_a_password_file_keeps_no_line_of_another_secret_and_none_that_is_damaged():
    first = password_file({"ann": "a" * 43, "ben": "b" * 43})
    second = password_file({"ann": "a" * 43, "ben": "c" * 43}, first)
    assert second.splitlines()[0] == first.splitlines()[0]
    assert second.splitlines()[1].split("$")[3] != first.splitlines()[1].split("$")[3]
    for damaged in ("ann:$7$1$???$x\n", "ann\n", "ann:$7$1$AAAA$x\n", "\x00"):
        assert password_file({"ann": "a" * 43}, damaged).startswith("ann:$7$1$")


def test_the_doorkeepers_secret_is_another_whenever_a_user_is():
    secret = doorkeeper_secret([ANN, BEN])
    assert secret == doorkeeper_secret([ANN, BEN])
    others = ([ANN], [ANN, User("ben", "client", BEN.secret)], [ANN, User("ben", "device", "x")])
    assert len({secret, *map(doorkeeper_secret, others)}) == 4
    assert doorkeeper_secret([]) != doorkeeper_secret([])
