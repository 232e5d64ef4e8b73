"""What adapters found out about this device and its way to the desk; None where nothing tells.

Plain records: `checks` says what they mean, adapters and the shell fill them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Unanswered:
    """In place of any fact: whoever was asked did not answer in time, or failed."""

    said: str


@dataclass(frozen=True, slots=True)
class Interpreter:
    version: tuple[int, int, int]
    bits: int


@dataclass(frozen=True, slots=True)
class LibraryTrial:
    """A library imported in a process of its own. `fault`: how that went wrong; empty if it
    works."""

    name: str
    version: str
    fault: str = ""
    max_opset: int = 0


@dataclass(frozen=True, slots=True)
class PsutilUse:
    works: bool


@dataclass(frozen=True, slots=True)
class MemoryRoom:
    total_nbytes: int | None
    available_nbytes: int | None
    budget_nbytes: int


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """`wanted_nbytes`: what the agent may come to take, blobs and frames, with `cached_nbytes`."""

    free_nbytes: int | None
    cached_nbytes: int
    wanted_nbytes: int


@dataclass(frozen=True, slots=True)
class ProcAccess:
    """Files below `/proc` that may not be read: some that the agent needs, some that it does
    without."""

    needed: tuple[str, ...]
    spared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FolderUse:
    """`fault`: why nothing can be written there. `taken`: an agent works in it, or elsewhere on
    this device under the same name, as far as that can be told."""

    path: str
    fault: str = ""
    taken: Literal["", "folder", "name"] = ""


@dataclass(frozen=True, slots=True)
class SettingsUse:
    """`fault`: what is wrong with the settings. `file`: where some of them stand, with its mode;
    empty if nowhere."""

    fault: str
    broker_given: bool
    file: str = ""
    mode: int = 0
    holds_secret: bool = False


@dataclass(frozen=True, slots=True)
class PhantomKiller:
    """`monitors`: the setting as it was printed, `null` if it is not set; None if unreadable."""

    sdk: int | None
    monitors: str | None
    most_processes: int | None


@dataclass(frozen=True, slots=True)
class BatteryExemption:
    """`exempt`: whether Android lets Termux use the battery without restriction."""

    exempt: bool | None


@dataclass(frozen=True, slots=True)
class TermuxApp:
    """`shop` as Termux tells it: F_DROID, GITHUB, GOOGLE_PLAY_STORE; empty if it does not."""

    version: str
    shop: str


@dataclass(frozen=True, slots=True)
class TermuxApi:
    """What came of `termux-battery-status`. `missing_fields` of those that telemetry uses."""

    outcome: Literal["missing", "hung", "failed", "said"]
    said: str = ""
    took_s: float = 0.0
    missing_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What starts the agent again: a service of runit, a script at boot, which may take the wake
    lock."""

    has_service: bool
    has_boot_script: bool
    boot_takes_wake_lock: bool


@dataclass(frozen=True, slots=True)
class HostAddresses:
    host: str
    addresses: tuple[str, ...]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class PortKnock:
    """One address; `fault` is empty if something listens there."""

    address: str
    fault: Literal["", "nobody", "silent", "no_route", "other"] = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class PortKnocks:
    shown: str
    knocks: tuple[PortKnock, ...]


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """`days_left`: until it ends."""

    fault: Literal["", "untrusted", "no_tls", "other"] = ""
    said: str = ""
    days_left: float | None = None


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """`spared`: not tried, because it may end an agent that is logged in by this name."""

    name: str
    outcome: Literal["in", "refused", "lost", "spared"]
    said: str = ""
    peer_host: str = ""


@dataclass(frozen=True, slots=True)
class DeskNews:
    """What the orchestrator last said of itself. `status` is None if nothing lies there."""

    status: str | None
    version: str = ""
    wire_version: int = 0
    own_version: str = ""
    own_wire_version: int = 0
    contested: bool = False
    store_base: str = ""


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """`status` is HTTP's, None if there was no answer. `ahead_s`: by how much this device's clock
    is ahead of the store's, as its answer says."""

    shown: str
    status: int | None
    said: str = ""
    ahead_s: float | None = None


@dataclass(frozen=True, slots=True)
class ClockOffset:
    ahead_s: float | None
    matters: bool
