"""Names that help a reader: docstrings name what there is, and no two classes are called alike."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.programs import HOUSE, PROGRAMS

ELSEWHERE = {"MADV_WILLNEED", "mosquitto_passwd"}  # words of the kernel and of Mosquitto
# A machine's events and instructions are words of its own program, and so are the parts of a shell.
PER_RECORD = {"Keeper"}  # what a record asks of whoever keeps it
OWN_WORDS = ("events", "instructions", "inbound", "outbound", "mailbox", "transitions")
CODE = re.compile(r"`([A-Za-z_][\w.]*)(?:\(\))?`")


def sources(*programs: str) -> Iterator[tuple[Path, str]]:
    for program in programs:
        for path in sorted((HOUSE / program).rglob("*.py")):
            yield path, path.read_text()


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def test_what_docstrings_name_in_backticks_is_there():
    known = {*dir(builtins), *sys.stdlib_module_names, *ELSEWHERE}
    for path, text in sources("examples"):  # which the demo borrows from
        known |= {path.stem, *re.findall(r"\w+", text)}
    told: dict[str, str] = {}
    for path, text in sources(*PROGRAMS):
        tree = ast.parse(text)
        known |= {path.stem, path.parent.name, *re.findall(r"\w+", _without_docstrings(text))}
        for said in docstrings(tree):
            told |= dict.fromkeys(CODE.findall(said), str(path.relative_to(HOUSE)))
    missing = {name: at for name, at in told.items() if known.isdisjoint(name.split("."))}
    assert not missing


def _without_docstrings(text: str) -> str:
    return re.sub(r'"""(?:.|\n)*?"""', "", text)


def test_no_two_classes_have_the_same_name():
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in sources(*PROGRAMS):
        if path.stem in OWN_WORDS:
            continue
        for node in ast.parse(text).body:
            if (
                isinstance(node, ast.ClassDef)
                and node.name[0] != "_"
                and node.name not in PER_RECORD
            ):
                places[node.name].append(str(path.relative_to(HOUSE)))
    assert not {name: found for name, found in places.items() if len(found) > 1}
