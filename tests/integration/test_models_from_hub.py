"""Models from a hub: commands that ask a server here which speaks its protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from tests.support.hub_server import COMMIT, HubServer, hub_server
from tests.support.models import mlp, save

ROOT = Path(__file__).resolve().parents[2]
MODEL = mlp().SerializeToString()


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        yield server


def crowdpipe(
    home: Path, url: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "CROWDPIPE"))}
    proxies = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    asked = {"HOME": str(home), "HF_ENDPOINT": url, "HF_HUB_DISABLE_TELEMETRY": "1"}
    return subprocess.run(
        [sys.executable, "-m", "crowdpipe", "model", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env=kept | proxies | asked | environment,
    )


def refusal(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    return done.stderr


def external_model(folder: Path) -> dict[str, bytes]:
    """`mlp` whose weights lie in a file beside it."""
    onnx.save_model(
        mlp(),
        folder / "model.onnx",
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=0,
    )
    return {name: (folder / name).read_bytes() for name in ("model.onnx", "model.onnx_data")}


def test_the_only_model_of_a_repository_is_checked(hub: HubServer, tmp_path: Path) -> None:
    hub.repositories["some/tiny"] = {"README.md": b"hello", "tiny.onnx": MODEL}
    done = crowdpipe(tmp_path, hub.url, "check", "hf://some/tiny", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exact"]
    assert hub.asked == ["tiny.onnx"]


def test_a_model_is_added_with_the_weights_that_it_names(hub: HubServer, tmp_path: Path) -> None:
    files = external_model(tmp_path)
    named = {f"onnx/{name}": content for name, content in files.items()}
    hub.repositories["some/large"] = named | {"onnx/other.onnx": MODEL, "pytorch.bin": b"x"}
    done = crowdpipe(tmp_path, hub.url, "add", "hf://some/large", "--name", "large", "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(hub.asked) == ["onnx/model.onnx", "onnx/model.onnx_data"]
    listed = crowdpipe(tmp_path, hub.url, "list", "--json")
    assert [one["name"] for one in json.loads(listed.stdout)] == ["large"]


def test_a_file_and_a_revision_may_be_named(hub: HubServer, tmp_path: Path) -> None:
    hub.repositories["some/two"] = {"a.onnx": MODEL, "b/c.onnx": MODEL}
    done = crowdpipe(tmp_path, hub.url, "check", f"hf://some/two@{COMMIT}/b/c.onnx", "--json")
    assert done.returncode == 0, done.stderr
    assert hub.asked == ["b/c.onnx"]


def test_a_file_that_was_fetched_is_not_fetched_again(hub: HubServer, tmp_path: Path) -> None:
    hub.repositories["some/tiny"] = {"tiny.onnx": MODEL}
    for _ in range(2):
        done = crowdpipe(tmp_path, hub.url, "check", "hf://some/tiny", "--json")
        assert done.returncode == 0, done.stderr
    assert hub.asked == ["tiny.onnx"]


def test_a_download_that_breaks_off_is_taken_up_again(hub: HubServer, tmp_path: Path) -> None:
    hub.repositories["some/tiny"] = {"tiny.onnx": MODEL}
    hub.cut_short = len(MODEL) // 2
    done = crowdpipe(tmp_path, hub.url, "check", "hf://some/tiny", "--json")
    assert done.returncode == 0, done.stderr
    assert hub.asked == ["tiny.onnx", "tiny.onnx"]


def test_several_models_are_listed_and_one_must_be_named(hub: HubServer, tmp_path: Path) -> None:
    hub.repositories["some/two"] = {"a.onnx": MODEL, "b/c.onnx": MODEL}
    told = refusal(crowdpipe(tmp_path, hub.url, "check", "hf://some/two"), 2)
    assert "a.onnx, b/c.onnx" in told


@pytest.mark.parametrize(
    ("reference", "code", "words"),
    [
        ("hf://some/none", 2, "has no model 'some/none'"),
        ("hf://some/tiny@nothing", 2, "no revision 'nothing'"),
        ("hf://some/tiny/other.onnx", 2, "tiny.onnx"),
        ("hf://some/empty", 2, "holds no .onnx file"),
        ("hf://some/gated", 2, "asks for a login"),
        ("hf://tiny", 2, "write it as hf://org/name"),
        ("hf://some/escaping", 4, "leaves its folder"),
    ],
)
def test_what_the_hub_does_not_give_is_told(
    hub: HubServer, tmp_path: Path, reference: str, code: int, words: str
) -> None:
    hub.repositories["some/tiny"] = {"tiny.onnx": MODEL}
    hub.repositories["some/empty"] = {"README.md": b"nothing here"}
    hub.repositories["some/escaping"] = {"../../evil.onnx": MODEL}
    hub.gated.add("some/gated")
    assert words in refusal(crowdpipe(tmp_path, hub.url, "check", reference), code)


def test_without_a_network_the_error_says_so(tmp_path: Path) -> None:
    with hub_server() as gone:
        url = gone.url
    told = refusal(crowdpipe(tmp_path, url, "check", "hf://some/tiny"), 3)
    assert url in told
    assert "check the network" in told


def test_offline_mode_is_named(hub: HubServer, tmp_path: Path) -> None:
    done = crowdpipe(tmp_path, hub.url, "check", "hf://some/tiny", HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE" in refusal(done, 3)


def test_a_folder_with_external_weights_is_added(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    external_model(folder)
    done = crowdpipe(tmp_path, "", "add", str(folder), "--name", "beside", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "beside"


def test_a_folder_with_two_models_must_be_named_further(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        save(mlp(), tmp_path / name)
    told = refusal(crowdpipe(tmp_path, "", "check", str(tmp_path)), 2)
    assert "a.onnx, b.onnx" in told
