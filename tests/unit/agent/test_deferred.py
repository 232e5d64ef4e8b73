"""What a plain connection never uses is not loaded, and is there when it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = ("ssl", "http.client", "urllib.request", "email", "numpy", "onnxruntime", "_hashlib")
AGENT = (
    "import sys, edge_agent.__main__\nfrom edge_agent.adapters.deferred import *\n"
    "with deferred_modules():\n    import edge_agent.shell.agent\n"
)


def run(code: str) -> str:
    """What the code prints in a fresh interpreter that has the agent's modules."""
    done = subprocess.run(
        [sys.executable, "-c", AGENT + code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_agent_that_only_started_has_loaded_none_of_it() -> None:
    assert run(f"print([name for name in {HEAVY!r} if name in sys.modules])") == "[]"


@pytest.mark.parametrize(
    ("code", "loads"),
    [
        ("import wire.ids; wire.ids.digest_of(b'x')", "hashlib"),
        (
            "import edge_agent.adapters.store.download as d; d.http.client.HTTPConnection",
            "http.client",
        ),
        ("import paho.mqtt.client as p; p.ssl.create_default_context()", "ssl"),
        ("import paho.mqtt.client as p; p.urllib.request.getproxies()", "urllib.request"),
    ],
)
def test_what_is_used_is_loaded_then(code: str, loads: str) -> None:
    assert run(f"{code}\nprint({loads!r} in sys.modules)") == "True"


def test_tls_can_be_set_up_on_a_deferred_module() -> None:
    code = (
        "import paho.mqtt.client as p\n"
        "client = p.Client(p.CallbackAPIVersion.VERSION2)\n"
        "client.tls_set()\n"
        "import ssl\n"
        "print(isinstance(client._ssl_context, ssl.SSLContext))\n"
        "print(p.ssl.SSLWantReadError is ssl.SSLWantReadError)"
    )
    assert run(code).split() == ["True", "True"]


def test_an_exception_that_cannot_be_is_named_without_loading_its_module() -> None:
    code = (
        "import paho.mqtt.client as p\n"
        "try:\n    raise BlockingIOError\n"
        "except p.ssl.SSLWantReadError:\n    print('wrong')\n"
        "except BlockingIOError:\n    print('ssl' in sys.modules)"
    )
    assert run(code) == "False"


def test_modules_that_are_there_already_stay_what_they_are() -> None:
    code = (
        "import ssl\n"
        "with deferred_modules():\n    import ssl as again\n"
        "print(again is ssl, type(ssl).__name__)"
    )
    assert run(code) == "True module"
