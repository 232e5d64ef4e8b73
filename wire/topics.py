"""Every topic there is, in one table: who writes it, who reads it, at which QoS.

The broker's access list is generated from this table, so that a topic missing here cannot be
used. Two roots: `control` holds only JSON that a person can read, `data` only binary frames.
A party is `<device>`, `orchestrator` or `clients/<user>/<session>`; a data topic has one shape,
`<reader>/from/<writer>`, so that the broker vouches for the sender.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wire.errors import Malformed
from wire.ids import check_name

ORCHESTRATOR = "orchestrator"
NOBODY = "nobody"
CONTROL_ROOT = "crowdpipe/v1"
DATA_ROOT = "crowdpipe-data/v1"
TELEMETRY_END = "/telemetry"
FRAME_CONTENT_TYPE = "application/vnd.crowdpipe.frame"
JSON_CONTENT_TYPE = "application/json"

Role = Literal["device", "orchestrator", "client", "watcher"]


@dataclass(frozen=True, slots=True)
class TopicRule:
    """A row of the table. `{d}` is a device, `{u}/{s}` a client, `{m}` a model, `{r}` a run.

    A role reads or writes with its own name in the pattern; only the orchestrator has all.
    """

    name: str
    root: Literal["control", "data"]
    pattern: str
    qos: int
    retained: bool
    writer: Role
    readers: tuple[Role, ...]


TABLE: tuple[TopicRule, ...] = (
    TopicRule(
        "device_state",
        "control",
        "devices/{d}/state",
        1,
        True,
        "device",
        ("orchestrator", "device"),
    ),
    TopicRule(
        "telemetry", "control", "devices/{d}/telemetry", 0, True, "device", ("orchestrator",)
    ),
    TopicRule(
        "assignment",
        "control",
        "devices/{d}/assignment",
        1,
        True,
        "orchestrator",
        ("device", "orchestrator"),
    ),
    TopicRule(
        "residency", "control", "devices/{d}/residency", 1, True, "device", ("orchestrator",)
    ),
    TopicRule("events", "control", "devices/{d}/events", 1, False, "device", ("orchestrator",)),
    TopicRule("commands", "control", "devices/{d}/commands", 1, False, "orchestrator", ("device",)),
    TopicRule(
        "requests", "control", "clients/{u}/{s}/requests", 1, False, "client", ("orchestrator",)
    ),
    TopicRule(
        "responses", "control", "clients/{u}/{s}/responses", 1, False, "orchestrator", ("client",)
    ),
    TopicRule("model", "control", "models/{m}", 1, True, "orchestrator", ("client",)),
    TopicRule("run", "control", "runs/{r}", 1, True, "orchestrator", ("client",)),
    TopicRule(
        "orchestrator_state",
        "control",
        "orchestrator/state",
        1,
        True,
        "orchestrator",
        ("device", "client", "orchestrator"),
    ),
)
"""Control topics. A watcher reads all of them, as does a client (which is a person's program)."""


class _Level:
    """The table as a tree of words, so that a topic is found by one look-up a level: a message of
    each device passes here. Below `words` what a row says itself, below `others` what stands for
    its `variable`; `row` is the name of the one that ends here."""

    __slots__ = ("others", "row", "variable", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Level] = {}
        self.variable = ""
        self.others: _Level | None = None
        self.row: str | None = None

    def below(self, word: str) -> _Level:
        if not word.startswith("{"):
            return self.words.setdefault(word, _Level())
        self.variable = word.strip("{}")
        self.others = self.others or _Level()
        return self.others


def _tree(rules: tuple[TopicRule, ...]) -> _Level:
    top = _Level()
    for rule in rules:
        level = top
        for word in rule.pattern.split("/"):
            level = level.below(word)
        level.row = rule.name
    return top


_TREE = _tree(TABLE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A control topic taken apart: the row's name and what stood for its variables."""

    name: str
    variables: dict[str, str]


def client_party(user: str, session: str) -> str:
    check_name(user, "user name")
    check_name(session, "session name")
    return f"clients/{user}/{session}"


def nobody_of(user: str) -> str:
    """The party that runs of this user's belong to which no session has."""
    return client_party(user, NOBODY)


def is_client(party: str) -> bool:
    return party.startswith("clients/")


def user_of(party: str) -> str:
    """The user whose client the party is; of a device or the orchestrator, it itself."""
    pieces = party.split("/", 2)
    return pieces[1] if len(pieces) == 3 else party


def check_party(party: str) -> str:
    """`party` itself if it is a device, the orchestrator or a client; otherwise `InvalidName`."""
    pieces = party.split("/")
    if party == ORCHESTRATOR:
        return party
    if len(pieces) == 3 and pieces[0] == "clients":
        return client_party(pieces[1], pieces[2])
    return check_name(party, "device name")


@dataclass(frozen=True, slots=True)
class Topics:
    """Builds and reads topics below two configurable roots."""

    control_root: str = CONTROL_ROOT
    data_root: str = DATA_ROOT

    def device(self, device: str, leaf: str) -> str:
        """`leaf` is state, telemetry, assignment, residency, events or commands."""
        return f"{self.control_root}/devices/{device}/{leaf}"

    def client(self, party: str, leaf: str) -> str:
        """`party` is `clients/<user>/<session>`; `leaf` is requests or responses."""
        return f"{self.control_root}/{party}/{leaf}"

    def model(self, model: str) -> str:
        return f"{self.control_root}/models/{model}"

    def run(self, run: str) -> str:
        return f"{self.control_root}/runs/{run}"

    @property
    def orchestrator_state(self) -> str:
        return f"{self.control_root}/orchestrator/state"

    def data(self, reader: str, writer: str) -> str:
        return f"{self.data_root}/{reader}/from/{writer}"

    def inbox(self, reader: str) -> str:
        """The subscription to everything that is sent to `reader`."""
        return f"{self.data_root}/{reader}/from/#"

    def subscription(self, name: str) -> str:
        """A row of the table with `+` for each of its variables."""
        rule = next(rule for rule in TABLE if rule.name == name)
        levels = ["+" if level.startswith("{") else level for level in rule.pattern.split("/")]
        return f"{self.control_root}/{'/'.join(levels)}"

    def parse(self, topic: str) -> Parsed:
        """A control topic as the row it belongs to; `Malformed` if it is none."""
        root = self.control_root + "/"
        parsed = _found(topic[len(root) :].split("/")) if topic.startswith(root) else None
        if parsed is None:
            raise Malformed(f"{topic!r:.200} is no topic of ours")
        return parsed

    def sender(self, topic: str) -> tuple[str, str]:
        """`(reader, writer)` of a data topic."""
        rest = topic.removeprefix(self.data_root + "/")
        reader, found, writer = rest.partition("/from/")
        if rest == topic or not found:
            raise Malformed(f"{topic!r} is no data topic")
        return check_party(reader), check_party(writer)

    def is_telemetry(self, topic: str) -> bool:
        """Said every few seconds by each device, and urgent for nobody."""
        return topic.endswith(TELEMETRY_END)

    def is_data(self, topic: str) -> bool:
        return topic.startswith(self.data_root + "/")


def _found(words: list[str]) -> Parsed | None:
    level, variables = _TREE, {}
    for word in words:
        below = level.words.get(word)
        if below is None:
            below = level.others
            variables[level.variable] = word
        if below is None:
            return None
        level = below
    return None if level.row is None else Parsed(level.row, variables)
