"""Users of a home, each with a secret of its own: devices, and people with programs of theirs.

What a user may is its role's affair (`broker_config.access`): a client has its own runs
alone, and watches the progress of all.
"""

from __future__ import annotations

import time
from pathlib import Path

from broker_config.credentials import Credentials
from bus.broker_probe import knock
from bus.trust import told_elsewhere
from crowdpipe.home import read_up
from crowdpipe.watching.login import WATCHER
from wire.broker_url import BrokerUrl
from wire.errors import BrokerUnreachable, InvalidName, Refused, TimedOut
from wire.ids import check_name
from wire.topics import ORCHESTRATOR, Role

CLIENT = "local"  # as whom commands on this machine connect
OURS = (CLIENT, WATCHER, ORCHESTRATOR)
WELCOME_LIMIT_S = 15.0
POLL_S = 0.1


def add_user(home: Path, name: str, role: Role) -> BrokerUrl | None:
    """How the user connects; None if nothing is served from `home` yet. Adding twice is once.

    Raises `InvalidName`, or `TimedOut` if the broker does not let it in: it is added all the same,
    and the error says so.
    """
    user = Credentials(home).add(check_name(name, f"{role} name"), role)
    record = read_up(home)
    if record is None:
        return None
    served = told_elsewhere(record.told)
    # Somebody else's broker whose address has a login: everybody has that one.
    own = served.user is None or Credentials(home).get(served.user) is not None
    url = served.login(user.name, user.secret) if own else served
    await_welcome(url, name)
    return url


def await_welcome(url: BrokerUrl, name: str) -> None:
    """Until the broker knows the new user: `crowdpipe up` tells it within a second."""
    deadline = time.monotonic() + WELCOME_LIMIT_S
    while True:
        try:
            knock(url)
            return
        except Refused:
            refusal = "it refused the new user"
        except BrokerUnreachable as error:
            refusal = str(error)
        if time.monotonic() > deadline:
            raise TimedOut(
                f"{name} is added, but waited {WELCOME_LIMIT_S:g} s for the broker to let it in: "
                f"{refusal}; start `crowdpipe up` again, then type this again to see the line"
            )
        time.sleep(POLL_S)


def remove_user(home: Path, name: str, role: Role) -> None:
    """Forget the user; `InvalidName` if there is none of that name and role, or it is ours."""
    credentials = Credentials(home)
    if name in OURS:
        raise InvalidName(f"{name!r} is crowdpipe's own user, and is made again at each start")
    user = credentials.get(name)
    if user is None or user.role != role:
        known = ", ".join(names_of(home, role)) or "none yet"
        raise InvalidName(f"there is no {role} {name!r}; there are: {known}")
    credentials.remove(name)


def names_of(home: Path, role: Role) -> list[str]:
    """All users of that role that a person has added."""
    users = Credentials(home).users()
    return sorted(user.name for user in users if user.role == role and user.name not in OURS)
