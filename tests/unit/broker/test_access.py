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


def test_every_user_has_a_block_of_its_own():
    users = [User("b", "device", "s"), User("a", "watcher", "s")]
    text = access_list(users)
    assert text.index("user a\n") < text.index("user b\n")
    assert "pattern" not in text
    assert text.split("user b\n")[1].count("crowdpipe/v1/#") == 0


def test_secrets_are_not_in_the_access_list():
    assert "hidden" not in access_list([User("a", "device", "hidden")])


def test_roots_can_be_changed():
    text = access_list([User("a", "device", "s")], Topics("lab/x", "lab-data"))
    assert "topic read lab/x/devices/a/assignment\n" in text
    assert "topic write lab-data/+/from/a\n" in text


@pytest.mark.parametrize("root", ["", "a//b", "a/#", "+", "a\nuser b", "$SYS", "a b"])
def test_a_root_that_would_change_the_lists_meaning_is_refused(root: str):
    with pytest.raises(InvalidName):
        access_list([User("a", "device", "s")], Topics(root, "data"))
