"""Signatures are verified alike by Python alone, by OpenSSL and by the library that signs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.adapters.device import ed25519, libcrypto
from edge_agent.adapters.device.ed25519 import ORDER, P
from edge_agent.adapters.device.signatures import SignatureCheck

native = libcrypto.find_verify()
assert native is not None, "this Python has hash functions of OpenSSL"
WAYS = pytest.mark.parametrize("verify", [ed25519.verify, native], ids=["python", "openssl"])
Verify = Callable[[bytes, bytes, bytes], bool]
# RFC 8032, section 7.1: private key, public key, message, signature.
VECTORS = {
    "1": (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    "2": (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    "3": (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
    "SHA(abc)": (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
        "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
        "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
    ),
}


def signed(private: bytes, message: bytes) -> tuple[bytes, bytes]:
    """The public key, and the signature."""
    key = Ed25519PrivateKey.from_private_bytes(private)
    return key.public_key().public_bytes_raw(), key.sign(message)


@WAYS
@pytest.mark.parametrize("name", VECTORS)
def test_the_vectors_of_rfc_8032_hold(verify: Verify, name: str):
    private, public, message, signature = map(bytes.fromhex, VECTORS[name])
    assert signed(private, message) == (public, signature)
    assert verify(public, signature, message)
    assert not verify(public, signature, message + b"\0")


@WAYS
@given(private=st.binary(min_size=32, max_size=32), message=st.binary(max_size=300))
def test_what_is_signed_is_taken(verify: Verify, private: bytes, message: bytes):
    public, signature = signed(private, message)
    assert verify(public, signature, message)


@WAYS
@given(
    private=st.binary(min_size=32, max_size=32),
    message=st.binary(min_size=1, max_size=40),
    at=st.integers(0, 8 * (32 + 64 + 40) - 1),
)
def test_one_bit_changed_anywhere_is_refused(
    verify: Verify, private: bytes, message: bytes, at: int
):
    public, signature = signed(private, message)
    whole = bytearray(public + signature + message)
    at %= 8 * len(whole)
    whole[at // 8] ^= 1 << at % 8
    assert not verify(bytes(whole[:32]), bytes(whole[32:96]), bytes(whole[96:]))


@given(
    key=st.binary(min_size=32, max_size=32),
    signature=st.binary(min_size=64, max_size=64),
    message=st.binary(max_size=8),
)
def test_any_bytes_are_judged_as_by_the_library_that_signs(
    key: bytes, signature: bytes, message: bytes
):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        good = True
    except InvalidSignature:
        good = False
    assert ed25519.verify(key, signature, message) == native(key, signature, message) == good


@WAYS
def test_the_same_signature_in_another_writing_is_refused(verify: Verify):
    public, signature = signed(bytes(32), b"order")
    scalar = int.from_bytes(signature[32:], "little") + ORDER
    assert verify(public, signature, b"order")
    assert not verify(public, signature[:32] + scalar.to_bytes(32, "little"), b"order")


@WAYS
@pytest.mark.parametrize("length", [0, 63, 65])
def test_what_has_another_length_is_refused(verify: Verify, length: int):
    public, signature = signed(bytes(32), b"order")
    assert not verify(public, (signature + b"\0")[:length], b"order")
    assert not verify(public[:31], signature, b"order")
    assert not verify(b"", signature, b"order")


def test_a_key_that_is_no_point_or_not_in_its_canonical_writing_is_refused():
    _, signature = signed(bytes(32), b"order")
    for number in (P, P + 1, 2, 1 | 1 << 255):  # y from P up; no root; x = 0 with a sign
        assert not ed25519.verify(number.to_bytes(32, "little"), signature, b"order")


def test_openssl_is_asked_only_once_it_is_in_memory_anyway():
    script = (
        "import sys\n"
        "from edge_agent.adapters.device.signatures import SignatureCheck\n"
        f"key, signature = bytes.fromhex({VECTORS['1'][1]!r}), bytes.fromhex({VECTORS['1'][3]!r})\n"
        "check = SignatureCheck(key)\n"
        "assert check.signed(signature, b'') and not check.signed(signature, b'x')\n"
        "assert '_hashlib' not in sys.modules\n"
        "assert 'edge_agent.adapters.device.libcrypto' not in sys.modules\n"
        "import hashlib\n"
        "assert check.signed(signature, b'') and not check.signed(signature, b'x')\n"
        "assert 'edge_agent.adapters.device.libcrypto' in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_without_openssl_python_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(libcrypto, "_libraries", lambda: iter(()))
    assert libcrypto.find_verify() is None
    public, signature = signed(bytes(32), b"order")
    check = SignatureCheck(public)
    assert check.signed(signature, b"order")
    assert not check.signed(signature, b"other")


def test_a_library_that_takes_everything_is_not_believed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(libcrypto, "_verifier", lambda library: lambda *_: True)
    assert libcrypto.find_verify() is None
