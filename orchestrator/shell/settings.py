"""How the orchestrator is set up: a YAML file, then the environment, then flags, the later winning.

`CROWDPIPE_<NAME>` in the environment, `--<name>` on the command line and `<name>:` in the file are
the same settings. Under `options:` stand the numbers that the machine decides by.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml

from bus.inbound_frames import REASSEMBLY_NBYTES
from orchestrator.machine.records.options import OrchestratorOptions
from wire.broker_url import BrokerUrl, parse_url
from wire.errors import InvalidSettings
from wire.topics import CONTROL_ROOT, DATA_ROOT

ENVIRONMENT_PREFIX = "CROWDPIPE_"
NAMES = (
    "broker",
    "authority",
    "store",
    "store_base",
    "home",
    "hold_nbytes",
    "journal_limit_nbytes",
    "control_root",
    "data_root",
    "log",
)
LOG_LEVELS = ("debug", "info", "warning", "error")
JOURNAL_FOLDER = "orchestrator"  # in the home
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
EXAMPLE = "mqtt://orchestrator:SECRET@127.0.0.1:1883"
STORE_EXAMPLE = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class OrchestratorSettings:
    """`home` is the folder of the journal: `orchestrator` in the home folder that people name.
    `store` is where the orchestrator reaches the store; `store_base` is what devices are told:
    without a host, the broker's as each device reaches it. Without a login of its own the store is
    read with the broker's. Over TLS the store proves itself by the certificate in the file
    `authority`, else by one that the system knows; the broker by what its address names.
    `hold_nbytes` bounds frames that came and are
    not stored yet, `journal_limit_nbytes` the journal (None: the disk does)."""

    broker: BrokerUrl
    store: str
    home: Path
    store_base: str = ""
    store_user: str | None = None
    store_secret: str | None = field(default=None, repr=False)
    authority: Path | None = None
    hold_nbytes: int = REASSEMBLY_NBYTES
    journal_limit_nbytes: int | None = None
    control_root: str = CONTROL_ROOT
    data_root: str = DATA_ROOT
    log: str = "info"
    options: OrchestratorOptions = field(default_factory=OrchestratorOptions)


def make_settings(
    broker: str,
    store: str,
    home: Path,
    store_base: str | None = None,
    authority: Path | None = None,
    **others: Any,
) -> OrchestratorSettings:
    """Settings from addresses as people write them. Raises `InvalidUrl` or `InvalidSettings`."""
    login = parse_url(broker)
    plain, user, secret = _split_store(store)
    return OrchestratorSettings(
        broker=login,
        store=plain,
        home=home,
        store_base=store_base or base_for_devices(plain, login.host),
        store_user=user if user is not None else login.user,
        store_secret=secret if user is not None else login.secret,
        authority=authority,
        **others,
    )


def base_for_devices(store: str, broker_host: str) -> str:
    """The store's address for devices: without a host if it is the broker's."""
    parts = urlsplit(store)
    same = parts.hostname == broker_host or {parts.hostname, broker_host} <= LOOPBACK
    if not same:
        return store
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://:{port}{parts.path}".rstrip("/")


def _split_store(store: str) -> tuple[str, str | None, str | None]:
    try:
        parts = urlsplit(store)
        port = parts.port
    except ValueError as error:
        raise InvalidSettings(f"store: {error}; write it as {STORE_EXAMPLE}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise InvalidSettings(f"the store's address must be written as {STORE_EXAMPLE}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    user = None if parts.username is None else unquote(parts.username)
    secret = None if parts.password is None else unquote(parts.password)
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}", user, secret


def read_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str], file: Path | None = None
) -> OrchestratorSettings:
    """All settings, checked. `flags` that are None were not given; `flags["option"]` holds
    `name=value` texts. Raises `InvalidSettings` or `InvalidUrl`."""
    plain: dict[str, Any] = _read_file(file) if file is not None else {}
    options = dict(plain.pop("options", None) or {})
    pairs = ((name, environment.get(ENVIRONMENT_PREFIX + name.upper())) for name in NAMES)
    plain |= {name: value for name, value in pairs if value}
    plain |= {name: flags[name] for name in NAMES if flags.get(name) is not None}
    options |= dict(_option(text) for text in flags.get("option") or ())
    return _settings(plain, options)


def _settings(plain: dict[str, Any], options: dict[str, Any]) -> OrchestratorSettings:
    for name, example in (("broker", EXAMPLE), ("store", STORE_EXAMPLE)):
        if not plain.get(name):
            raise InvalidSettings(f"which {name}? Give --{name}, as in --{name} {example}")
    log = str(plain.get("log") or "info")
    if log not in LOG_LEVELS:
        raise InvalidSettings(f"log {log!r} is none of {', '.join(LOG_LEVELS)}")
    authority = Path(str(plain["authority"])).expanduser() if plain.get("authority") else None
    return make_settings(
        _vouched_for(str(plain["broker"]), authority),
        str(plain["store"]),
        Path(str(plain.get("home") or Path.home() / ".crowdpipe")).expanduser() / JOURNAL_FOLDER,
        str(plain["store_base"]) if plain.get("store_base") else None,
        authority=authority,
        hold_nbytes=_nbytes(plain, "hold_nbytes") or REASSEMBLY_NBYTES,
        journal_limit_nbytes=_nbytes(plain, "journal_limit_nbytes"),
        control_root=str(plain.get("control_root") or CONTROL_ROOT),
        data_root=str(plain.get("data_root") or DATA_ROOT),
        log=log,
        options=_options(options),
    )


def _vouched_for(broker: str, authority: Path | None) -> str:
    """One who sets up all by hand has one authority for broker and store, unless they say so."""
    url = parse_url(broker)
    if authority is None or not url.tls or url.authority is not None:
        return broker
    return str(dataclasses.replace(url, authority=str(authority)))


def _nbytes(plain: dict[str, Any], name: str) -> int | None:
    value = plain.get(name)
    if value is None:
        return None
    if not str(value).isdecimal() or int(value) < 1 << 20:
        raise InvalidSettings(f"{name} {value!r}: give a number of bytes, at least {1 << 20}")
    return int(value)


def _option(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    if not found:
        raise InvalidSettings(f"option {text!r}: write it as name=value, like lease_s=20")
    return name.strip(), yaml.safe_load(value)


def _options(given: dict[str, Any]) -> OrchestratorOptions:
    defaults = OrchestratorOptions()
    known = {entry.name: getattr(defaults, entry.name) for entry in dataclasses.fields(defaults)}
    for name, value in given.items():
        if name not in known or name in ("limits", "version", "versions"):
            raise InvalidSettings(f"there is no option {name!r}; there are {', '.join(known)}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise InvalidSettings(f"option {name}: {value!r} is no number from 0 up")
        if not isinstance(known[name], float) and not isinstance(value, int):
            raise InvalidSettings(f"option {name}: {value!r} is no whole number")
    return dataclasses.replace(defaults, **given)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        plain = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise InvalidSettings(f"cannot read the settings in {file}: {error.strerror}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise InvalidSettings(f"the settings in {file} cannot be understood: {error}") from None
    if not isinstance(plain, dict):
        raise InvalidSettings(f"the settings in {file} must be lines like 'home: ~/crowdpipe'")
    unknown = sorted(set(map(str, plain)) - {*NAMES, "options"})
    if unknown:
        raise InvalidSettings(f"{file}: unknown setting {unknown[0]!r}; there are {NAMES}")
    return plain


def default_file(environment: Mapping[str, str]) -> Path | None:
    """The settings file that the environment names, if any."""
    named = environment.get(f"{ENVIRONMENT_PREFIX}CONFIG")
    return Path(named).expanduser() if named else None
