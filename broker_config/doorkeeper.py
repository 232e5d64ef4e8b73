"""The doorkeeper: as whom we knock at a broker of ours to see that it is up and knows its users.

Not a name that a user can have, and without rights. Its secret follows from all users, so that it
is another whenever one of them is added, removed or changed: whoever it lets in has read the new
files. While they stay the same, so does the secret, and no file need be written again.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable

from wire.users import User

DOORKEEPER = "_doorkeeper"


def doorkeeper_secret(users: Iterable[User]) -> str:
    """As hard to guess as all users' secrets together; a fresh one if there is no user."""
    told = "".join(f"{user.name} {user.role} {user.secret}\n" for user in users)
    if not told:
        return secrets.token_urlsafe()
    digest = hashlib.sha256(f"{DOORKEEPER}\n{told}".encode()).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()
