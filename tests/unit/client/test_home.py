import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crowdpipe import home
from wire.broker_url import parse_url
from wire.errors import BrokerUnreachable, InvalidUrl, OperatorError

URL = parse_url("mqtt://client:s%40cret@127.0.0.1:1884")


@pytest.fixture(autouse=True)
def _no_broker_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(home.BROKER_VARIABLE, raising=False)
    monkeypatch.setenv(home.HOME_VARIABLE, str(tmp_path / "home"))


@pytest.fixture
def held() -> Iterator[None]:
    """Something serves from the home."""
    with home.hold_home(home.home_folder()):
        yield


@pytest.mark.usefixtures("held")
def test_what_is_served_is_found_again() -> None:
    written = home.write_up(home.home_folder(), URL, "http://127.0.0.1:8080")
    assert home.read_up(home.home_folder()) == written
    assert home.broker_url() == URL


def test_nobody_else_may_read_the_file() -> None:
    home.write_up(home.home_folder(), URL, "http://127.0.0.1:8080")
    mode = (home.home_folder() / home.FILE_NAME).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_record_shows_no_secret() -> None:
    record = home.write_up(home.home_folder(), URL, "http://127.0.0.1:8080")
    assert "s@cret" not in repr(record)
    assert "s%40cret" not in repr(record)


def test_the_home_folder_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(home.HOME_VARIABLE)
    assert home.home_folder() == Path.home() / ".crowdpipe"


def test_a_named_broker_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(home.BROKER_VARIABLE, "mqtt://b:c@other:1")
    assert home.broker_url("mqtt://a:b@named:2").host == "named"


def test_the_environment_comes_before_what_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    home.write_up(home.home_folder(), URL, "http://127.0.0.1:8080")
    monkeypatch.setenv(home.BROKER_VARIABLE, "mqtt://b:c@other:1")
    assert home.broker_url().host == "other"


def test_without_any_broker_the_error_says_what_to_start() -> None:
    with pytest.raises(BrokerUnreachable, match="crowdpipe up"):
        home.broker_url()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidUrl):
        home.broker_url("localhost:1883")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": 9}', b"\xff"])
def test_a_damaged_file_is_told_with_its_path(content: bytes) -> None:
    folder = home.home_folder()
    folder.mkdir()
    (folder / home.FILE_NAME).write_bytes(content)
    with pytest.raises(OperatorError, match=home.FILE_NAME):
        home.read_up(folder)


@pytest.mark.usefixtures("held")
def test_what_is_served_no_more_is_removed() -> None:
    home.write_up(home.home_folder(), URL, "http://127.0.0.1:8080")
    home.remove_up(home.home_folder())
    assert home.read_up(home.home_folder()) is None


@pytest.mark.usefixtures("held")
def test_the_record_of_another_process_stays() -> None:
    folder = home.home_folder()
    home.write_up(folder, URL, "http://127.0.0.1:8080")
    path = folder / home.FILE_NAME
    path.write_bytes(path.read_bytes().replace(str(os.getpid()).encode(), b"1"))
    home.remove_up(folder)
    assert home.read_up(folder) is not None


KILLED = """
import os, signal, sys
from pathlib import Path
from crowdpipe import home
from wire.broker_url import parse_url

folder = Path(sys.argv[1])
lock = home.hold_home(folder)
home.write_up(folder, parse_url("mqtt://client:secret@127.0.0.1:1884"), "http://127.0.0.1:8080")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_killed_counts_as_served_no_more_and_leaves_the_home_free() -> None:
    folder = home.home_folder()
    ran = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert ran.returncode == -signal.SIGKILL
    assert (folder / home.FILE_NAME).exists()
    assert home.read_up(folder) is None
    with pytest.raises(BrokerUnreachable, match="crowdpipe up"):
        home.broker_url()
    with home.hold_home(folder):
        assert home.read_up(folder) is None, "and what it left is cleared away"


@pytest.mark.usefixtures("held")
def test_a_home_is_served_from_once() -> None:
    with pytest.raises(home.HomeTaken, match="--home"):
        home.hold_home(home.home_folder())


def test_looking_does_not_keep_anybody_from_serving() -> None:
    folder = home.home_folder()
    home.write_up(folder, URL, "http://127.0.0.1:8080")
    (folder / home.LOCK_NAME).touch()
    assert home.read_up(folder) is None
    home.hold_home(folder).close()


def test_importing_crowdpipe_loads_nothing_heavy() -> None:
    heavy = ["numpy", "onnx", "onnxruntime", "paho", "typer", "fastapi"]
    code = f"import sys, crowdpipe; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.usefixtures("held")
def test_others_are_told_another_address_than_the_desk_uses_itself() -> None:
    folder = home.home_folder()
    assert home.write_up(folder, URL, "http://127.0.0.1:8080").told == URL
    outside = parse_url(f"mqtts://10.0.0.7:18830?authority=sha256:{'ab' * 32}")
    home.write_up(folder, URL, "https://127.0.0.1:8080", outside=outside)
    record = home.read_up(folder)
    assert record is not None
    assert (record.url, record.told) == (URL, outside)


def test_the_environments_authority_is_for_addresses_over_tls_that_name_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(home.AUTHORITY_VARIABLE, "/a.pem")
    assert home.broker_url("mqtts://a:b@named:2").authority == "/a.pem"
    assert home.broker_url("mqtt://a:b@named:2").authority is None
    assert home.broker_url("mqtts://a:b@named:2?authority=/own.pem").authority == "/own.pem"
