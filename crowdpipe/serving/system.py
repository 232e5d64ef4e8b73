"""Everything that `crowdpipe up` runs: a broker (or somebody else's), the store, the orchestrator.

Starts them in the order in which they need each other and stops them in the reverse one; a start
that fails half-way stops what was started. Keeps the broker's users as the file of users has
them, so that `crowdpipe device add` works while this runs, and starts a broker of ours again that
has ended: everybody connects to it again, and goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from broker_config.broker import Broker
from broker_config.broker_choice import choose_broker
from broker_config.credentials import Credentials
from crowdpipe.home import hold_home, remove_up, write_up
from crowdpipe.serving.addresses import (
    WILDCARDS,
    check_own,
    names_of_desk,
    only_this_machine,
    own_address,
    reached_from_outside,
)
from crowdpipe.serving.certificates import Certificates
from crowdpipe.serving.forget_requests import take_requests
from crowdpipe.serving.users import CLIENT
from crowdpipe.watching.login import WATCHER
from model_store.server import StoreServer
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.shell.orchestrator import Orchestrator
from orchestrator.shell.settings import JOURNAL_FOLDER, make_settings
from wire.broker_url import AUTHORITY, BrokerUrl
from wire.errors import BrokerUnreachable, DiskFull, OperatorError, PortTaken, TimedOut
from wire.topics import ORCHESTRATOR, Role
from wire.users import User

LOOPBACK = "127.0.0.1"
READY_LIMIT_S = 20.0
LOOK_EVERY_S = 0.3
NAMES_EVERY_S = 30.0
FORGET_AFTER_DAYS = 7.0
DAY_S = 86_400.0
BROKER_STARTS, BROKER_STARTS_S = 4, 60.0  # a broker that ends more often has a fault of its own

_log = logging.getLogger("crowdpipe.up")


@dataclass(frozen=True, slots=True)
class SystemSettings:
    """`host` is where broker and store listen; port 0 picks a free one. With `broker`, that one
    is used and none is started. `tls`: both speak TLS alone; None: unless only this machine
    reaches them. Devices that were not heard of for `forget_after_days` while this ran are
    forgotten; 0 keeps them."""

    home: Path
    host: str = LOOPBACK
    broker_port: int = 0
    store_port: int = 0
    broker: str | None = None
    forget_after_days: float = FORGET_AFTER_DAYS
    tls: bool | None = None

    @property
    def secured(self) -> bool:
        return not only_this_machine(self.host) if self.tls is None else self.tls


class System:
    """Started on entering a `with`, stopped on leaving it."""

    def __init__(self, settings: SystemSettings) -> None:
        self.settings = settings
        self._stack = ExitStack()
        self._ending = threading.Event()
        self._known: tuple[User, ...] = ()
        self._broker_starts: deque[float] = deque(maxlen=BROKER_STARTS)
        self._named_at, self._unshown = 0.0, False
        self.certificates = Certificates.of(settings.home) if settings.secured else None
        self.credentials: Credentials
        self.broker: Broker
        self.store: StoreServer
        self.orchestrator: Orchestrator

    @property
    def journal_folder(self) -> Path:
        return self.settings.home / JOURNAL_FOLDER

    def start(self) -> None:
        """Return once all of it serves. Raises `PortTaken`, `BrokerUnreachable`, `HomeTaken`."""
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()

    def _start(self, stack: ExitStack) -> None:
        settings = self.settings
        check_own(settings.host)
        self.credentials = Credentials(settings.home)
        stack.enter_context(hold_home(settings.home))
        for name, role in _residents():
            self.credentials.add(name, role)
        self._known = self.credentials.users()
        certificate = self._certificate()
        self.broker = choose_broker(
            settings.broker,
            settings.home,
            self.credentials,
            settings.host,
            settings.broker_port,
            certificate=certificate,
        )
        _told_which(self.broker.start, "--broker-port")
        stack.callback(self.broker.stop)
        self.store = StoreServer(
            settings.home / "store",
            settings.host,
            settings.store_port,
            authorise=self._authorise,
            certificate=certificate,
        )
        _told_which(self.store.start, "--store-port")
        stack.callback(self.store.stop)
        self._start_orchestrator(stack)
        self._write_up()
        stack.callback(remove_up, settings.home)

    def _write_up(self) -> None:
        told = self.outside if self.settings.broker is None and self.certificates else None
        key = self.orchestrator.desk_key
        write_up(self.settings.home, self.url_for(CLIENT), self._told_base(), key, told)

    def _certificate(self) -> Path | None:
        """The file to serve with, which names all by which this desk is reached."""
        if self.certificates is None:
            return None
        self._named_at = time.monotonic()
        self.certificates.ensure(names_of_desk(self.settings.host))
        return self.certificates.server

    def _start_orchestrator(self, stack: ExitStack) -> None:
        me = self.credentials.add(ORCHESTRATOR, "orchestrator")
        made = make_settings(
            broker=str(self.url_for(ORCHESTRATOR)),
            store=self.store.base.replace("://", f"://{me.name}:{quote(me.secret)}@", 1),
            home=self.journal_folder,
            store_base=self._base_for_devices(),
            authority=self.certificates.authority if self.certificates else None,
            options=OrchestratorOptions(forget_s=self.settings.forget_after_days * DAY_S),
        )
        self.orchestrator = Orchestrator(made)
        self.orchestrator.start()
        stack.callback(self.orchestrator.stop)
        self.orchestrator.wait_ready(READY_LIMIT_S)

    def _base_for_devices(self) -> str:
        """Without a host where broker and store share it: each device then uses the address by
        which it reached the broker, and the authority that it was given with it. Somebody else's
        broker tells it both."""
        scheme, port = self.store.scheme, self.store.port
        if self.settings.broker is None:
            return f"{scheme}://:{port}"
        vouched = f"?{AUTHORITY}{self.certificates.fingerprint}" if self.certificates else ""
        return f"{scheme}://{reached_from_outside(self.settings.host)}:{port}{vouched}"

    def _told_base(self) -> str:
        if self.settings.host in WILDCARDS:
            return f"{self.store.scheme}://{own_address()}:{self.store.port}"
        return self.store.base

    @property
    def outside(self) -> BrokerUrl:
        """How the broker is reached from elsewhere, without a login."""
        url = self.broker.outside
        if self.settings.broker is None and self.settings.host in WILDCARDS:
            url = replace(url, host=own_address())
        if self.settings.broker is None and self.certificates is not None:
            url = replace(url, authority=self.certificates.fingerprint)
        return url

    def url_for(self, user: str) -> BrokerUrl:
        """How `user` connects from here. A broker that listens everywhere is named by the address
        that phones reach too, unless it has a plain door for this machine. A broker of somebody
        else's whose address names no login is one that knows our users, or lets everybody in: each
        says its own name."""
        url = self.broker.url_for(user)
        plain = self.settings.broker is None and self.certificates is None
        if plain and self.settings.host in WILDCARDS:
            url = replace(url, host=own_address())
        known = self.credentials.get(user)
        if url.user is None and known is not None:
            return url.login(known.name, known.secret)
        return url

    def _authorise(self, user: str, secret: str) -> Role | None:
        """Who may read the store: our users, and whoever knows the login that we were given for
        somebody else's broker, since all our devices then have that one."""
        role = self.credentials.verify(user, secret)
        given = self.broker.url
        if role is None and given.user is not None and (given.user, given.secret) == (user, secret):
            return "device"
        return role

    def run(self) -> None:
        """Serve until `end`; raises why if a part of it ends by itself."""
        while not self._ending.wait(LOOK_EVERY_S):
            self._keep_broker()
            self._follow_users()
            self._follow_names()
            take_requests(self.settings.home, self.orchestrator.forget)
            if not self.store.running:
                raise OperatorError("the model store has ended; start `crowdpipe up` again")
            if not self.orchestrator.running:
                raise self.orchestrator.failure or OperatorError("the orchestrator has ended")

    def _keep_broker(self) -> None:
        """Raises `OperatorError` if it ends again and again, or cannot be started."""
        if self.broker.running:
            return
        now, starts = time.monotonic(), self._broker_starts
        if len(starts) == BROKER_STARTS and now - starts[0] < BROKER_STARTS_S:
            raise OperatorError(
                f"{self.broker.describe()}, ended {BROKER_STARTS + 1} times within "
                f"{BROKER_STARTS_S:.0f} s; look there for why, then start `crowdpipe up` again"
            )
        starts.append(now)
        _log.warning("the broker has ended; starting it again")
        self.broker.start()
        _log.warning("the broker serves again")

    def _follow_names(self) -> None:
        """A certificate for a network that this machine came into meanwhile, or a year later."""
        if self.certificates is None or time.monotonic() < self._named_at + NAMES_EVERY_S:
            return
        self._named_at = time.monotonic()
        try:
            self._unshown |= self.certificates.ensure(names_of_desk(self.settings.host))
            if not self._unshown:
                return
            self.broker.reload()
            self._write_up()  # phones that are added from here on are told the new address
        except OperatorError as error:  # no reason to end what serves
            _log.warning("the certificate for this desk's addresses now is not in use: %s", error)
            return
        self.store.reload()
        self._unshown = False
        _log.warning("made a new certificate, for the addresses that this desk has now")

    def _follow_users(self) -> None:
        users = self.credentials.users()
        if users == self._known:
            return
        try:
            self.broker.reload()
        except (BrokerUnreachable, DiskFull, TimedOut) as error:  # no reason to end what serves
            _log.warning("the broker has not taken its new users, and is told again: %s", error)
            return
        gone = {user.name for user in self._known if user.role == "device"}
        gone -= {user.name for user in users}
        self._known = users
        for device in sorted(gone):
            self.orchestrator.forget(device)

    def end(self) -> None:
        """Have `run` return soon."""
        self._ending.set()

    def stop(self) -> None:
        self._stack.close()

    def __enter__(self) -> System:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _residents() -> tuple[tuple[str, Role], ...]:
    """The users that every home has."""
    return ((ORCHESTRATOR, "orchestrator"), (CLIENT, "client"), (WATCHER, "watcher"))


def _told_which(start: Callable[[], None], option: str) -> None:
    """Start, and say which option chooses the port if it is taken."""
    try:
        start()
    except PortTaken as error:
        raise PortTaken(f"{error} with {option}") from None
