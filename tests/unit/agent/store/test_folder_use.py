"""The agent's folder is looked at, and left as it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edge_agent.adapters.store.agent_folder import AgentFolder
from edge_agent.adapters.store.folder_use import disk_room, folder_use
from edge_agent.diagnosis.facts import FolderUse


def test_a_folder_that_is_not_there_can_be_made_and_is_not(tmp_path: Path):
    folder = tmp_path / "a" / "b"
    assert folder_use(folder, None) == FolderUse(str(folder))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_an_agent_is_taken_and_one_that_it_left_is_free(tmp_path: Path):
    agent = AgentFolder(tmp_path)
    assert folder_use(tmp_path, None).taken == "folder"
    agent.close()
    assert not folder_use(tmp_path, None).taken
    AgentFolder(tmp_path).close()  # nor does looking take it


def test_a_folder_below_a_file_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert folder_use(tmp_path / "file" / "a", None).fault == "Not a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_says_so(tmp_path: Path):
    tmp_path.chmod(0o500)
    assert folder_use(tmp_path, None).fault == "Permission denied"


def test_blobs_count_as_room_that_is_used(tmp_path: Path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "one").write_bytes(bytes(1000))
    room = disk_room(tmp_path, 5000)
    assert (room.cached_nbytes, room.wanted_nbytes) == (1000, 5000)
    assert room.free_nbytes
