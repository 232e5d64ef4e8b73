"""Users, their secrets, and the files that hold them."""

import multiprocessing
import stat
from base64 import b64decode
from pathlib import Path

import pytest

from broker_config.credentials import Credentials
from broker_config.password_file import password_file, password_line
from wire.errors import InvalidName, Malformed
from wire.users import User, Users


def test_a_secret_verifies_for_its_own_user_alone(tmp_path: Path):
    credentials = Credentials(tmp_path)
    one, two = credentials.add("one", "device"), credentials.add("two", "client")
    assert credentials.verify("one", one.secret) == "device"
    assert credentials.verify("two", two.secret) == "client"
    assert credentials.verify("one", two.secret) is None
    assert credentials.verify("three", one.secret) is None
    assert credentials.verify("one", "") is None


def test_the_file_belongs_to_its_owner_alone(tmp_path: Path):
    credentials = Credentials(tmp_path / "home")
    credentials.add("one", "device")
    assert stat.S_IMODE(credentials.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(credentials.path.parent.stat().st_mode) == 0o700


def test_adding_twice_keeps_the_secret(tmp_path: Path):
    credentials = Credentials(tmp_path)
    assert credentials.add("one", "device") == credentials.add("one", "device")


def test_a_name_has_one_role(tmp_path: Path):
    credentials = Credentials(tmp_path)
    credentials.add("one", "device")
    with pytest.raises(InvalidName, match="is a device already"):
        credentials.add("one", "watcher")


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("clients", "device"),
        ("Phone", "device"),
        ("a:b", "client"),
        ("orchestrator", "device"),
        ("boss", "orchestrator"),
        ("", "watcher"),
        ("a\nb", "device"),
    ],
)
def test_names_that_may_not_be_used_are_refused(tmp_path: Path, name: str, role: str):
    with pytest.raises(InvalidName):
        Credentials(tmp_path).add(name, role)  # type: ignore[arg-type]  # plain str on purpose


def test_secrets_are_long_and_differ(tmp_path: Path):
    credentials = Credentials(tmp_path)
    secrets = {credentials.add(f"d{number}", "device").secret for number in range(20)}
    assert len(secrets) == 20
    assert min(map(len, secrets)) >= 43


def test_another_reader_of_the_file_sees_a_change(tmp_path: Path):
    reader, writer = Credentials(tmp_path), Credentials(tmp_path)
    assert reader.users() == ()
    added = writer.add("one", "device")
    assert reader.get("one") == added
    writer.remove("one")
    assert reader.get("one") is None


def test_removing_says_whether_there_was_one(tmp_path: Path):
    credentials = Credentials(tmp_path)
    credentials.add("one", "device")
    assert credentials.remove("one")
    assert not credentials.remove("one")


def _add_many(home: Path, prefix: str) -> None:
    for number in range(20):
        Credentials(home).add(f"{prefix}{number}", "device")


def test_two_processes_adding_at_once_lose_nobody(tmp_path: Path):
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_add_many, args=(tmp_path, prefix)) for prefix in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert len(Credentials(tmp_path).users()) == 40


def test_a_damaged_file_is_refused_with_its_path(tmp_path: Path):
    credentials = Credentials(tmp_path)
    credentials.path.write_text('{"format": 1, "users": [{"name": "a", "role": "king"}]}')
    with pytest.raises(Malformed, match=r"users\[0\]\.role"):
        credentials.users()


def test_a_secret_is_not_shown_in_a_users_repr():
    assert "hidden" not in repr(User("one", "device", "hidden"))


def test_a_name_twice_in_the_file_is_refused():
    with pytest.raises(ValueError, match="twice"):
        Users(1, (User("a", "device", "x"), User("a", "client", "y")))


def test_the_password_line_is_the_one_mosquitto_passwd_writes():
    # mosquitto_passwd -b FILE phone secret, version 2.0.11
    salt = "GYDJRPlPdTXA4my0"
    derived = (
        "y4V/4/Guqp3/U463IoVQS/Bdcp1zLZ5P8zNG9hr+3OEZzmwrHo8xioZu9PSjhOapUp4GeIAF6ndIYed1LkOozg=="
    )
    line = password_line("phone", "secret", b64decode(salt))
    assert line == f"phone:$7$101${salt}${derived}"


def test_only_what_cannot_be_guessed_is_hashed_without_stretching(tmp_path: Path):
    generated = Credentials(tmp_path).add("phone", "device").secret
    assert password_line("phone", generated).startswith("phone:$7$1$")
    assert password_line("phone", generated[:-1]).startswith("phone:$7$101$")


def test_salts_differ():
    assert len({password_file({"a": "x"}) for _ in range(5)}) == 5
