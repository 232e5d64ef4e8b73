"""What can be wrong with a message. Each takes one that is as it should be, and chance."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from benchmarks.hostile.samples import RUN, Message

Malform = Callable[[Message, Random, Sequence[Message]], Message]
"""The message, chance, and all that the sender might say instead."""

LONG = 60_000  # characters: of a topic, the most that MQTT can carry is 65,535
DEEP = 20_000
NUMBERS = (2**63 - 1, 2**64, -1, 10**300, 1e308, -(2**53) - 1, 2**53 + 1, 0)
ODD_JSON = ("NaN", "Infinity", "-0", "1e999", "1" * 5_000, '"\\ud800"', "nul", "01", "")
WORDS: tuple[Any, ...] = (None, [], {}, "", "x" * 5_000, "\0", "../../etc", True, -1.5, [[]])
OTHERS = (
    "crowdpipe/v1/devices/phone-1/state",
    "crowdpipe/v1/devices/phone-2/assignment",
    "crowdpipe/v1/devices/phone-3/commands",
    "crowdpipe/v1/orchestrator/state",
    "crowdpipe/v1/models/no-such-model",
    f"crowdpipe/v1/runs/{RUN}",
    "crowdpipe/v1/clients/local/probe/requests",
    "crowdpipe-data/v1/phone-1/from/phone-2",
    "crowdpipe-data/v1/orchestrator/from/phone-1",
    "crowdpipe-data/v1/clients/local/x/from/orchestrator",
    "$SYS/broker/uptime",
    "crowdpipe/v1/devices",
)


def _truncated(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    return replace(said, payload=said.payload[: random.randrange(len(said.payload))])


def _flipped(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    data = bytearray(said.payload)
    for _ in range(random.randint(1, 8)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return replace(said, payload=bytes(data))


def _of_another_kind(said: Message, random: Random, others: Sequence[Message]) -> Message:
    return replace(said, payload=random.choice(others).payload)


def _wrong_number(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    if said.is_json:
        return _with_leaf(said, random, random.choice(NUMBERS))
    data = bytearray(said.payload)
    start = random.randrange(len(data))
    data[start : start + random.choice((1, 2, 4, 8))] = random.choice((b"\xff" * 8, b"\0" * 8))
    return replace(said, payload=bytes(data))


def _wrong_value(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    return _with_leaf(said, random, random.choice(WORDS))


def _odd_json(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    marked = _with_leaf(said, random, "@@")
    return replace(marked, payload=marked.payload.replace(b'"@@"', _odd(random), 1))


def _odd(random: Random) -> bytes:
    return random.choice(ODD_JSON).encode()


def _deep(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    opening, closing = random.choice((("[", "]"), ('{"a":', "}")))
    depth = random.choice((20, 500, DEEP))
    text = opening * depth + "1" + closing * random.choice((0, depth))
    return replace(said, payload=text.encode())


def _not_utf8(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    at = random.randrange(len(said.payload))
    bad = random.choice((b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\0"))
    return replace(said, payload=said.payload[:at] + bad + said.payload[at:])


def _empty(said: Message, _random: Random, _all: Sequence[Message]) -> Message:
    return replace(said, payload=b"")


def _noise(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    return replace(said, payload=random.randbytes(random.choice((1, 16, 300, 3_000))))


def _twice(said: Message, _random: Random, _all: Sequence[Message]) -> Message:
    return replace(said, payload=said.payload * 2)


def _long(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    if said.is_json:
        value: Any = random.choice(("x" * LONG, ["x"] * 5_000, list(range(5_000))))
        return _with_leaf(said, random, value)
    return replace(said, payload=said.payload + bytes(LONG))


def _stale(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    """Of a generation, connection or boot that never was, or is long over."""
    wanted = ("generation", "revision", "connection", "boot", "first_seq", "attempt", "run")
    value = random.choice((0, 1, 2**40, "another"))
    return _with_leaf(said, random, value, wanted)


def _odd_name(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    """In place of what the sender may choose in the topic."""
    name = random.choice(("X", "", "a" * 33, "a" * 20_000, "from", "clients", "ä", "a b", ".."))
    levels = said.topic.split("/")
    place = 2 if levels[0].endswith("data") else -2
    levels[place] = name
    return replace(said, topic="/".join(levels))


def _of_others(said: Message, random: Random, _all: Sequence[Message]) -> Message:
    """On a topic that the broker should keep it from."""
    return replace(said, topic=random.choice(OTHERS), retain=random.random() < 0.5)


def _as_it_is(said: Message, _random: Random, _all: Sequence[Message]) -> Message:
    """Right in all but what it is about: somebody else's run, a place that the sender has not."""
    return said


KINDS: dict[str, Malform] = {
    "truncated": _truncated,
    "bits flipped": _flipped,
    "of another kind": _of_another_kind,
    "a wrong number": _wrong_number,
    "a wrong value": _wrong_value,
    "odd JSON": _odd_json,
    "deep": _deep,
    "not UTF-8": _not_utf8,
    "empty": _empty,
    "noise": _noise,
    "twice": _twice,
    "long": _long,
    "stale": _stale,
    "an odd name": _odd_name,
    "on another's topic": _of_others,
    "about another's run": _as_it_is,
}


def malformed(messages: Sequence[Message], random: Random) -> Message:
    """One of `messages` with something wrong."""
    return random.choice(tuple(KINDS.values()))(random.choice(messages), random, messages)


def _with_leaf(said: Message, random: Random, value: Any, wanted: Sequence[str] = ()) -> Message:
    """With another value somewhere; of one of the names `wanted` where it has such."""
    if not said.is_json:
        return _flipped(said, random, ())
    plain = json.loads(said.payload)
    places = list(_places(plain))
    named = [place for place in places if place[1] in wanted]
    holder, key = random.choice(named or places)
    holder[key] = value
    return replace(said, payload=json.dumps(plain).encode())


def _places(plain: Any) -> Sequence[tuple[Any, Any]]:
    """Every place in it that has a value: (what holds it, under which key)."""
    keys = plain.keys() if isinstance(plain, dict) else range(len(plain))
    found: list[tuple[Any, Any]] = []
    for key in list(keys):
        found.append((plain, key))
        if isinstance(plain[key], (dict, list)):
            found += _places(plain[key])
    return found
