"""The store's HTTP interface, as a device with nothing but `http.client` meets it."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from model_store.remote import RemoteStore
from model_store.server import StoreServer
from tests.support.manifests import manifest_about
from wire.errors import OperatorError, PortTaken, Refused, StoreUnreachable, TooLarge
from wire.ids import digest_of
from wire.packed import CONTENT_TYPE, LENGTH_HEADER, Unpacking, accept
from wire.topics import Role
from wire.users import User, Users, write_users

USERS: tuple[tuple[str, Role], ...] = (
    ("phone", "device"),
    ("ann", "client"),
    ("orchestrator", "orchestrator"),
    ("eve", "watcher"),
)
LIMIT_S = 20.0


def _authorise(user: str, secret: str) -> Role | None:
    return dict(USERS).get(user) if secret == f"secret of {user}" else None


class Caller:
    """Requests as one user, with the standard library alone."""

    def __init__(self, port: int, user: str | None) -> None:
        self._port = port
        self._headers = {}
        if user is not None:
            login = base64.b64encode(f"{user}:secret of {user}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"

    def __call__(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            link.request(method, path, body, self._headers | named)
            answer = link.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            link.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with StoreServer(tmp_path_factory.mktemp("store"), authorise=_authorise) as server:
        yield server


@pytest.fixture
def phone(server: StoreServer) -> Caller:
    return Caller(server.port, "phone")


@pytest.fixture
def writer(server: StoreServer) -> Caller:
    return Caller(server.port, "orchestrator")


def _kind(body: bytes) -> str:
    plain = json.loads(body)
    assert set(plain) == {"kind", "reason"}
    return plain["kind"]


def test_a_range_resumes_a_download(server: StoreServer, phone: Caller):
    data = bytes(range(256)) * 10
    digest = server.blobs.put([data]).digest
    status, headers, body = phone("GET", f"/blobs/{digest}", Range="bytes=1000-")
    assert (status, body) == (206, data[1000:])
    assert headers["Content-Range"] == "bytes 1000-2559/2560"
    assert headers["ETag"] == f'"{digest}"'
    assert headers["Accept-Ranges"] == "bytes"
    assert headers["Content-Length"] == "1560"


def test_a_range_outside_is_416_and_says_the_length(server: StoreServer, phone: Caller):
    digest = server.blobs.put([b"short"]).digest
    status, headers, body = phone("GET", f"/blobs/{digest}", Range="bytes=5-")
    assert (status, headers["Content-Range"], _kind(body)) == (416, "bytes */5", "out_of_range")


def test_a_range_of_something_else_gets_it_all(server: StoreServer, phone: Caller):
    digest = server.blobs.put([b"short"]).digest
    answer = phone("GET", f"/blobs/{digest}", Range="bytes=1-", If_Range='"another"')
    assert (answer[0], answer[2]) == (200, b"short")
    answer = phone("GET", f"/blobs/{digest}", Range="bytes=1-", If_Range=f'"{digest}"')
    assert (answer[0], answer[2]) == (206, b"hort")


def test_who_has_a_slow_link_gets_fewer_bytes(server: StoreServer, phone: Caller):
    values = [random.Random(1).gauss(0.0, 0.04) for _ in range(400_000)]
    data = struct.pack(f"<{len(values)}f", *values)
    digest = server.blobs.put([data]).digest
    status, headers, body = phone("GET", f"/blobs/{digest}", Accept=accept(6e6))
    assert (status, headers["Content-Type"]) == (200, CONTENT_TYPE)
    assert headers[LENGTH_HEADER] == str(len(data))
    assert len(body) < 0.87 * len(data)
    assert b"".join(map(bytes, Unpacking().feed(body))) == data
    some = {"Range": "bytes=1000001-", "Accept": accept(6e6)}
    status, headers, body = phone("GET", f"/blobs/{digest}", **some)
    assert (status, headers["Content-Range"]) == (206, f"bytes 1000001-1599999/{len(data)}")
    assert b"".join(map(bytes, Unpacking().feed(body))) == data[1000001:]


@pytest.mark.parametrize("header", ["*/*", accept(1e9)])
def test_who_has_a_fast_link_gets_them_as_they_are(server: StoreServer, phone: Caller, header: str):
    digest = server.blobs.put([bytes(100_000)]).digest
    status, headers, body = phone("GET", f"/blobs/{digest}", Accept=header)
    assert (status, headers["Content-Length"], body) == (200, "100000", bytes(100_000))


def test_what_the_asker_has_is_not_sent_again(server: StoreServer, phone: Caller):
    digest = server.blobs.put([b"known"]).digest
    status, _, body = phone("GET", f"/blobs/{digest}", If_None_Match=f'"x", "{digest}"')
    assert (status, body) == (304, b"")


def test_head_tells_the_length_without_the_bytes(server: StoreServer, phone: Caller):
    digest = server.blobs.put([b"headed"]).digest
    status, headers, body = phone("HEAD", f"/blobs/{digest}")
    assert (status, headers["Content-Length"], body) == (200, "6", b"")
    assert phone("HEAD", f"/blobs/{digest_of(b'absent')}")[0] == 404


def test_an_unknown_blob_is_404_with_a_reason(phone: Caller):
    status, _, body = phone("GET", f"/blobs/{digest_of(b'absent')}")
    assert (status, _kind(body)) == (404, "blob_missing")


def test_a_blob_that_lost_bytes_on_the_disk_is_500(server: StoreServer, phone: Caller):
    digest = server.blobs.put([b"will rot"]).digest
    server.blobs.path(digest).write_bytes(b"will r")
    status, _, body = phone("GET", f"/blobs/{digest}")
    assert (status, _kind(body)) == (500, "blob_corrupt")


def test_an_upload_with_another_digest_is_422(writer: Caller):
    status, _, body = writer("PUT", f"/blobs/{digest_of(b'announced')}", b"sent")
    assert (status, _kind(body)) == (422, "blob_corrupt")


def test_a_manifest_without_its_blobs_is_409(server: StoreServer, writer: Caller):
    blob = server.blobs.put([b"for a while"])
    data = manifest_about("m", [blob])
    server.blobs.delete(blob.digest)
    status, _, body = writer("PUT", "/manifests/m", data)
    assert (status, _kind(body)) == (409, "blob_missing")


@pytest.mark.parametrize("user", [None, "nobody"])
def test_strangers_get_401_and_are_told_how_to_log_in(server: StoreServer, user: str | None):
    for method in ("GET", "PUT", "DELETE"):
        for path in (f"/blobs/{digest_of(b'')}", "/manifests/m"):
            status, headers, body = Caller(server.port, user)(method, path, b"")
            assert (status, _kind(body)) == (401, "refused")
            assert headers["WWW-Authenticate"].startswith("Basic ")


@pytest.mark.parametrize(
    ("user", "reads", "writes"),
    [
        ("phone", True, False),
        ("ann", True, False),
        ("orchestrator", True, True),
        ("eve", False, False),
    ],
)
def test_each_role_may_what_it_may(server: StoreServer, user: str, reads: bool, writes: bool):
    data = f"of {user}".encode()
    digest = server.blobs.put([data]).digest
    call = Caller(server.port, user)
    for path in (f"/blobs/{digest}", "/manifests", "/blobs"):
        assert (call("GET", path)[0] == 200) == reads
    assert call("PUT", f"/blobs/{digest}", data)[0] == (201 if writes else 403)
    assert call("DELETE", f"/blobs/{digest}")[0] == (204 if writes else 403)
    assert call("PUT", "/manifests/m", b"{}")[0] == (422 if writes else 403)
    assert call("DELETE", "/manifests/m")[0] == (404 if writes else 403)


def test_health_needs_no_login(server: StoreServer):
    assert Caller(server.port, None)("GET", "/health")[0] == 200


def test_any_other_path_or_method_is_refused_in_the_same_form(phone: Caller):
    assert _kind(phone("GET", "/other")[2]) == "not_found"
    assert _kind(phone("POST", "/manifests/m", b"")[2]) == "not_allowed"


def test_a_path_that_climbs_out_of_the_folder_finds_nothing(server: StoreServer, phone: Caller):
    (server.blobs.folder.parent / "secret").write_text("hidden")
    for path in ("/blobs/../secret", "/blobs/%2e%2e%2fsecret", "/blobs/..%2fsecret"):
        status, _, body = phone("GET", path)
        assert status in (404, 422)
        assert b"hidden" not in body


def test_a_refused_upload_still_learns_why(server: StoreServer):
    """The sender is in the middle of 20 MB when it is refused."""
    with (
        RemoteStore(server.base, "phone", "secret of phone") as store,
        pytest.raises(Refused, match="a device may not store blobs"),
    ):
        store.blobs.put([b"x" * 20_000_000])


def test_an_announced_length_over_the_limit_is_refused_unread(
    server: StoreServer, writer: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server.blobs, "max_blob_nbytes", 10)
    status, _, body = writer("PUT", f"/blobs/{digest_of(b'x' * 11)}", b"x" * 11)
    assert (status, _kind(body)) == (413, "too_large")
    halves = [b"x" * 6, b"y" * 6]
    with (
        RemoteStore(server.base, "orchestrator", "secret of orchestrator") as store,
        pytest.raises(TooLarge),
    ):
        store.blobs.put(iter(halves), digest_of(b"".join(halves)))


def test_an_upload_that_breaks_off_is_forgotten(server: StoreServer):
    before = server.blobs.digests()
    login = base64.b64encode(b"orchestrator:secret of orchestrator").decode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as link:
        link.sendall(
            f"PUT /blobs/{digest_of(b'x' * 100)} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
            f"Authorization: Basic {login}\r\n\r\nhalf".encode()
        )
        link.shutdown(socket.SHUT_WR)
        while link.recv(4096):
            pass
    # The server notices in its own time, after the sender sees the connection end.
    _await_no_leftovers(server.blobs.folder)
    assert server.blobs.digests() == before


def _await_no_leftovers(folder: Path) -> None:
    tick, deadline = threading.Event(), time.monotonic() + LIMIT_S
    while list(folder.glob(".*.part")):
        assert time.monotonic() < deadline, "the half upload is still there"
        tick.wait(0.01)


def test_many_download_at_once(server: StoreServer, phone: Caller):
    data = hashlib.shake_256(b"seed").digest(3_000_000)
    digest = server.blobs.put([data]).digest
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: phone("GET", f"/blobs/{digest}")[2], range(32)))
    assert {digest_of(answer) for answer in answers} == {digest}


def test_a_taken_port_is_a_typed_error(server: StoreServer, tmp_path: Path):
    with pytest.raises(PortTaken, match=str(server.port)):
        StoreServer(tmp_path, port=server.port, authorise=_authorise).start()


def test_a_host_that_is_not_ours_is_a_typed_error(tmp_path: Path):
    with pytest.raises(OperatorError, match="cannot listen"):
        StoreServer(tmp_path, host="192.0.2.1", authorise=_authorise).start()


def test_a_manifest_that_the_asker_has_does_not_travel_again(
    writer: Caller, phone: Caller, server: StoreServer
):
    data = manifest_about("known", [server.blobs.put([b"content of a manifest's blob"])])
    assert writer("PUT", "/manifests/known", data)[0] == 201
    status, headers, body = phone("GET", "/manifests/known")
    assert (status, body) == (200, data)
    assert phone("GET", "/manifests/known", If_None_Match=headers["ETag"])[::2] == (304, b"")
    assert phone("GET", "/manifests/known", If_None_Match='"other"')[::2] == (200, data)


def test_a_store_that_takes_connections_and_never_answers_is_told_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("model_store.remote.ASK_LIMIT_S", 0.3)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        RemoteStore(f"http://127.0.0.1:{silent.getsockname()[1]}", "phone", "x") as store,
        pytest.raises(StoreUnreachable, match="does not answer: stop what serves it"),
    ):
        store.manifests.names()


def test_a_proxy_that_the_environment_names_is_not_for_the_store(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with RemoteStore(server.base, "phone", "secret of phone") as store:
        assert store.manifests.names() is not None


def test_a_stopped_store_can_be_started_again_on_its_port(tmp_path: Path):
    server = StoreServer(tmp_path, authorise=_authorise)
    server.start()
    port = server.port
    server.stop()
    server.stop()
    with RemoteStore(server.base, "phone", "x") as store, pytest.raises(StoreUnreachable):
        store.manifests.names()
    server.start()
    assert server.port == port
    assert Caller(port, "phone")("GET", "/manifests")[2] == b"[]"
    server.stop()


def _run(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "model_store", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_program_serves_alone_and_ends_when_told(tmp_path: Path):
    users = tmp_path / "users.json"
    users.write_bytes(write_users(Users(1, (User("phone", "device", "secret of phone"),))))
    program = _run("--folder", str(tmp_path / "s"), "--port", "0", "--credentials", str(users))
    assert program.stdout is not None
    port = int(program.stdout.readline().split(",")[0].rpartition(":")[2])
    assert Caller(port, "phone")("GET", "/manifests")[2] == b"[]"
    program.send_signal(signal.SIGTERM)
    assert program.wait(LIMIT_S) == 0
    program.communicate()


def test_the_program_says_what_is_wrong_and_exits_so(server: StoreServer, tmp_path: Path):
    users = tmp_path / "users.json"
    program = _run("--folder", str(tmp_path), "--credentials", str(users))
    assert "cannot read the file of users" in program.communicate(timeout=LIMIT_S)[1]
    assert program.returncode == OperatorError.exit_code
    users.write_bytes(write_users(Users(1, ())))
    port = str(server.port)
    program = _run("--folder", str(tmp_path), "--credentials", str(users), "--port", port)
    said = program.communicate(timeout=LIMIT_S)[1]
    assert f"port {port}" in said
    assert "Traceback" not in said


def test_a_large_blob_passes_through_without_being_held(tmp_path: Path):
    """200 MB in and out; the server may grow by a fraction of it."""
    users = tmp_path / "users.json"
    users.write_bytes(write_users(Users(1, (User("orchestrator", "orchestrator", "s"),))))
    program = _run("--folder", str(tmp_path / "s"), "--port", "0", "--credentials", str(users))
    assert program.stdout is not None
    port = int(program.stdout.readline().split(",")[0].rpartition(":")[2])
    block = bytes(1 << 20)
    digest = hashlib.sha256(block * 200).hexdigest()
    with RemoteStore(f"http://127.0.0.1:{port}", "orchestrator", "s") as store:
        store.manifests.names()
        before = psutil.Process(program.pid).memory_info().rss
        store.blobs.put((block for _ in range(200)), digest)
        assert store.blobs.verify(digest).nbytes == 200 << 20
        peak = _peak_nbytes(program.pid)
    program.terminate()
    program.communicate(timeout=LIMIT_S)
    assert peak - before < 60 << 20


def _peak_nbytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
