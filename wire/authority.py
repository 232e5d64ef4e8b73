"""How the authority that signs a desk's certificates is named in an address: by its digest.

`sha256:` and 64 hexadecimal digits, as `openssl x509 -noout -fingerprint -sha256` shows them
without the colons. Only names; what is checked with them is `bus.trust`'s.
"""

from __future__ import annotations

import re

FINGERPRINT = "sha256:"
_FINGERPRINT = re.compile(rf"{FINGERPRINT}[0-9a-f]{{64}}")


def fingerprint_of(certificate: bytes) -> str:
    """Of a certificate in DER."""
    import hashlib  # a device that connects plainly need not load it

    return FINGERPRINT + hashlib.sha256(certificate).hexdigest()


def is_fingerprint(text: str) -> bool:
    return _FINGERPRINT.fullmatch(text) is not None
