"""The home folder, and what is served from it: `up.json`, written by `crowdpipe up`.

Says where a person's programs find the broker when they name none: the environment variable
`CROWDPIPE_BROKER`, else the file. Which authority vouches for a broker elsewhere its address says,
else the file that `CROWDPIPE_AUTHORITY` names. `up.json` holds secrets, so its owner alone may read
it (0600). It counts as long as its writer holds the home's lock, which ends with it however it
ends; whether the broker that it names answers is for whoever connects to find out.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, ClassVar

from broker_config.private_file import make_private_folder, write_private
from wire.broker_url import BrokerUrl, parse_url
from wire.errors import BrokerUnreachable, CrowdpipeError, OperatorError
from wire.record import decode, encode
from wire.unwritable import writing_in

HOME_VARIABLE = "CROWDPIPE_HOME"
BROKER_VARIABLE = "CROWDPIPE_BROKER"
AUTHORITY_VARIABLE = "CROWDPIPE_AUTHORITY"
FILE_NAME = "up.json"
TLS_FOLDER, AUTHORITY_NAME, AUTHORITY_KEY = "tls", "authority.pem", "authority.key"
LOCK_NAME = "up.lock"
LOCK_TRIES = 4
LOCK_PAUSE_S = 0.05
FORMAT = 1


class HomeTaken(OperatorError):
    """Something else serves from this home folder."""

    kind: ClassVar[str] = "home_taken"


@dataclass(frozen=True, slots=True)
class UpRecord:
    """What runs, and a client's login to it. `broker` is an address with user and secret, which
    the store takes too; `store` is the base of the store's addresses, without either. `desk_key`
    is the public one that agents know the desk's orders by. `outside` is the broker's address for
    other machines, with the authority that vouches for it and the store, and without a login: None
    if it is the same."""

    format: int
    broker: str
    store: str
    pid: int
    desk_key: str = ""
    outside: str | None = None

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format}; this program reads {FORMAT}")

    def __repr__(self) -> str:
        return f"UpRecord({self.url.shown!r}, {self.store!r}, pid={self.pid})"

    @property
    def url(self) -> BrokerUrl:
        return parse_url(self.broker)

    @property
    def told(self) -> BrokerUrl:
        """The broker's address for those who are added, whose login is still to come."""
        return self.url if self.outside is None else parse_url(self.outside)


def home_folder() -> Path:
    """`CROWDPIPE_HOME`, by default `~/.crowdpipe`; it need not exist."""
    named = os.environ.get(HOME_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".crowdpipe"


def authority_file(home: Path) -> Path:
    """The certificate of the authority that vouches for what is served from `home` over TLS."""
    return home / TLS_FOLDER / AUTHORITY_NAME


def hold_home(home: Path) -> IO[bytes]:
    """Serve from `home`, alone, for as long as the file returned is open. Raises `HomeTaken`,
    `DiskFull` or `OperatorError`.

    What another has left that ended without a farewell is cleared away.
    """
    make_private_folder(home)
    with writing_in(home):
        lock = (home / LOCK_NAME).open("ab")
    for _ in range(LOCK_TRIES):  # somebody may be looking whether it is held
        if _lock(lock, exclusive=True):
            (home / FILE_NAME).unlink(missing_ok=True)
            return lock
        time.sleep(LOCK_PAUSE_S)
    lock.close()
    raise HomeTaken(
        f"crowdpipe up is already running with the home folder {home}; stop it, "
        "or give another --home"
    )


def _is_held(home: Path) -> bool:
    try:
        lock = (home / LOCK_NAME).open("rb")
    except FileNotFoundError:
        return False
    with lock:
        return not _lock(lock, exclusive=False)


def _lock(file: IO[bytes], *, exclusive: bool) -> bool:
    """Whether the lock was free; it is given back when the file is closed."""
    import fcntl  # not on Windows, where clients work as well, with a broker that they name

    try:
        fcntl.flock(file, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_up(
    home: Path, broker: BrokerUrl, store: str, desk_key: str = "", outside: BrokerUrl | None = None
) -> UpRecord:
    """Say what this process serves, which holds the home. Replaces the file whole or not at all."""
    told = None if outside is None else str(outside)
    record = UpRecord(FORMAT, str(broker), store, os.getpid(), desk_key, told)
    make_private_folder(home)
    write_private(home / FILE_NAME, encode(record, indent=2) + b"\n")
    return record


def read_up(home: Path) -> UpRecord | None:
    """What is served from `home`; None if nothing is, also where `crowdpipe up` was killed and left
    its record. `OperatorError` if the file is damaged."""
    record = _read(home)
    return record if record is not None and _is_held(home) else None


def _read(home: Path) -> UpRecord | None:
    path = home / FILE_NAME
    try:
        record: UpRecord = decode(UpRecord, path.read_bytes())
        parse_url(record.broker)
        parse_url(record.outside or record.broker)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror or error}") from None
    except CrowdpipeError as error:
        raise OperatorError(f"{path} is damaged ({error}); start `crowdpipe up` again") from None
    return record


def desk_key_of(home: Path) -> str:
    """Of the desk that serves from `home`; empty if nothing is served from it."""
    record = read_up(home)
    return record.desk_key if record is not None else ""


def remove_up(home: Path) -> None:
    """Nothing is served any more. Leaves a file that another process wrote."""
    record = _read(home)
    if record is not None and record.pid == os.getpid():
        (home / FILE_NAME).unlink(missing_ok=True)


def _vouched_for(url: BrokerUrl) -> BrokerUrl:
    file = os.environ.get(AUTHORITY_VARIABLE)
    if not file or not url.tls or url.authority is not None:
        return url
    return replace(url, authority=str(Path(file).expanduser()))


def broker_url(named: str | BrokerUrl | None = None, home: Path | None = None) -> BrokerUrl:
    """The broker to use: as named, else from the environment, else the one served from `home`.

    Raises `InvalidUrl`, or `BrokerUnreachable` that says what to start if none is known.
    """
    if isinstance(named, BrokerUrl):
        return named
    text = named or os.environ.get(BROKER_VARIABLE)
    if text:
        return _vouched_for(parse_url(text))
    folder = home or home_folder()
    record = read_up(folder)
    if record is None:
        raise BrokerUnreachable(
            f"no broker is named, and none is served from {folder}: start one with "
            f"`crowdpipe up`, or name one, as in mqtt://name:secret@host:1883 "
            f"(argument or {BROKER_VARIABLE})"
        )
    return record.url
