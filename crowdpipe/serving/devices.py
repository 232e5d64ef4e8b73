"""Adding a device to a home: a user with a secret of its own, whom the broker lets in."""

from __future__ import annotations

import time
from pathlib import Path

from broker_config.credentials import Credentials
from bus.broker_probe import knock
from crowdpipe.home import read_up
from wire.broker_url import BrokerUrl
from wire.errors import BrokerUnreachable, InvalidName, Refused, TimedOut
from wire.ids import check_name

WELCOME_LIMIT_S = 15.0
POLL_S = 0.1


def add_device(home: Path, name: str) -> BrokerUrl | None:
    """How the device connects; None if nothing is served from `home` yet. Adding twice is once.

    Raises `InvalidName`, or `TimedOut` if the broker does not let it in: it is added all the same,
    and the error says so.
    """
    user = Credentials(home).add(check_name(name, "device name"), "device")
    record = read_up(home)
    if record is None:
        return None
    served = record.url
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
            refusal = "it refused the new device"
        except BrokerUnreachable as error:
            refusal = str(error)
        if time.monotonic() > deadline:
            raise TimedOut(
                f"{name} is added, but waited {WELCOME_LIMIT_S:g} s for the broker to let it in: "
                f"{refusal}; start `crowdpipe up` again, then type this again to see the line"
            )
        time.sleep(POLL_S)


def remove_device(home: Path, name: str) -> None:
    """Forget the device; `InvalidName` if there is none of that name."""
    credentials = Credentials(home)
    user = credentials.get(name)
    if user is None or user.role != "device":
        known = sorted(one.name for one in credentials.users() if one.role == "device")
        raise InvalidName(
            f"there is no device {name!r}; there are: {', '.join(known) or 'none yet'}"
        )
    credentials.remove(name)
