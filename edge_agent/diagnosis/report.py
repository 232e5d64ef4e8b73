"""What `doctor` prints: a line for each check, what to do below, the verdict in the last line."""

from __future__ import annotations

import textwrap
from typing import Any

from edge_agent.diagnosis.checks import Examination, Finding

LEVEL_WIDTH = 8
TITLE_WIDTH = 17
NARROWEST, WIDEST = 50, 80


def as_lines(examination: Examination, columns: int) -> list[str]:
    width = max(NARROWEST, min(WIDEST, columns))
    lines = [line for each in examination.findings for line in _lines(each, width)]
    return [*lines, "", *textwrap.wrap(sentence(examination), width)]


def _lines(finding: Finding, width: int) -> list[str]:
    verdict = finding.verdict
    head = f"{verdict.level:<{LEVEL_WIDTH}}{finding.title:<{TITLE_WIDTH}}"
    below = " " * LEVEL_WIDTH  # room for long words on a phone's narrow screen
    what = _wrapped(verdict.what, width, head, " " * len(head))
    return [*what, *_wrapped(verdict.do, width, f"{below}> ", f"{below}  ")]


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    """Commands and paths stay whole, so that they can be copied."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def sentence(examination: Examination) -> str:
    """The verdict on everything."""
    faults = examination.titles("fault")
    advised = examination.titles("advice")
    unasked = [each.title for each in examination.not_asked]
    waits = f" Not asked: {_list(unasked)}." if unasked else ""
    if faults:
        return f"The agent cannot work yet; to mend: {_list(faults)}.{waits}"
    if advised:
        return f"Nothing is at fault; there is advice about {_list(advised)}.{waits}"
    return f"All is well.{waits}"


def as_plain(examination: Examination, device: dict[str, Any]) -> dict[str, Any]:
    """The object of `--json`; its keys stay."""
    return {
        "verdict": examination.level,
        "sentence": sentence(examination),
        "checks": [_plain(each) for each in examination.findings],
        "not_asked": [each.key for each in examination.not_asked],
        "device": device,
    }


def _plain(finding: Finding) -> dict[str, Any]:
    verdict = finding.verdict
    return {
        "key": finding.key,
        "title": finding.title,
        "level": verdict.level,
        "what": verdict.what,
        "do": verdict.do or None,
    }


def _list(titles: list[str]) -> str:
    *most, last = titles
    return f"{', '.join(most)} and {last}" if most else last
