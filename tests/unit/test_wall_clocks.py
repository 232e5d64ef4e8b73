"""The wall clock of a phone or a desk may be wrong by hours, and jump: nothing that programs agree
on is read from it. Who reads it, and for what, is listed here."""

from __future__ import annotations

import re

from tests.support.programs import HOUSE, PROGRAMS

ALLOWED = {
    "edge_agent/adapters/broker/certificate.py": "how many days a certificate lasts, for people",
    "edge_agent/adapters/store/store_knock.py": "how far the clock is off, which is what is asked",
    "edge_agent/adapters/store/cache.py": "how long ago a blob was verified, beside its mtime",
    "edge_agent/adapters/store/prepared.py": "how long ago weights were verified",
    "orchestrator/adapters/journal.py": "when a run was stored, for people",
    "orchestrator/adapters/journal_reader.py": "and how long ago that was",
    "orchestrator/adapters/journal_aside.py": "the name of a file",
    "crowdpipe/demo/demonstration.py": "the name of a folder with pictures",
    "crowdpipe/serving/backup.py": "when a backup was made, for people",
    "crowdpipe/serving/certificates.py": "from when to when a certificate is valid, by days",
}
READS = re.compile(r"\btime\.(time|time_ns|gmtime|localtime|strftime|ctime)\b|\bdatetime\b")
IMPORTS = re.compile(r"^from time import", re.MULTILINE)


def test_only_these_read_the_wall_clock():
    texts = {
        str(path.relative_to(HOUSE)): path.read_text()
        for program in PROGRAMS
        for path in (HOUSE / program).rglob("*.py")
    }
    assert not [path for path, text in texts.items() if IMPORTS.search(text)]
    assert {path for path, text in texts.items() if READS.search(text)} == set(ALLOWED)
