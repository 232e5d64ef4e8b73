"""The images' files agree with the project; no engine is needed for that."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from broker_config.credentials import Credentials
from broker_config.url import parse_url

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("Dockerfile.*"))
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
LIMIT_S = 20.0


def _copied(dockerfile: Path) -> set[str]:
    lines = [line for line in dockerfile.read_text().splitlines() if line.startswith("COPY ")]
    own = [line.split()[1:-1] for line in lines if "--from" not in line]
    return {source for sources in own for source in sources}


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_copies_what_exists_and_does_not_run_as_root(dockerfile: Path):
    # The front page is written last; the wheel needs it.
    missing = {name for name in _copied(dockerfile) if not (ROOT / name).exists()} - {"README.md"}
    assert missing == set()
    text = dockerfile.read_text()
    assert text.index("\nUSER crowdpipe") < text.index("\nCMD ")
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"python:3.11-slim"}


def test_the_agents_image_holds_nothing_of_the_desk():
    assert _copied(DOCKER / "Dockerfile.agent") == {"wire", "bus", "edge_agent", "docker/claim.py"}


def test_every_service_is_built_from_a_file_that_exists_and_uses_volumes_that_do():
    services = COMPOSE["services"]
    assert {"broker", "store", "orchestrator", "agent"} <= set(services)
    for service in services.values():
        assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        assert {text.split(":")[0] for text in service.get("volumes", [])} <= set(
            COMPOSE["volumes"]
        )
        assert set(service.get("depends_on", {})) <= set(services)


def _make(folder: Path, agents: int) -> None:
    command = [
        sys.executable,
        str(DOCKER / "identities.py"),
        "--home",
        str(folder / "desk"),
        "--identities",
        str(folder / "identities"),
        "--agents",
        str(agents),
        "--devices-broker",
        "broker:1884",
    ]
    subprocess.run(command, check=True, timeout=LIMIT_S, env=os.environ | {"PYTHONPATH": str(ROOT)})


def _claim(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(DOCKER / "claim.py"),
        "printenv",
        "CROWDPIPE_AGENT_NAME",
        "CROWDPIPE_AGENT_BROKER",
    ]
    environment = os.environ | {"CROWDPIPE_IDENTITIES": str(folder / "identities")}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT_S, env=environment, check=False
    )


def test_each_container_claims_an_identity_that_the_broker_knows(tmp_path: Path):
    _make(tmp_path, 2)
    name, address = _claim(tmp_path).stdout.split()
    url = parse_url(address)
    assert (url.user, url.port) == (name, 1884)
    assert Credentials(tmp_path / "desk").verify(name, str(url.secret)) == "device"


def test_an_identity_in_use_is_passed_over_and_when_all_are_that_is_said(tmp_path: Path):
    _make(tmp_path, 2)
    held = []
    for expected in ("agent-1", "agent-2"):
        assert _claim(tmp_path).stdout.startswith(expected)
        held.append((tmp_path / "identities" / expected).open())
        fcntl.flock(held[-1], fcntl.LOCK_EX)
    refused = _claim(tmp_path)
    assert refused.returncode == 1
    assert "all 2 identities" in refused.stderr
    held[0].close()
    assert _claim(tmp_path).stdout.startswith("agent-1")
    held[1].close()


def test_making_identities_again_changes_none(tmp_path: Path):
    _make(tmp_path, 1)
    before = (tmp_path / "identities" / "agent-1").read_text()
    _make(tmp_path, 2)
    assert (tmp_path / "identities" / "agent-1").read_text() == before
    assert (tmp_path / "identities" / "agent-2").exists()


def test_the_desks_address_goes_into_the_environment(tmp_path: Path):
    _make(tmp_path, 1)
    environment = os.environ | {
        "CROWDPIPE_BROKER_FILE": str(tmp_path / "desk" / "addresses" / "orchestrator")
    }
    said = subprocess.run(
        [sys.executable, str(DOCKER / "desk.py"), "printenv", "CROWDPIPE_BROKER"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment,
        check=True,
    ).stdout
    assert parse_url(said.strip()).user == "orchestrator"
