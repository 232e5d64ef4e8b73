"""The lines that a person types elsewhere, and what keeps elsewhere from reaching us."""

from __future__ import annotations

import shlex
from pathlib import Path

from wire.broker_url import BrokerUrl


def agent_line(broker: BrokerUrl, desk_key: str) -> str:
    """What to type on the phone. The address holds the phone's own secret; `desk_key` is public."""
    return f"crowdpipe-agent --broker {shlex.quote(str(broker))}{_pinned(desk_key)}"


def _pinned(desk_key: str) -> str:
    return f" --desk-key {shlex.quote(desk_key)}" if desk_key else ""


def device_add_line(home: Path, usual_home: Path) -> str:
    where = "" if home == usual_home else f" --home {shlex.quote(str(home))}"
    return f"crowdpipe device add my-phone{where}"


def say_if_only_here(host: str, who: str) -> None:
    """Whoever is elsewhere cannot reach this broker: say how they could."""
    from crowdpipe.cli.console import say
    from crowdpipe.serving.addresses import only_this_machine

    if only_this_machine(host):
        say(
            f"The broker listens on this machine only. For {who}, start it with "
            "`crowdpipe up --lan`."
        )
