"""Start an agent under an identity that no other container has: `python claim.py PROGRAM …`.

Each file in the folder of identities is one device's address. The first one that is free is
locked and handed to the program, which becomes this process; the lock lasts as long as it does,
and ends with it, however it ends. So `docker compose up --scale agent=5` gives five devices.
An address that is given already (`CROWDPIPE_AGENT_BROKER`) is left alone. Needs the standard
library only.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

FOLDER = "CROWDPIPE_IDENTITIES"
ADDRESS = "CROWDPIPE_AGENT_BROKER"
NAME = "CROWDPIPE_AGENT_NAME"


def claim(folder: Path) -> Path:
    """The first free identity, locked until this process (or what it becomes) ends."""
    known = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in known:
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        os.set_inheritable(handle, True)
        return path
    sys.exit(f"error: all {len(known)} identities in {folder} are in use; make more of them first")


def main() -> None:
    if not os.environ.get(ADDRESS):
        folder = Path(os.environ.get(FOLDER, "/identities"))
        if not folder.is_dir():
            sys.exit(f"error: give {ADDRESS}=mqtt://NAME:SECRET@HOST:PORT, or mount {folder}")
        path = claim(folder)
        os.environ[ADDRESS] = path.read_text(encoding="utf-8")
        os.environ[NAME] = path.name
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
