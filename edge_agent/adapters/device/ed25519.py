"""Verifies an Ed25519 signature (RFC 8032, section 5.1) in Python alone, some milliseconds each.

For devices whose OpenSSL cannot be reached, and for those that have nothing to do and need not
load it. It only verifies, so that nothing here is a secret and nothing needs a constant time; it
cannot sign. A signature is taken in its one canonical form.
"""

from __future__ import annotations

# As in `hashlib`, which would load OpenSSL for them: the interpreter's own.
try:
    from _sha2 import sha512
except ImportError:
    try:
        from _sha512 import sha512  # before Python 3.12
    except ImportError:
        from hashlib import sha512

P = 2**255 - 19  # the field's size
ORDER = 2**252 + 27742317777372353535851937790883648493  # of the base point
KEY_NBYTES, SIGNATURE_NBYTES = 32, 64
_D = -121665 * pow(121666, -1, P) % P
_ROOT = pow(2, (P - 1) // 4, P)  # of -1

Point = tuple[int, int, int, int]  # X, Y, Z and T of x = X/Z, y = Y/Z, x·y = T/Z
_ZERO: Point = (0, 1, 1, 0)


def verify(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether whoever has the private part of `key` signed exactly this."""
    if len(key) != KEY_NBYTES or len(signature) != SIGNATURE_NBYTES:
        return False
    scalar, public = int.from_bytes(signature[32:], "little"), _point(key)
    if scalar >= ORDER or public is None:
        return False
    digest = sha512(signature[:32] + key + message).digest()
    factor = int.from_bytes(digest, "little") % ORDER
    return _encoded(_sum_of_two(scalar, _BASE, factor, _negative(public))) == signature[:32]


def _sum_of_two(first: int, one: Point, second: int, other: Point) -> Point:
    """first·one + second·other, with one chain of doublings for both (Straus)."""
    sums = (_ZERO, one, other, _added(one, other))
    total = _ZERO
    for at in range(max(first.bit_length(), second.bit_length()) - 1, -1, -1):
        total = _doubled(total)
        which = (first >> at & 1) | (second >> at & 1) << 1
        if which:
            total = _added(total, sums[which])
    return total


def _added(one: Point, other: Point) -> Point:
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = other
    a, b = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * _D % P, 2 * z1 * z2 % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _doubled(point: Point) -> Point:
    x, y, z, _ = point
    a, b = x * x % P, y * y % P
    h, sum_ = a + b, x + y
    e, g = h - sum_ * sum_ % P, a - b
    f = 2 * z * z % P + g
    return e * f % P, g * h % P, f * g % P, e * h % P


def _negative(point: Point) -> Point:
    x, y, z, t = point
    return P - x, y, z, P - t


def _encoded(point: Point) -> bytes:
    x, y, z, _ = point
    inverse = pow(z, -1, P)
    return (y * inverse % P | (x * inverse % P & 1) << 255).to_bytes(32, "little")


def _point(data: bytes) -> Point | None:
    """What 32 bytes stand for; None if it is no point, or not written in its canonical form."""
    number = int.from_bytes(data, "little")
    y, odd = number & (1 << 255) - 1, number >> 255
    if y >= P:
        return None
    u, v = y * y - 1, _D * y * y + 1
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if (v * x * x - u) % P:
        x = x * _ROOT % P
    if (v * x * x - u) % P or (x == 0 and odd):
        return None
    x = x if x & 1 == odd else P - x
    return x, y, 1, x * y % P


def _base() -> Point:
    point = _point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    assert point is not None, "the base point is on the curve"
    return point


_BASE = _base()
