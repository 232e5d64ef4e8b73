"""The desk's key: made once, its owner's alone, never replaced by itself; what it signs is verified
on devices, and nothing else is."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from bus.listener import InboundMessage
from bus.packed_properties import PackedProperties
from edge_agent.shell.orders import Orders
from orchestrator.adapters.desk_key import check_desk_key, open_desk_key
from wire.errors import OperatorError
from wire.outbox import Message
from wire.signed_orders import read_key

ORDER = Message("crowdpipe/v1/devices/pixel/assignment", b'{"generation":7,"revision":2}')


def arrived(message: Message, properties_of: Message | None = None) -> InboundMessage:
    packed = PackedProperties(properties_of or message).pack()
    return InboundMessage(message.topic, message.payload, True, packed)


def test_it_is_made_once_and_for_its_owner_alone(tmp_path: Path):
    path = tmp_path / "key"
    made = open_desk_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert open_desk_key(path).public == made.public
    assert [each.name for each in tmp_path.iterdir()] == ["key"]
    assert open_desk_key(tmp_path / "other").public != made.public


def test_a_damaged_one_is_not_replaced(tmp_path: Path):
    path = tmp_path / "key"
    path.write_bytes(b"nonsense")
    with pytest.raises(OperatorError, match="restore it from a backup"):
        open_desk_key(path)
    assert path.read_bytes() == b"nonsense"


def test_one_of_another_kind_is_none(tmp_path: Path):
    path = tmp_path / "key"
    path.write_bytes(
        X25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    with pytest.raises(OperatorError, match="another kind"):
        open_desk_key(path)
    with pytest.raises(OperatorError, match="another kind"):
        check_desk_key(path)


def test_what_it_signs_is_an_order_and_says_the_same(tmp_path: Path):
    key = open_desk_key(tmp_path / "key")
    signed = key.signed(ORDER)
    assert replace(signed, properties=()) == ORDER
    assert Orders(read_key(key.public)).fault(arrived(signed)) is None


@pytest.mark.parametrize(
    "changed",
    [
        replace(ORDER, topic="crowdpipe/v1/devices/pixel2/assignment"),
        replace(ORDER, topic="crowdpipe/v1/devices/pixel/commands"),
        replace(ORDER, topic="other/v1/devices/pixel/assignment"),
        replace(ORDER, payload=b'{"generation":8,"revision":2}'),
        replace(ORDER, payload=b'{"generation":7,"revision":3}'),
        replace(ORDER, payload=ORDER.payload + b" "),
    ],
    ids=["another phone", "another leaf", "another root", "generation", "revision", "a blank"],
)
def test_it_signs_for_one_topic_and_one_payload(tmp_path: Path, changed: Message):
    key = open_desk_key(tmp_path / "key")
    came = arrived(changed, properties_of=key.signed(ORDER))
    assert Orders(read_key(key.public)).fault(came) == "forged"


def test_another_desks_order_is_forged_and_one_without_a_signature_unsigned(tmp_path: Path):
    ours, other = open_desk_key(tmp_path / "key"), open_desk_key(tmp_path / "other")
    orders = Orders(read_key(ours.public))
    assert orders.fault(arrived(other.signed(ORDER))) == "forged"
    assert orders.fault(arrived(ORDER)) == "unsigned"
    short = replace(ORDER, properties=(("ed25519", "AAAA"),))
    assert orders.fault(arrived(short)) == "unsigned"


def test_without_a_key_everything_is_an_order(tmp_path: Path):
    assert Orders(None).fault(arrived(ORDER)) is None
