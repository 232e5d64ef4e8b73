"""Start a program of the desk with the orchestrator's address: `python desk.py PROGRAM …`.

The address holds a secret, so it goes into the environment (`CROWDPIPE_BROKER`), not among the
arguments, which everybody on the machine can read. One that is given already is left alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ADDRESS = "CROWDPIPE_BROKER"
FILE = "CROWDPIPE_BROKER_FILE"


def main() -> None:
    if not os.environ.get(ADDRESS):
        path = Path(os.environ.get(FILE, "/desk/addresses/orchestrator"))
        try:
            os.environ[ADDRESS] = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            sys.exit(
                f"error: give {ADDRESS}=mqtt://NAME:SECRET@HOST:PORT, or mount {path}: {error}"
            )
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
