"""As whom to look on: the home's own watcher, who may write nothing."""

from __future__ import annotations

from pathlib import Path

from broker_config.credentials import Credentials
from wire.broker_url import BrokerUrl

WATCHER = "watcher"


def login_of(home: Path, url: BrokerUrl, name: str) -> BrokerUrl:
    """`url` as the home's user `name`; as it is where the home has none, or where `url` is of
    somebody else's broker with one login for all."""
    if not home.is_dir():
        return url
    credentials = Credentials(home)
    user = credentials.get(name)
    shared = url.user is not None and credentials.get(url.user) is None
    return url if user is None or shared else url.login(user.name, user.secret)
