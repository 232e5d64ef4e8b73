"""How this agent is set up: a YAML file, then the environment, then flags, the later winning.

`CROWDPIPE_AGENT_<NAME>` in the environment and `--<name>` on the command line are the same
settings. The file needs PyYAML, which a phone may lack: then it may be JSON, which YAML contains.
Sizes are numbers of bytes or have a unit: `64MiB`, `1.5GB`.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edge_agent.adapters.device.memory import available_nbytes
from edge_agent.adapters.device.readings import disk_free_nbytes, existing_folder
from wire.broker_url import EXAMPLE, BrokerUrl, parse_url
from wire.errors import InvalidSettings
from wire.ids import check_name
from wire.signed_orders import read_key
from wire.topics import CONTROL_ROOT, DATA_ROOT

ENVIRONMENT_PREFIX = "CROWDPIPE_AGENT_"
NAMES = (
    "name",
    "broker",
    "desk_key",
    "authority",
    "cache",
    "memory",
    "disk",
    "hold",
    "threads",
    "log",
    "control_root",
    "data_root",
)
SMALLEST_NBYTES = 1 << 20
DEFAULT_MEMORY_SHARE = 2  # one part in this many of the memory available at the start …
LARGEST_DEFAULT_MEMORY_NBYTES = 1 << 30  # … but no more than this unless it is asked for
DEFAULT_DISK_NBYTES = 4 << 30
DEFAULT_HOLD_NBYTES = 256 << 20
LOG_LEVELS = ("debug", "info", "warning", "error")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`broker` names the authority by which broker and store prove themselves over TLS, if it is
    not one that the system knows. `memory_nbytes` bounds what partitions take above the agent's
    own floor, `disk_nbytes` the cached blobs, `hold_nbytes` the frames held in memory and on
    disk. With `desk_key`, the desk's public key, only orders are obeyed that it signed."""

    name: str
    broker: BrokerUrl
    folder: Path
    memory_nbytes: int
    disk_nbytes: int
    hold_nbytes: int
    threads: int = 1
    log: str = "info"
    control_root: str = CONTROL_ROOT
    data_root: str = DATA_ROOT
    desk_key: bytes | None = None


def read_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> AgentSettings:
    """All settings, checked. `flags` that are None were not given.

    Raises `InvalidSettings` or `InvalidName`.
    """
    return checked_settings(written_settings(flags, environment, file))


def written_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> dict[str, Any]:
    """All settings as somebody wrote them. Raises `InvalidSettings` of a file that cannot be
    read."""
    file = settings_file(environment, file)
    plain: dict[str, Any] = _read_file(file) if file is not None else {}
    plain |= _from_environment(environment)
    plain |= {name: value for name, value in flags.items() if value is not None}
    return plain


def checked_settings(plain: dict[str, Any]) -> AgentSettings:
    """What was written, with defaults. Raises `InvalidSettings`, `InvalidName` or `InvalidUrl`."""
    if not plain.get("broker"):
        raise InvalidSettings(f"which broker? Give --broker, as in --broker {EXAMPLE}")
    broker = parse_url(str(plain["broker"]))
    if plain.get("authority"):
        broker = replace(broker, authority=str(Path(str(plain["authority"])).expanduser()))
    name = _name(plain, broker)
    folder = Path(str(plain.get("cache") or _default_folder(name))).expanduser()
    return AgentSettings(
        name=name,
        broker=broker,
        folder=folder,
        memory_nbytes=_size(plain, "memory") or default_memory_nbytes(),
        disk_nbytes=_size(plain, "disk") or _default_disk_nbytes(folder),
        hold_nbytes=_size(plain, "hold") or DEFAULT_HOLD_NBYTES,
        threads=_threads(plain.get("threads", 1)),
        log=_log_level(plain.get("log", "info")),
        control_root=str(plain.get("control_root") or CONTROL_ROOT),
        data_root=str(plain.get("data_root") or DATA_ROOT),
        desk_key=read_key(str(plain["desk_key"])) if plain.get("desk_key") else None,
    )


def parse_size(text: str | int, what: str = "size") -> int:
    """Bytes of `64MiB`, `1.5 GB`, `4096`; units with an i are powers of 1024."""
    found = _SIZE.fullmatch(str(text))
    if found is None:
        raise InvalidSettings(f"{what} {text!r} is no size; write it like 64MiB or 2GB")
    number, unit, binary = found.groups()
    base = 1024 if binary else 1000
    return int(float(number) * base ** " kmgt".index(unit.lower() or " "))


def default_memory_nbytes() -> int:
    """Half of the memory that is available now, between 16 MiB and 1 GiB."""
    memory = available_nbytes()
    share = LARGEST_DEFAULT_MEMORY_NBYTES if memory is None else memory[1] // DEFAULT_MEMORY_SHARE
    return max(16 << 20, min(LARGEST_DEFAULT_MEMORY_NBYTES, share))


def _default_disk_nbytes(folder: Path) -> int:
    """4 GiB, or half of what is free where that is less."""
    free = disk_free_nbytes(existing_folder(folder))
    return DEFAULT_DISK_NBYTES if free is None else max(1, min(DEFAULT_DISK_NBYTES, free // 2))


def _default_folder(name: str) -> Path:
    return Path.home() / ".cache" / "crowdpipe-agent" / name


def settings_file(environment: Mapping[str, str], file: Path | None = None) -> Path | None:
    """The one that was given, else named in the environment, else the usual one if it is there."""
    if file is not None:
        return file
    named = environment.get(f"{ENVIRONMENT_PREFIX}CONFIG")
    if named:
        return Path(named).expanduser()
    usual = Path.home() / ".config" / "crowdpipe-agent.yaml"
    return usual if usual.is_file() else None


def _name(plain: dict[str, Any], broker: BrokerUrl) -> str:
    """As given; else as whom the broker knows us; else what the host is called."""
    given = plain.get("name") or broker.user
    if given:
        return check_name(str(given), "device name")
    host = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-")[:32]
    return check_name(host or "device", "device name")


def _size(plain: dict[str, Any], name: str) -> int | None:
    if plain.get(name) is None:
        return None
    nbytes = parse_size(plain[name], name)
    if nbytes < SMALLEST_NBYTES:
        raise InvalidSettings(f"{name} {plain[name]!r} is too small; give at least 1MiB")
    return nbytes


def _threads(value: Any) -> int:
    if not str(value).isdecimal() or not 1 <= int(value) <= (os.cpu_count() or 1) * 4:
        raise InvalidSettings(f"threads {value!r}: give a number from 1 to the number of cores")
    return int(value)


def _log_level(value: Any) -> str:
    if value not in LOG_LEVELS:
        raise InvalidSettings(f"log {value!r} is none of {', '.join(LOG_LEVELS)}")
    return str(value)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    pairs = ((name, environment.get(ENVIRONMENT_PREFIX + name.upper())) for name in NAMES)
    return {name: value for name, value in pairs if value}


def _read_file(file: Path) -> dict[str, Any]:
    try:
        plain = _parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidSettings(f"cannot read the settings in {file}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidSettings(f"the settings in {file} cannot be understood: {error}") from None
    if not isinstance(plain, dict):
        raise InvalidSettings(f"the settings in {file} must be lines like 'memory: 64MiB'")
    unknown = sorted(set(map(str, plain)) - set(NAMES))
    if unknown:
        raise InvalidSettings(f"{file}: unknown setting {unknown[0]!r}; there are {NAMES}")
    return plain


def _parse(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        try:
            return json.loads(text)
        except ValueError:
            raise ValueError("install PyYAML, or write them as JSON") from None
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
