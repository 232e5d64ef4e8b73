"""Every error of the command line is one sentence that says what to do, with an exit code."""

from __future__ import annotations

import http.server
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.acceptance.conftest import Crowdpipe, Ended, ProcessTree, run_crowdpipe
from tests.acceptance.served import Served, served
from tests.support.models import mlp, model_of, save, value
from tests.support.waiting import wait_until
from wire.manifest import Manifest

USER, OPERATOR = 2, 3
Save = Callable[..., Path]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("errors"), devices=2, memory_nbytes=8 << 20) as running:
        running.add("tiny", layers=4)
        yield running


@pytest.fixture
def npz(tmp_path: Path) -> Save:
    def save_npz(**arrays: np.ndarray) -> Path:
        path = tmp_path / "items.npz"
        np.savez(path, **arrays)
        return path

    return save_npz


def run_tiny(fleet: Served, items: Path, model: str = "tiny", *more: object) -> Ended:
    output = items.with_name("results.npz")
    return run_crowdpipe(fleet.home, "run", model, "--input", items, "--output", output, *more)


def good(npz: Save) -> Path:
    return npz(x=np.ones((1, 24), np.float32))


def expect(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended.err
    for word in words:
        assert word in ended.error


# --- what was asked for cannot be done as asked -------------------------------------------------


def test_several_items_at_once_are_refused_with_what_would_do(fleet: Served, npz: Save) -> None:
    items = good(npz)
    refused = run_tiny(fleet, items, "tiny", "--batch-size", 4)
    expect(refused, USER, "each item alone", "--max-shape batch=8")
    expect(run_tiny(fleet, items, "tiny", "--batch-size", 4, "--exact"), USER, "--exact", "alone")
    expect(run_tiny(fleet, items, "tiny", "--batch-size", "many"), USER, "1 to 64, or auto")


def test_a_file_that_is_no_onnx_model(crowdpipe: Crowdpipe, tmp_path: Path) -> None:
    file = tmp_path / "letter.onnx"
    file.write_text("Dear model, how are you?")
    expect(crowdpipe("model", "add", file, "--name", "m"), USER, "letter.onnx", "not an ONNX file")


def test_a_truncated_onnx_file(crowdpipe: Crowdpipe, tmp_path: Path) -> None:
    file = save(mlp(3), tmp_path / "cut.onnx")
    file.write_bytes(file.read_bytes()[:-500])
    expect(crowdpipe("model", "add", file, "--name", "m"), USER, "cut.onnx", "truncated")
    assert "No model has been added yet" in crowdpipe("model", "list").err


def test_a_file_that_is_not_there(crowdpipe: Crowdpipe, tmp_path: Path) -> None:
    ended = crowdpipe("model", "add", tmp_path / "absent.onnx", "--name", "m")
    expect(ended, USER, "absent.onnx")


def test_a_name_that_may_not_be(crowdpipe: Crowdpipe, tmp_path: Path) -> None:
    file = save(mlp(3), tmp_path / "good.onnx")
    expect(crowdpipe("model", "add", file, "--name", "My Model"), USER, "'My Model'", "a-z")


def test_no_such_model(fleet: Served, npz: Save) -> None:
    for command in (("plan", "absent"), ("model", "show", "absent"), ("model", "remove", "absent")):
        expect(run_crowdpipe(fleet.home, *command), USER, "no model 'absent'")
    expect(run_tiny(fleet, good(npz), "absent"), USER, "no model 'absent'", "tiny")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"z": np.ones((1, 24), np.float32)}, ("'x' is missing", "takes x")),
        (
            {"x": np.ones((1, 24), np.float64)},
            ("'x'", "float64", "tensor(float)", "array.astype('float32')"),
        ),
        ({"x": np.ones((1, 23), np.float32)}, ("'x'", "[1, 23]", "24 is needed")),
        ({"x": np.ones(24, np.float32)}, ("'x'", "2 dimensions are needed")),
        ({"x": np.ones((999, 24), np.float32)}, ("'batch' may be at most", "--max-shape")),
    ],
    ids=["name", "type", "size", "rank", "bound"],
)
def test_a_wrong_input(
    fleet: Served, npz: Save, arrays: dict[str, np.ndarray], words: tuple[str, ...]
) -> None:
    expect(run_tiny(fleet, npz(**arrays)), USER, *words)


def test_a_wrong_input_among_many_is_named_and_nothing_is_written(fleet: Served, npz: Save) -> None:
    row = np.ones((1, 24), np.float32)
    items = npz(**{"0/x": row, "1/x": row, "2/x": row[:, :3]})
    ended = run_tiny(fleet, items)
    expect(ended, USER, "item 2: ", "[1, 3]")
    assert ended.error.count("item 2") == 1
    assert not items.with_name("results.npz").exists()


def test_results_that_could_not_be_written(fleet: Served, npz: Save) -> None:
    """Said before anything is computed."""
    ended = run_crowdpipe(
        fleet.home, "run", "tiny", "--input", good(npz), "--output", "/nowhere/results.npz"
    )
    expect(ended, USER, "there is no folder /nowhere")


def test_an_address_that_is_no_address(crowdpipe: Crowdpipe) -> None:
    expect(crowdpipe("devices", "--broker", "laptop:1883"), USER, "mqtt://")


def test_a_device_that_is_not_known_cannot_be_removed(crowdpipe: Crowdpipe) -> None:
    crowdpipe("device", "add", "pixel-7")
    expect(crowdpipe("device", "remove", "pixel-8"), USER, "'pixel-8'", "pixel-7")


# --- something that is set up here is missing or broken -----------------------------------------


def test_nothing_is_served(crowdpipe: Crowdpipe, home: Path) -> None:
    for command in (("devices",), ("plan", "tiny"), ("agent", "--name", "a")):
        expect(crowdpipe(*command), OPERATOR, "crowdpipe up", str(home))


def test_a_broker_that_does_not_answer(crowdpipe: Crowdpipe, npz: Save) -> None:
    broker = ("--broker", f"mqtt://127.0.0.1:{free_port()}")
    expect(crowdpipe("devices", *broker), OPERATOR, "cannot", "crowdpipe up")
    expect(
        crowdpipe("run", "tiny", "--input", good(npz), "--output", "x.npz", *broker),
        OPERATOR,
        "cannot",
        "crowdpipe up",
    )
    expect(crowdpipe("up", *broker), OPERATOR, "no broker answers")


@pytest.fixture
def web_port() -> Iterator[int]:
    """Where a web server listens, which speaks no MQTT."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), http.server.BaseHTTPRequestHandler
    ) as web:
        serving = threading.Thread(target=web.serve_forever)
        serving.start()
        yield web.server_port
        web.shutdown()
        serving.join()


@pytest.mark.parametrize("command", ["devices", "up", "watch"])
def test_a_port_where_something_else_answers(
    crowdpipe: Crowdpipe, web_port: int, command: str
) -> None:
    ended = crowdpipe(command, "--broker", f"mqtt://127.0.0.1:{web_port}")
    expect(ended, OPERATOR, f"no broker at mqtt://127.0.0.1:{web_port}", "check host and port")
    assert "secret" not in ended.error


def test_a_server_that_was_killed(
    crowdpipe: Crowdpipe, process_tree: Callable[..., ProcessTree], home: Path, tmp_path: Path
) -> None:
    """Its up.json stays and names a store and a broker that are gone: nothing is served."""
    tree = process_tree("up", "--broker-port", 0, "--store-port", 0)
    wait_until((home / "up.json").exists, "crowdpipe up")
    tree.look()
    tree.process.send_signal(signal.SIGKILL)
    tree.process.wait(10)
    assert tree.left() == []
    file = save(mlp(3), tmp_path / "good.onnx")
    added = crowdpipe("device", "add", "phone-7")
    assert added.code == 0, added.err
    assert "Nothing is served yet: start `crowdpipe up" in added.err
    assert crowdpipe("model", "add", file, "--name", "m").code == 0
    expect(crowdpipe("devices"), OPERATOR, "none is served", "crowdpipe up")


@pytest.mark.parametrize("which", ["broker", "store"])
def test_a_port_that_is_taken(crowdpipe: Crowdpipe, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"--broker-port": 0, "--store-port": 0, f"--{which}-port": port}
        ended = crowdpipe("up", *(text for pair in ports.items() for text in pair))
    expect(ended, OPERATOR, f"port {port}", "taken", f"--{which}-port")


@pytest.mark.parametrize("host", ["192.0.2.77", "no-such-host.invalid"])
def test_an_address_that_is_not_this_machines(crowdpipe: Crowdpipe, host: str) -> None:
    expect(crowdpipe("up", "--host", host), USER, repr(host), "--host takes", "0.0.0.0")


def test_a_home_that_cannot_be_a_folder(crowdpipe: Crowdpipe, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    expect(crowdpipe("up", "--home", tmp_path / "file"), 3, "cannot be used as a folder")


def test_figures_of_a_demo_that_could_not_be_written(crowdpipe: Crowdpipe, tmp_path: Path) -> None:
    ended = crowdpipe("demo", "--json", tmp_path / "nowhere" / "figures.json")
    expect(ended, 2, "there is no folder")


def test_a_home_that_is_served_already(fleet: Served) -> None:
    ended = run_crowdpipe(fleet.home, "up", "--broker-port", 0, "--store-port", 0)
    expect(ended, OPERATOR, "already", "--home")


def test_no_device_is_there(tmp_path: Path, npz: Save) -> None:
    with served(tmp_path / "home", devices=0) as alone:
        alone.add("tiny", layers=4)
        expect(run_crowdpipe(alone.home, "plan", "tiny"), OPERATOR, "no device", "crowdpipe agent")
        ended = run_tiny(alone, good(npz), "tiny", "--timeout", 6)
        expect(ended, OPERATOR, "waited 6 s", "no device is online", "crowdpipe agent")
        assert "Waiting: no device is online" in ended.err


def test_too_little_memory_in_the_fleet_says_how_much_is_missing(fleet: Served, npz: Save) -> None:
    fleet.add("wide", layers=1, model=wide_model())
    wanted = ("of memory", "are missing", "phone-1")
    expect(run_crowdpipe(fleet.home, "plan", "wide"), OPERATOR, *wanted)
    items = npz(x=np.ones((1, 2048), np.float32))
    expect(run_tiny(fleet, items, "wide"), OPERATOR, *wanted)


@pytest.mark.parametrize(
    ("spoil", "seed", "words"),
    [
        (lambda path: path.unlink(), 11, ("has no blob",)),
        (lambda path: path.write_bytes(path.read_bytes()[:-7]), 12, ("damaged",)),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), 13, ("other bytes",)),
    ],
    ids=["missing", "truncated", "altered"],
)
def test_a_spoilt_blob(
    fleet: Served, npz: Save, spoil: Callable[[Path], object], seed: int, words: tuple[str, ...]
) -> None:
    manifest: Manifest = fleet.add(f"spoilt-{seed}", layers=4, seed=seed)
    spoil(fleet.blob_path(manifest.segments[1].weights[0].digest))
    ended = run_tiny(fleet, good(npz), manifest.name)
    expect(ended, OPERATOR, "add the model again", *words)


def test_a_wait_that_reaches_its_limit_says_what_for(tmp_path: Path, npz: Save) -> None:
    with served(tmp_path / "home", devices=0) as alone:
        alone.add("tiny", layers=4)
        expect(run_tiny(alone, good(npz), "tiny", "--timeout", 1), OPERATOR, "waited 1 s")


# --- the surface ------------------------------------------------------------------------------


def test_help_is_quick_to_read_and_has_an_example(crowdpipe: Crowdpipe) -> None:
    commands = [(), ("up",), ("agent",), ("plan",), ("run",), ("devices",), ("watch",), ("demo",)]
    commands += [("model", leaf) for leaf in ("add", "check", "list", "show", "remove")]
    commands += [("device", leaf) for leaf in ("add", "remove")] + [("model",), ("device",)]
    for command in commands:
        ended = crowdpipe(*command, "--help")
        assert ended.code == 0
        assert "Example:" in ended.out, command
        assert "crowdpipe " in ended.out.split("Example:")[1]


def test_help_loads_neither_onnx_nor_its_runtime_nor_numpy() -> None:
    code = (
        "import sys; sys.argv = ['crowdpipe', '--help']\n"
        "from crowdpipe.cli.app import build\n"
        "try: build()()\n"
        "except SystemExit: pass\n"
        "print([m for m in ('onnx', 'onnxruntime', 'numpy', 'fastapi') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


def test_debug_shows_where_an_error_arose(crowdpipe: Crowdpipe) -> None:
    ended = crowdpipe("--debug", "plan", "tiny")
    assert ended.code != 0
    assert "Traceback" in ended.err


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def wide_model() -> onnx.ModelProto:
    """One MatMul of 16 MiB: more than an agent's whole budget."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weights = {"w": np.ones((2048, 2048), np.float32)}
    shape = ["batch", 2048]
    return model_of(nodes, [value("x", shape)], [value("y", shape)], weights)
