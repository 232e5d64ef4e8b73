"""`crowdpipe device forget`: who serves the home is asked, and answers by doing it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from crowdpipe.home import hold_home, write_up
from crowdpipe.serving import forget_requests
from crowdpipe.serving.forget_requests import FOLDER, ask_to_forget, take_requests
from wire.broker_url import parse_url
from wire.errors import InvalidName, OperatorError, TimedOut

URL = parse_url("mqtt://local:secret@127.0.0.1:1")


def test_who_serves_is_asked_and_answers(tmp_path: Path):
    forgotten: list[str] = []
    with hold_home(tmp_path):
        write_up(tmp_path, URL, "http://127.0.0.1:2")
        asking = threading.Thread(target=ask_to_forget, args=(tmp_path, "phone3"))
        asking.start()
        while asking.is_alive():
            take_requests(tmp_path, forgotten.append)
            asking.join(0.01)
    assert forgotten == ["phone3"]
    assert not list((tmp_path / FOLDER).iterdir())


def test_without_anybody_who_serves_it_says_what_to_start(tmp_path: Path):
    with pytest.raises(OperatorError, match="crowdpipe up"):
        ask_to_forget(tmp_path, "phone3")


def test_who_does_not_answer_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forget_requests, "TAKEN_LIMIT_S", 0.1)
    with hold_home(tmp_path):
        write_up(tmp_path, URL, "http://127.0.0.1:2")
        with pytest.raises(TimedOut, match="try again"):
            ask_to_forget(tmp_path, "phone3")
    assert not list((tmp_path / FOLDER).iterdir())


def test_only_names_of_devices_are_asked_for_or_taken(tmp_path: Path):
    with pytest.raises(InvalidName):
        ask_to_forget(tmp_path, "../credentials.json")
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "No Name").touch()
    forgotten: list[str] = []
    take_requests(tmp_path, forgotten.append)
    assert forgotten == []
    assert not list((tmp_path / FOLDER).iterdir())
