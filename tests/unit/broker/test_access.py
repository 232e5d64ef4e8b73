"""The access list, as text and as rights."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_config.access import Right, access_list, rights_of
from wire.errors import InvalidName
from wire.topics import TABLE, Topics
from wire.users import User

NAMES = st.from_regex(r"[a-z0-9-]{1,32}", fullmatch=True)


def test_a_device_may_do_exactly_this():
    assert set(map(str, rights_of("p", "device"))) == {
        "topic read crowdpipe/v1/devices/p/state",
        "topic write crowdpipe/v1/devices/p/state",
        "topic write crowdpipe/v1/devices/p/telemetry",
        "topic read crowdpipe/v1/devices/p/assignment",
        "topic write crowdpipe/v1/devices/p/residency",
        "topic write crowdpipe/v1/devices/p/events",
        "topic read crowdpipe/v1/devices/p/commands",
        "topic read crowdpipe/v1/orchestrator/state",
        "topic read crowdpipe-data/v1/p/from/#",
        "topic write crowdpipe-data/v1/+/from/p",
    }


def test_a_client_may_do_exactly_this():
    assert set(map(str, rights_of("ann", "client"))) == {
        "topic read crowdpipe/v1/#",
        "topic write crowdpipe/v1/clients/ann/+/requests",
        "topic read crowdpipe-data/v1/clients/ann/+/from/#",
        "topic write crowdpipe-data/v1/orchestrator/from/clients/ann/+",
    }


def test_a_watcher_only_reads_what_a_person_can_read():
    assert rights_of("eve", "watcher") == (Right("read", "crowdpipe/v1/#"),)


def test_the_orchestrator_may_clear_every_retained_topic():
    writable = {right.filter for right in rights_of("orchestrator", "orchestrator")}
    topics = Topics()
    assert {topics.subscription(rule.name) for rule in TABLE if rule.retained} <= writable


@given(NAMES, NAMES)
def test_no_device_may_write_in_another_name(one: str, other: str):
    writes = [right.filter for right in rights_of(one, "device") if right.access == "write"]
    assert all(one in text.split("/") for text in writes)
    if one != other:
        assert not any(right in rights_of(other, "device") for right in writes)


class Obeyed:
    """An access list as Mosquitto 2.0 obeys it: a user's own denials, then their rights, then the
    patterns, which hold for everybody."""

    def __init__(self, text: str) -> None:
        self.patterns: list[list[str]] = []
        self.blocks: dict[str, list[list[str]]] = {}
        rows = self.patterns
        for line in text.splitlines():
            words = line.split()
            if words[:1] == ["user"]:
                rows = self.blocks.setdefault(words[1], [])
            elif words[:1] in (["topic"], ["pattern"]):
                rows.append(words[1:])

    def allows(self, user: str, access: str, topic: str) -> bool:
        block = self.blocks.get(user, [])
        if any(kind == "deny" and matches(where, topic) for kind, where in block):
            return False
        mine = [(kind, where.replace("%u", user)) for kind, where in self.patterns]
        return any(kind == access and matches(where, topic) for kind, where in [*block, *mine])


def matches(where: str, topic: str) -> bool:
    """Whether the filter of MQTT covers the topic."""
    want, have = where.split("/"), topic.split("/")
    if want[-1] == "#":
        want, have = want[:-1], have[: len(want) - 1]
    return len(want) == len(have) and all(
        one in ("+", other) for one, other in zip(want, have, strict=True)
    )


# Names of people that are also words of topics: no denial may hit more than their own.
USERS = [
    User("p", "device", "s"),
    User("q", "device", "s"),
    User("ann", "client", "s"),
    User("state", "client", "s"),
    User("devices", "watcher", "s"),
    User("orchestrator", "orchestrator", "s"),
]
TOPICS = Topics()
PARTIES = ["p", "orchestrator", "clients/ann/s1", "ann", "clients/state/s1", "state", "devices"]
SUBJECTS = [
    *(
        f"{TOPICS.control_root}/{rule.pattern.format(d=d, u=u, s='s1', m='m', r='r')}"
        for rule in TABLE
        for d in ("p", "ann", "orchestrator", "_door")
        for u in ("ann", "state", "p")
    ),
    *(TOPICS.data(reader, writer) for reader in PARTIES for writer in PARTIES),
    "crowdpipe/v1/elsewhere",
    "elsewhere",
]


def of_no_device(topic: str) -> bool:
    """Where nothing is ever said, so that it does not matter that a denial is of reading too."""
    return any(f"/devices/{name}/" in topic for name in ("ann", "orchestrator"))


@pytest.mark.parametrize("access", ["read", "write"])
@pytest.mark.parametrize("user", USERS, ids=lambda user: user.name)
def test_the_list_as_mosquitto_obeys_it_gives_each_user_its_rights_and_no_others(
    user: User, access: str
):
    obeyed = Obeyed(access_list(USERS))
    rights = [right for right in rights_of(user.name, user.role) if right.access == access]
    for topic in SUBJECTS:
        wanted = any(matches(right.filter, topic) for right in rights)
        if wanted and of_no_device(topic) and user.name in topic.split("/"):
            continue
        assert obeyed.allows(user.name, access, topic) == wanted, topic


def test_an_outsider_may_nothing():
    obeyed = Obeyed(access_list(USERS, outsiders=("_door",)))
    allowed = {
        (access, topic)
        for access in ("read", "write")
        for topic in [*SUBJECTS, TOPICS.data("_door", "p"), TOPICS.data("p", "_door")]
        if obeyed.allows("_door", access, topic)
    }
    assert allowed == set()


def test_the_list_does_not_grow_with_the_fleet():
    """Mosquitto looks through all users for each line of a user: 10,000 devices took 20 s."""
    few = [User(f"phone-{number}", "device", "s") for number in range(2)]
    many = [User(f"phone-{number}", "device", "s") for number in range(1000)]
    assert access_list(few) == access_list(many)


def test_secrets_are_not_in_the_access_list():
    assert "hidden" not in access_list([User("a", "client", "hidden")])


def test_roots_can_be_changed():
    text = access_list([User("a", "device", "s")], Topics("lab/x", "lab-data"))
    assert "pattern read lab/x/devices/%u/assignment\n" in text
    assert "pattern write lab-data/+/from/%u\n" in text


@pytest.mark.parametrize("root", ["", "a//b", "a/#", "+", "a\nuser b", "$SYS", "a b"])
def test_a_root_that_would_change_the_lists_meaning_is_refused(root: str):
    with pytest.raises(InvalidName):
        access_list([User("a", "device", "s")], Topics(root, "data"))
