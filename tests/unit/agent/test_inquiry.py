"""Whoever is asked may hang or fail: the others go on, and it is told."""

from __future__ import annotations

import subprocess
import sys
import threading

from edge_agent.diagnosis.facts import Unanswered
from edge_agent.shell.inquiry import Inquiry
from tests.support.programs import HOUSE

DOCTORS_OWN = ("edge_agent.diagnosis", "edge_agent.adapters.broker", "edge_agent.shell.doctor")
LOADED = f"""
import edge_agent.__main__, edge_agent.shell.agent, sys
print([name for name in sys.modules if name.startswith({DOCTORS_OWN!r})])
"""


def test_an_answer_is_passed_on():
    assert Inquiry(lambda: 7, 10.0).answer() == 7


def test_who_hangs_is_given_up_at_the_limit():
    never = threading.Event()
    assert Inquiry(never.wait, 0.1).answer() == Unanswered("did not answer within 0.1 s")
    never.set()


def test_who_fails_says_how():
    assert Inquiry(lambda: 1 / 0, 10.0).answer() == Unanswered(
        "could not be asked: ZeroDivisionError: division by zero"
    )


def test_an_agent_that_serves_loads_none_of_the_doctors_modules():
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=HOUSE, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
