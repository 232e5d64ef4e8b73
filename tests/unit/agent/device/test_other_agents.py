"""An agent of the same name is seen by how it was started, so that nobody ends it by a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.adapters.device.other_agents import agent_may_be_called

ADDRESS = "mqtt://pixel:secret@desk:1"
OTHER = "mqtt://other:secret@desk:1"


def process(proc: Path, words: list[str], *variables: str) -> None:
    (proc / "11").mkdir()
    (proc / "11" / "cmdline").write_text("".join(f"{word}\0" for word in words))
    (proc / "11" / "environ").write_text("".join(f"{each}\0" for each in variables))


@pytest.mark.parametrize(
    ("words", "variables", "seen"),
    [
        (["python", "/bin/crowdpipe-agent", "--broker", ADDRESS], [], True),
        (["crowdpipe-agent", f"--broker={ADDRESS}"], [], True),
        (["python", "-m", "edge_agent", "--broker", OTHER, "--name", "pixel"], [], True),
        (["python", "-m", "edge_agent", "--broker", OTHER, "--name=pixel"], [], True),
        (["crowdpipe-agent"], [f"CROWDPIPE_AGENT_BROKER={ADDRESS}"], True),
        (["crowdpipe-agent"], [f"CROWDPIPE_AGENT_BROKER={OTHER}"], False),
        (["crowdpipe-agent"], ["HOME=/"], True),  # its settings are in a file
        (["crowdpipe-agent", "--broker", OTHER], [f"CROWDPIPE_AGENT_BROKER={ADDRESS}"], False),
        (["crowdpipe-agent", "--broker", ADDRESS, "doctor"], [], False),
        (["crowdpipe-agent", "--broker", OTHER], [], False),
        (["vi", "edge_agent/__main__.py", ADDRESS], [], False),
        (["sh", "-c", f"crowdpipe-agent --broker {ADDRESS}"], [], False),
        ([], [], False),
    ],
)
def test_how_an_agent_was_started_tells_its_name(
    tmp_path: Path, words: list[str], variables: list[str], seen: bool
):
    process(tmp_path, words, *variables)
    assert agent_may_be_called("pixel", tmp_path) is seen


def test_processes_that_may_not_be_seen_are_none(tmp_path: Path):
    (tmp_path / "12").mkdir()
    assert not agent_may_be_called("pixel", tmp_path)
