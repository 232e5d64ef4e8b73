"""Who may read and write which topic, generated from the table in `wire.topics`.

What devices may stands once, as Mosquitto `pattern`s in which `%u` is the user's own name, so the
list does not grow with the fleet: Mosquitto 2.0 looks through all users for each line of a user
that it reads, and 10,000 devices with ten lines each kept it from starting within 10 s. Patterns
give their rights to all users, whatever their role. Hence every user that is no device has a block
that first denies what the patterns would give its name, then says what it may. What a device is
called is decided by its credential, so the broker vouches for the sender of whatever it delivers.

Beyond the table's rows the orchestrator may write the devices' retained topics, because
forgetting a device clears what it left there.

Mosquitto 2.0 grants a subscription to a filter that covers forbidden topics and delivers only
what the user may read; a denied publish shows as reason code 135 in PUBACK. Whoever connects
checks both (see `wire.errors.Refused`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from wire.errors import InvalidName
from wire.topics import ORCHESTRATOR, TABLE, Role, TopicRule, Topics
from wire.users import User

Access = Literal["read", "write"]
WATCHING_ROLES: frozenset[Role] = frozenset({"watcher", "client"})
EACH = "%u"  # in a pattern: the name of whoever asks
HEAD = "# Generated; changes are overwritten."
_EVERY_TOPIC = Topics()


@dataclass(frozen=True, slots=True)
class Right:
    """One line of the access list: `filter` may hold the wildcards of MQTT."""

    access: Access
    filter: str

    def __str__(self) -> str:
        return f"topic {self.access} {self.filter}"


def access_list(
    users: Iterable[User], topics: Topics = _EVERY_TOPIC, outsiders: Iterable[str] = ()
) -> str:
    """The text of Mosquitto's `acl_file` for these users, in the order of their names.
    `outsiders` can connect and may nothing."""
    rights = {
        user.name: rights_of(user.name, user.role, topics)
        for user in sorted(users, key=lambda user: user.name)
        if user.role != "device"
    }
    rights |= dict.fromkeys(outsiders, ())
    blocks = [_block(name, allowed, topics) for name, allowed in rights.items()]
    return "\n".join([HEAD, *map(_pattern, rights_of(EACH, "device", topics)), *blocks]) + "\n"


def _pattern(right: Right) -> str:
    return f"pattern {right.access} {right.filter}"


def _block(name: str, allowed: tuple[Right, ...], topics: Topics) -> str:
    lines = ["", f"user {name}"]
    lines += [f"topic deny {denied}" for denied in _denied(name, allowed, topics)]
    return "\n".join([*lines, *map(str, allowed)])


def _denied(name: str, allowed: tuple[Right, ...], topics: Topics) -> tuple[str, ...]:
    """What the patterns would let a device of this name do, and this user may not.

    A denial goes before every right, for reading and writing alike. So what the orchestrator may
    do in its own name is left out, and what all may read is denied only to who may nothing.
    """
    patterns = rights_of(EACH, "device", topics)
    own = {
        Right(right.access, _of_user(right.filter, name))
        for right in patterns
        if EACH in right.filter.split("/") or not allowed
    }
    return tuple(sorted({right.filter for right in own - set(allowed)}))


def _of_user(pattern: str, name: str) -> str:
    return "/".join(name if level == EACH else level for level in pattern.split("/"))


def rights_of(name: str, role: Role, topics: Topics = _EVERY_TOPIC) -> tuple[Right, ...]:
    """Everything that user `name` of `role` may do."""
    check_root(topics.control_root)
    check_root(topics.data_root)
    rights = [*_control_rights(name, role, topics), *_data_rights(name, role, topics)]
    return tuple(dict.fromkeys(rights))


def check_root(root: str) -> str:
    """`root` itself if it can stand in an access list and before a topic."""
    levels = root.split("/")
    if not all(levels) or any(ch in "+#$ %" or not ch.isprintable() for ch in root):
        raise InvalidName(f"topic root {root!r}: use words joined by '/', without wildcards")
    return root


def _control_rights(name: str, role: Role, topics: Topics) -> Iterator[Right]:
    if role in WATCHING_ROLES:
        yield Right("read", f"{topics.control_root}/#")
    for rule in TABLE:
        where = f"{topics.control_root}/{_own(rule, name, role)}"
        if role not in WATCHING_ROLES and role in (*rule.readers, *_self_readers(rule)):
            yield Right("read", where)
        if role == rule.writer or (role == ORCHESTRATOR and rule.retained):
            yield Right("write", where)


def _self_readers(rule: TopicRule) -> tuple[Role, ...]:
    """The orchestrator reads what it wrote: a new start finds there what an old one left."""
    return (ORCHESTRATOR,) if rule.writer == ORCHESTRATOR else ()


def _own(rule: TopicRule, name: str, role: Role) -> str:
    """The rule's pattern with the user's own name where it may use only that."""
    mine = {"device": "{d}", "client": "{u}"}.get(role)
    levels = [name if level == mine else level for level in rule.pattern.split("/")]
    return "/".join("+" if level.startswith("{") else level for level in levels)


def _data_rights(name: str, role: Role, topics: Topics) -> list[Right]:
    if role == "device":
        return [Right("read", topics.inbox(name)), Right("write", topics.data("+", name))]
    if role == "orchestrator":
        return [
            Right("read", topics.inbox(ORCHESTRATOR)),
            Right("write", topics.data("+", ORCHESTRATOR)),
            Right("write", topics.data("clients/+/+", ORCHESTRATOR)),
        ]
    if role == "client":
        me = f"clients/{name}/+"
        return [Right("read", topics.inbox(me)), Right("write", topics.data(ORCHESTRATOR, me))]
    return []
