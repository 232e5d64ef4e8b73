"""The doctor's list: what it holds, in which order, how it looks, and its last sentence."""

from __future__ import annotations

from edge_agent.diagnosis.checks import Examination, checks_for, examine
from edge_agent.diagnosis.facts import (
    BrokerLogin,
    HostAddresses,
    Interpreter,
    PhantomKiller,
    PsutilUse,
    Unanswered,
)
from edge_agent.diagnosis.report import as_lines, as_plain, sentence

FACTS: dict[str, object] = {
    "python": Interpreter((3, 14, 0), 64),
    "psutil": PsutilUse(False),
    "phantom": PhantomKiller(34, None, None),
    "host": HostAddresses("desk.local", (), "not known"),
}


def examined(facts: dict[str, object], *, android: bool = True) -> Examination:
    checks = checks_for(android=android, broker=True, tls=False)
    return examine(tuple(check for check in checks if check.fact in facts), facts)


def test_off_android_its_checks_are_left_out():
    assert "phantom_processes" in [each.key for each in examined(FACTS).findings]
    assert "phantom_processes" not in [each.key for each in examined(FACTS, android=False).findings]


def test_a_plain_connection_has_no_certificate_and_no_broker_no_way_to_it():
    keys = [check.key for check in checks_for(android=False, broker=True, tls=False)]
    assert "broker_login" in keys
    assert "certificate" not in keys
    alone = [check.key for check in checks_for(android=False, broker=False, tls=False)]
    assert "broker_name" not in alone


def test_keys_are_each_there_once():
    keys = [check.key for check in checks_for(android=True, broker=True, tls=True)]
    assert len(set(keys)) == len(keys)


def test_what_stands_behind_a_failed_step_is_named_as_not_asked():
    checks = checks_for(android=False, broker=True, tls=False)
    examination = examine(checks, {"host": FACTS["host"]})
    assert [each.key for each in examination.not_asked][-5:] == [
        "broker_port",
        "broker_login",
        "desk",
        "store",
        "clock",
    ]
    assert sentence(examination).startswith(
        "The agent cannot work yet; to mend: broker's name. Not"
    )


def test_what_does_not_answer_is_a_fault_only_where_the_agent_needs_it():
    silent = Unanswered("did not answer within 4 s")
    levels = {
        each.key: each.verdict.level
        for each in examined({"psutil": silent, "host": silent}).findings
    }
    assert levels == {"psutil": "advice", "broker_name": "fault"}


def test_lines_fit_the_screen_and_stand_below_each_other():
    for columns in (40, 55, 80, 200):
        lines = as_lines(examined(FACTS), columns)
        assert max(map(len, lines)) <= max(50, min(80, columns))
    assert as_lines(examined(FACTS), 80)[:2] == [
        "ok      Python           Python 3.14.0, 64 bits.",
        "ok      psutil           psutil is not there, and need not be.",
    ]


def test_what_to_do_stands_below_what_is_not_well():
    lines = as_lines(examined(FACTS), 80)
    fault = next(n for n, line in enumerate(lines) if line.startswith("fault"))
    assert any(line.strip().startswith("> ") for line in lines[fault : fault + 3])


def test_the_last_sentence_is_the_verdict():
    assert sentence(examined({"python": FACTS["python"]})) == "All is well."
    advised = examined({"phantom": FACTS["phantom"]})
    assert sentence(advised) == "Nothing is at fault; there is advice about child processes."
    spared = {"login": BrokerLogin("pixel", "spared", "an agent runs here")}
    checks = tuple(
        check
        for check in checks_for(android=False, broker=True, tls=False)
        if check.fact in ("login", "desk", "store")
    )
    assert sentence(examine(checks, spared)) == "All is well. Not asked: desk and model store."


def test_json_has_keys_that_stay():
    plain = as_plain(examined(FACTS), {"cores": 8})
    assert set(plain) == {"verdict", "sentence", "checks", "not_asked", "device"}
    assert set(plain["checks"][0]) == {"key", "title", "level", "what", "do"}
    assert plain["verdict"] == "fault"
