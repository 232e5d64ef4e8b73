"""Whether a port speaks TLS, found out without it: for whoever connected plainly in vain.

Says hello by hand and looks at the first byte of the answer, so that a device that connects plainly
need not load `ssl` to learn that it should not.
"""

from __future__ import annotations

import os
import socket

LIMIT_S = 2.0
ALERT, HANDSHAKE = 0x15, 0x16  # kinds of record: RFC 8446, section 5.1
VERSION = b"\x03\x03"  # TLS 1.2, which 1.3 says as well
CLIENT_HELLO = 1
SUITES = b"\xc0\x2b\xc0\x2f"  # ECDHE with AES-128-GCM, signed by ECDSA or RSA


def speaks_tls(host: str, port: int, limit_s: float = LIMIT_S) -> bool:
    """False also where nobody answers."""
    try:
        with socket.create_connection((host, port), limit_s) as link:
            link.sendall(client_hello())
            answer = link.recv(3)
    except OSError:
        return False
    return len(answer) == 3 and answer[0] in (ALERT, HANDSHAKE) and answer[1] == VERSION[0]


def client_hello() -> bytes:
    """The least that one may be (RFC 5246, section 7.4.1.2): to it, an alert is an answer too."""
    suites = len(SUITES).to_bytes(2, "big") + SUITES
    body = VERSION + os.urandom(32) + b"\x00" + suites + b"\x01\x00"
    message = bytes((CLIENT_HELLO,)) + len(body).to_bytes(3, "big") + body
    return bytes((HANDSHAKE,)) + b"\x03\x01" + len(message).to_bytes(2, "big") + message
