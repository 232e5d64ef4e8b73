"""What is kept by the desk is not kept anywhere else by mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from broker_config.credentials import Credentials
from crowdpipe.cli.app import build
from wire.errors import UserError

ELSEWHERE = "mqtt://ann:secret@192.0.2.1:18830"


@pytest.mark.parametrize(
    "command",
    [
        "model list",
        "model add gone.onnx --name m",
        "model show m",
        "model remove m",
        "user add ben",
        "user list",
        "device add pixel",
        "device remove pixel",
    ],
)
def test_with_a_broker_elsewhere_and_no_home_models_and_users_belong_to_the_desk(
    tmp_path: Path, command: str
):
    home = tmp_path / "home"
    environment = {"CROWDPIPE_BROKER": ELSEWHERE, "CROWDPIPE_HOME": str(home)}
    error = CliRunner().invoke(build(), command.split(), env=environment).exception
    assert isinstance(error, UserError)
    assert "kept by the desk that serves mqtt://" in str(error)
    assert "secret" not in str(error)
    assert not home.exists()


def test_a_home_that_is_in_use_is_used_whatever_broker_is_named(tmp_path: Path):
    Credentials(tmp_path).add("pixel", "device")
    environment = {"CROWDPIPE_BROKER": ELSEWHERE, "CROWDPIPE_HOME": str(tmp_path)}
    done = CliRunner().invoke(build(), ["model", "list", "--json"], env=environment)
    assert (done.exit_code, done.stdout.strip()) == (0, "[]")
