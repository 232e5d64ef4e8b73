"""Records: JSON that is believed only after every field was checked."""

from __future__ import annotations

import contextlib
import json
from dataclasses import KW_ONLY, dataclass
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.elements import Element, element, itemsize_of, nbytes_of
from wire.errors import BY_KIND, CrowdpipeError, InvalidName, Malformed, TooLarge, from_kind
from wire.ids import (
    ActivationId,
    PartitionId,
    check_digest,
    check_name,
    digest_of,
    is_name,
    mint,
)
from wire.manifest import BlobRef
from wire.messages.assignment import Assignment, PartitionAssignment, Route, SegmentRef
from wire.messages.commands import Acknowledge, Cancel, CommandBatch, Open, Ping, Report, Send
from wire.messages.events import EventBatch, FrameReceived, Inventory, Pong
from wire.messages.requests import InputsStored, Request, Response, Resume, RunOptions, Submit
from wire.record import decode, encode
from wire.topics import TABLE, Topics, check_party

BLOB = BlobRef("a" * 64, 3)
PARTITION = PartitionId("b" * 64, False, 2, 2)
SEGMENT = SegmentRef(2, BLOB, (BLOB,), ("x",), ("y",), 8, 1.5)
ASSIGNMENT = Assignment(
    3,
    4,
    "http://:8080",
    (PartitionAssignment(PARTITION, "m", 2, (SEGMENT,), 10, ("y",), 20),),
    (Route("b" * 64, False, 3, ("pixel",)),),
)
RECORDS: list[tuple[Any, Any]] = [
    (Assignment, ASSIGNMENT),
    (
        CommandBatch,
        CommandBatch(
            1,
            (
                Send("r", 1, (0, 2), "d"),
                Open("r", 0, (1,)),
                Cancel("r"),
                Report(),
                Ping("n"),
                Acknowledge("boot", 7),
            ),
        ),
    ),
    (
        EventBatch,
        EventBatch(
            "boot",
            "conn",
            1,
            (
                FrameReceived(ActivationId("r", 0, 1), "d", 5, 0.5),
                Inventory(1, 2, (ActivationId("r", 0, 1),), (), None, ("a" * 64,), ()),
                Pong("n", 1.0),
            ),
        ),
    ),
    (Request, Submit("r", "m", RunOptions(exact=True, partitions=3), 5)),
    (Response, InputsStored("r", ((0, 3), (5, 5)), 2)),
]


@pytest.mark.parametrize(("kind", "record"), RECORDS, ids=lambda value: type(value).__name__)
def test_a_record_comes_back_as_it_was(kind: Any, record: Any) -> None:
    assert decode(kind, encode(record)) == record


def test_a_command_reads_like_this() -> None:
    plain = json.loads(encode(CommandBatch(2, (Send("r", 1, (0,), "pixel"),), 7)))
    assert plain == {
        "generation": 2,
        "commands": [{"type": "send", "run": "r", "cut": 1, "items": [0], "to": "pixel"}],
        "number": 7,
    }


@pytest.mark.parametrize(("kind", "record"), RECORDS, ids=lambda value: type(value).__name__)
def test_every_truncated_prefix_of_a_record_is_refused(kind: Any, record: Any) -> None:
    data = encode(record)
    for length in range(len(data)):
        with pytest.raises(Malformed):
            decode(kind, data[:length])


@given(st.binary(max_size=200))
def test_random_bytes_are_no_record(data: bytes) -> None:
    with pytest.raises(CrowdpipeError):
        decode(Assignment, data)


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(RECORDS), st.data())
def test_a_field_of_another_type_gives_a_record_or_a_typed_error(entry: Any, data: Any) -> None:
    kind, record = entry
    plain = json.loads(encode(record))
    field = data.draw(st.sampled_from(sorted(plain)))
    plain[field] = data.draw(_plain)
    with contextlib.suppress(CrowdpipeError):
        decode(kind, json.dumps(plain).encode())


def test_the_path_of_what_is_wrong_is_named() -> None:
    plain = json.loads(encode(ASSIGNMENT))
    plain["partitions"][0]["segments"][0]["graph"]["nbytes"] = "three"
    with pytest.raises(Malformed, match=r"\$\.partitions\[0\]\.segments\[0\]\.graph\.nbytes"):
        decode(Assignment, json.dumps(plain).encode())


def test_segments_that_are_not_the_partitions_are_refused() -> None:
    plain = json.loads(encode(ASSIGNMENT))
    plain["partitions"][0]["partition"]["last"] = 5
    with pytest.raises(Malformed, match="do not match"):
        decode(Assignment, json.dumps(plain).encode())


def test_unknown_fields_are_left_to_newer_readers() -> None:
    plain = json.loads(encode(ASSIGNMENT)) | {"from_the_future": 1}
    assert decode(Assignment, json.dumps(plain).encode()) == ASSIGNMENT


def test_a_record_over_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(TooLarge):
        decode(Assignment, b"[" * 100, limit=50)


def test_deep_nesting_and_numbers_that_are_none_are_refused() -> None:
    for text in ("[" * 100_000, '{"a": NaN}', '{"generation": 1e999}', "9" * 10_000):
        with pytest.raises(Malformed):
            decode(Assignment, text.encode())


@pytest.mark.parametrize("half", ["\\ud800", "\\uDFFF", "x\\uDbffy"])
def test_half_a_pair_of_surrogates_is_refused_as_nothing_could_say_it_again(half: str) -> None:
    for text in (
        f'{{"type": "resume", "run": "{half}"}}',
        f'{{"type": "resume", "run": "r", "{half}": 1}}',
    ):
        with pytest.raises(Malformed, match="not JSON"):
            decode(Request, text.encode())


def test_a_whole_pair_of_surrogates_is_one_character() -> None:
    said = decode(Request, b'{"type": "resume", "run": "\\ud83d\\ude00"}')
    assert said == Resume("\N{GRINNING FACE}")
    assert decode(Request, encode(said)) == said


def test_true_is_no_number() -> None:
    plain = json.loads(encode(ASSIGNMENT)) | {"generation": True}
    with pytest.raises(Malformed, match="generation"):
        decode(Assignment, json.dumps(plain).encode())


def test_every_kind_of_error_survives_the_wire() -> None:
    for kind, error in BY_KIND.items():
        assert type(from_kind(kind, "why")) is error
        assert str(from_kind(kind, "why")) == "why"


@pytest.mark.parametrize("name", ["", "A", "a" * 33, "a/b", "a+", "#", "orchestrator", "from", "é"])
def test_names_that_cannot_stand_in_a_topic_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_name(name)


@pytest.mark.parametrize("run", ["a/b", "+", "#", "../x", ""])
def test_a_run_whose_id_could_not_stand_in_a_topic_is_refused(run: str) -> None:
    plain = json.loads(encode(Submit("r", "m"))) | {"run": run}
    with pytest.raises(Malformed, match="run id"):
        decode(Request, json.dumps(plain).encode())


@given(st.text(max_size=40))
def test_asking_whether_a_name_is_allowed_and_checking_it_agree(text: str) -> None:
    try:
        check_name(text)
    except InvalidName:
        assert not is_name(text)
    else:
        assert is_name(text)


@given(st.text(max_size=70))
def test_only_64_hex_digits_are_a_digest(text: str) -> None:
    for candidate in (text, "a" * (64 - len(text)) + text, digest_of(text.encode())):
        if len(candidate) == 64 and set(candidate) <= set("0123456789abcdef"):
            assert check_digest(candidate) == candidate
        else:
            with pytest.raises(Malformed):
                check_digest(candidate)


def test_element_types_have_the_numbers_and_sizes_that_onnx_gives_them() -> None:
    numbers = dict(onnx.TensorProto.DataType.items())
    for kind in set(Element) - {Element.STRING}:
        if kind.name not in numbers:  # an onnx that is older than the type
            continue
        assert numbers[kind.name] == kind
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
        assert itemsize_of(kind) == dtype.itemsize
    lacking = {name for name, number in numbers.items() if number not in set(map(int, Element))}
    assert lacking <= {"UNDEFINED", "FLOAT6E2M3", "FLOAT6E3M2"}


@given(st.integers(-(10**6), 10**6))
def test_a_number_is_an_element_type_or_a_typed_error(number: int) -> None:
    if number in set(map(int, Element)):
        assert element(number) == number
    else:
        with pytest.raises(Malformed):
            element(number)


@pytest.mark.parametrize(
    ("kind", "nbytes"),
    [
        (Element.INT4, 3),
        (Element.INT2, 2),
        (Element.BOOL, 5),
        (Element.COMPLEX128, 80),
    ],
)
def test_five_elements_take_so_many_bytes(kind: Element, nbytes: int) -> None:
    assert nbytes_of(kind, 5) == nbytes
    assert nbytes_of(kind, 0) == 0


def test_strings_have_no_fixed_size() -> None:
    with pytest.raises(ValueError, match="no fixed size"):
        nbytes_of(Element.STRING, 1)


def test_minted_names_may_stand_in_a_topic() -> None:
    assert check_name(mint()) != check_name(mint())
    assert check_digest("0" * 64) == "0" * 64


def test_each_row_of_the_table_is_found_again_in_its_topics() -> None:
    topics = Topics("a/b", "c")
    for rule in TABLE:
        topic = "a/b/" + rule.pattern.format(d="d1", u="u1", s="s1", m="m1", r="r1")
        assert topics.parse(topic).name == rule.name
        assert topics.subscription(rule.name).startswith("a/b/")


@pytest.mark.parametrize(
    "topic",
    [
        "devices/d1/state",
        "a/bdevices/d1/state",
        "a/b/devices/d1",
        "a/b/devices/d1/weather",
        "a/b/devices/d1/state/more",
        "a/b/weather",
        "a/b/",
        "a/b",
        "",
    ],
)
def test_a_topic_that_is_in_no_row_is_refused(topic: str) -> None:
    with pytest.raises(Malformed, match="no topic of ours"):
        Topics("a/b", "c").parse(topic)


def test_what_stands_for_a_rows_variables_is_told() -> None:
    assert Topics("a/b", "c").parse("a/b/clients/ann/s1/requests").variables == {
        "u": "ann",
        "s": "s1",
    }
    assert Topics("a/b", "c").parse("a/b/devices/state/state").variables == {"d": "state"}


def test_a_data_topic_names_its_reader_and_its_writer() -> None:
    topics = Topics()
    topic = topics.data("clients/ann/s1", "orchestrator")
    assert topics.sender(topic) == ("clients/ann/s1", "orchestrator")
    for wrong in ("crowdpipe/v1/x", "crowdpipe-data/v1/x", "crowdpipe-data/v1/A/from/b"):
        with pytest.raises((Malformed, InvalidName)):
            topics.sender(wrong)


def test_parties_are_devices_the_orchestrator_and_clients() -> None:
    for party in ("pixel-7", "orchestrator", "clients/ann/s1"):
        assert check_party(party) == party
    for party in ("from", "clients/ann", "clients//s", "a/b"):
        with pytest.raises(InvalidName):
            check_party(party)


@dataclass(frozen=True, slots=True)
class Named:
    """Of what only names may tell apart."""

    first: int
    _: KW_ONLY
    second: int
    third: int = 3


def test_a_record_whose_fields_have_no_places_is_read_by_their_names() -> None:
    assert decode(Named, encode(Named(1, second=2))) == Named(1, second=2)
    assert decode(Named, b'{"third": 5, "second": 4, "first": 1}') == Named(1, second=4, third=5)
