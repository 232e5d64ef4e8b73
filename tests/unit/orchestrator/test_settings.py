"""The orchestrator's settings: file, then environment, then flags; what is wrong is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crowdpipe.serving.system import System, SystemSettings
from orchestrator.shell.settings import OrchestratorSettings, make_settings, read_settings
from wire.errors import InvalidSettings, InvalidUrl

BROKER = "mqtt://orchestrator:s%2Fecret@127.0.0.1:1884"
FLAGS: dict[str, Any] = {"broker": BROKER, "store": "http://127.0.0.1:8080"}


def read(
    flags: dict[str, Any] | None = None, file: Path | None = None, **env: str
) -> OrchestratorSettings:
    return read_settings(FLAGS if flags is None else flags, env, file)


def test_flags_win_over_the_environment_which_wins_over_the_file(tmp_path: Path):
    file = tmp_path / "settings.yaml"
    file.write_text(f"broker: {BROKER}\nstore: http://a:1\nhome: /file\nlog: debug\n")
    settings = read({"home": "/flag"}, file, CROWDPIPE_HOME="/env", CROWDPIPE_STORE="http://b:2")
    assert settings.home == Path("/flag/orchestrator")
    assert settings.store == "http://b:2"
    assert settings.log == "debug"


def test_the_home_means_what_it_means_to_every_program(tmp_path: Path):
    """`crowdpipe up` keeps the journal in the same place of the same home."""
    home = str(tmp_path / "home")
    system = System(SystemSettings(Path(home)))
    assert read(CROWDPIPE_HOME=home).home == system.journal_folder
    assert read({**FLAGS, "home": home}).home == system.journal_folder
    assert read().home == Path.home() / ".crowdpipe" / "orchestrator"


def test_options_come_from_the_file_and_from_flags(tmp_path: Path):
    file = tmp_path / "settings.yaml"
    file.write_text("options:\n  lease_s: 20\n  credit: 3\n")
    settings = read({**FLAGS, "option": ["lease_s=12.5"]}, file)
    assert settings.options.lease_s == 12.5
    assert settings.options.credit == 3


@pytest.mark.parametrize(
    "option", ["nonsense=1", "lease_s", "lease_s=-1", "credit=1.5", "lease_s=yes", "limits=1"]
)
def test_an_option_that_cannot_be_is_refused(option: str):
    with pytest.raises(InvalidSettings):
        read({**FLAGS, "option": [option]})


def test_devices_reach_a_store_beside_the_broker_by_the_brokers_name():
    assert read().store_base == "http://:8080"
    near = make_settings("mqtt://o:s@localhost", "http://127.0.0.1:9/store/", Path("/h"))
    assert near.store_base == "http://:9/store"


def test_a_store_elsewhere_is_told_as_it_is():
    far = make_settings(BROKER, "https://store.example:8443", Path("/h"))
    assert far.store_base == "https://store.example:8443"
    told = make_settings(BROKER, "http://127.0.0.1:8080", Path("/h"), "http://10.0.0.1:80")
    assert told.store_base == "http://10.0.0.1:80"


def test_the_store_is_read_as_who_the_broker_knows_unless_told_otherwise():
    same = read()
    assert (same.store_user, same.store_secret) == ("orchestrator", "s/ecret")
    other = read({**FLAGS, "store": "http://me:p%40ss@127.0.0.1:8080"})
    assert (other.store_user, other.store_secret) == ("me", "p@ss")
    assert other.store == "http://127.0.0.1:8080"


def test_no_secret_is_shown():
    shown = repr(read({**FLAGS, "store": "http://me:hidden@127.0.0.1:8080"}))
    assert "hidden" not in shown
    assert "ecret@" not in shown
    assert "s/ecret" not in shown


@pytest.mark.parametrize("missing", ["broker", "store"])
def test_what_is_missing_is_named_with_an_example(missing: str):
    flags = {name: value for name, value in FLAGS.items() if name != missing}
    with pytest.raises(InvalidSettings, match=f"--{missing}"):
        read(flags)


@pytest.mark.parametrize(
    "store", ["127.0.0.1:8080", "ftp://a", "http://", "http://a:b:c", "http://a?x=1"]
)
def test_a_store_address_that_cannot_be_is_refused(store: str):
    with pytest.raises(InvalidSettings, match="store"):
        read({**FLAGS, "store": store})


def test_a_broker_address_that_cannot_be_is_refused():
    with pytest.raises(InvalidUrl):
        read({**FLAGS, "broker": "http://a"})


@pytest.mark.parametrize("text", ["- a\n", "unknown: 1\n", "a: [\n"])
def test_a_file_that_cannot_be_is_refused_by_its_name(tmp_path: Path, text: str):
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=r"settings\.yaml"):
        read(FLAGS, file)


def test_bounds_are_numbers_of_bytes():
    assert read({**FLAGS, "hold_nbytes": "5000000"}).hold_nbytes == 5_000_000
    with pytest.raises(InvalidSettings, match="hold_nbytes"):
        read({**FLAGS, "hold_nbytes": "much"})


def test_one_authority_vouches_for_broker_and_store():
    both = read({**FLAGS, "broker": "mqtts://o:s@desk", "authority": "/a.pem"})
    assert (both.authority, both.broker.authority) == (Path("/a.pem"), "/a.pem")
    plain = read({**FLAGS, "authority": "/a.pem"})
    assert (plain.authority, plain.broker.authority) == (Path("/a.pem"), None)
    assert read().authority is None


def test_a_brokers_address_names_its_own_authority():
    """As with a broker of somebody else's, which the desk's authority knows nothing of."""
    made = make_settings("mqtts://o:s@far", "https://desk:1", Path("/h"), authority=Path("/a.pem"))
    assert (made.authority, made.broker.authority) == (Path("/a.pem"), None)
