"""Addresses of brokers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_config.url import BrokerUrl, parse_url
from bus.broker_probe import connect_packet
from wire.errors import InvalidUrl

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1)


@given(TEXTS, TEXTS, st.integers(1, 65535), st.booleans())
def test_an_address_survives_being_written_and_read(user: str, secret: str, port: int, tls: bool):
    url = BrokerUrl("broker.example", port, tls, user, secret)
    assert parse_url(str(url)) == url


@given(st.none() | st.integers(8192, 1 << 30))
def test_an_address_may_tell_a_limit_that_the_broker_does_not_announce(nbytes: int | None):
    url = BrokerUrl("host", 1883, user="ann", secret="s", packet_nbytes=nbytes)
    assert parse_url(str(url)) == url
    assert parse_url(url.shown).packet_nbytes == nbytes


def test_the_port_has_a_default():
    assert parse_url("mqtt://host") == BrokerUrl("host", 1883)
    assert parse_url("mqtts://host/") == BrokerUrl("host", 8883, tls=True)


def test_an_ipv6_host_is_written_in_brackets():
    assert str(BrokerUrl("::1", 1883)) == "mqtt://[::1]:1883"
    assert parse_url("mqtt://[::1]:1883").host == "::1"


def test_a_shown_address_has_no_secret():
    url = parse_url("mqtt://ann:hidden@host:1")
    assert "hidden" not in url.shown + repr(url)
    assert url.shown == "mqtt://ann@host:1"


@pytest.mark.parametrize(
    "text",
    [
        "host:1883",
        "http://host",
        "mqtt://",
        "mqtt://h:99999",
        "mqtt://h/topic",
        "",
        "mqtt://h:x",
        "mqtt://h?a=b",
        "mqtt://h?packet_nbytes=9",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(text: str):
    with pytest.raises(InvalidUrl, match="mqtt://"):
        parse_url(text)


def test_a_wrong_address_does_not_spread_its_secret():
    with pytest.raises(InvalidUrl) as caught:
        parse_url("mqtt://ann:hidden@host:port")
    assert "hidden" not in str(caught.value)


def test_the_connect_packet_is_what_the_standard_says():
    packet = connect_packet("u", "pw")
    assert packet[0] == 0x10
    assert packet[1] == len(packet) - 2
    assert packet[2:12] == b"\x00\x04MQTT\x05\xc2\x00\x0a"
    assert packet[12] == 0
    assert packet.endswith(b"\x00\x01u\x00\x02pw")


def test_an_address_names_the_authority_that_vouches_for_the_broker():
    pinned = BrokerUrl("host", 8883, True, "ann", "s", authority=f"sha256:{'ab' * 32}")
    assert str(pinned) == f"mqtts://ann:s@host:8883?authority=sha256:{'ab' * 32}"
    file = BrokerUrl("host", 8883, True, packet_nbytes=8192, authority="/home/ann/a & b?.pem")
    for url in (pinned, file):
        assert parse_url(str(url)) == url
    assert parse_url(f"mqtts://host?authority=SHA256:{'AB' * 32}").authority == pinned.authority
    assert "authority" not in pinned.shown, "it is long, and says nothing to people"


@pytest.mark.parametrize("authority", ["sha256:", "sha256:abc", f"sha256:{'x' * 64}", "", "%00"])
def test_an_authority_that_is_none_is_refused(authority: str):
    with pytest.raises(InvalidUrl, match="authority"):
        parse_url(f"mqtts://host?authority={authority}")
