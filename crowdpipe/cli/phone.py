"""The lines that a person types on a phone or beside it."""

from __future__ import annotations

import shlex
from pathlib import Path

from wire.broker_url import BrokerUrl


def agent_line(broker: BrokerUrl) -> str:
    """What to type on the phone. The address holds the phone's own secret."""
    return f"crowdpipe-agent --broker {shlex.quote(str(broker))}"


def device_add_line(home: Path, usual_home: Path) -> str:
    where = "" if home == usual_home else f" --home {shlex.quote(str(home))}"
    return f"crowdpipe device add my-phone{where}"
