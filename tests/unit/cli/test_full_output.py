"""Output that goes to a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no device here that is always full")
def test_output_that_does_not_fit_is_an_error_in_one_sentence():
    with FULL.open("w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "crowdpipe", "--help"],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no room left on a disk")
