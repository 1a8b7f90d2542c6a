"""Server side of SCRAM-SHA-256: RFC 5802 and 7677, without channel binding.

The password is the port's token. Only its StoredKey and ServerKey (RFC 5802) are kept; proofs are compared in constant
time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import unicodedata
from collections.abc import Callable
from typing import Final

import msgspec

from runtime.service.postgres.errors import FatalError, UnreadableMessageError

__all__ = ["MECHANISM", "ScramExchange", "Verifier"]

MECHANISM: Final = "SCRAM-SHA-256"
_ITERATIONS: Final = 4096
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 18
_LONGEST_NONCE: Final = 1_000


class Verifier(msgspec.Struct, frozen=True):
    """Keys that verify a password; RFC 5802, section 3, defines them."""

    salt: bytes
    """Random salt of the password."""
    iterations: int
    """Number of iterations of PBKDF2."""
    stored_key: bytes
    """StoredKey: SHA-256 of the ClientKey, by which a client's proof is verified."""
    server_key: bytes
    """ServerKey, with which the server proves that it knows the verifier."""

    @classmethod
    def of(cls, password: str, random: Callable[[int], bytes], iterations: int = _ITERATIONS) -> Verifier:
        """Return the verifier of a password, with a new salt; takes some milliseconds."""
        salt = random(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac("sha256", unicodedata.normalize("NFKC", password).encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        return cls(salt, iterations, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"))


class ScramExchange:
    """Authentication of one client: two messages of the client, and an answer to each."""

    def __init__(self, verifier: Verifier, random: Callable[[int], bytes]) -> None:
        self._verifier, self._random = verifier, random
        self._header = self._nonce = self._so_far = ""

    def first(self, message: bytes) -> bytes:
        """Return the answer to the client's first message; raises `FatalError` for a message of another form."""
        flag, binding, rest = _split_header(_decoded(message))
        if flag.startswith("p="):
            raise FatalError("0A000", f"expected {MECHANISM} without channel binding, was one with it")
        if flag not in ("n", "y") or (binding and not binding.startswith("a=")):
            raise UnreadableMessageError("expected a SCRAM message that begins with n,, or y,,")
        attributes = rest.split(",")
        if len(attributes) < 2 or not attributes[0].startswith("n=") or not attributes[1].startswith("r="):
            raise UnreadableMessageError("expected a name and a nonce in a SCRAM message")
        nonce = attributes[1][2:]
        if not 0 < len(nonce) <= _LONGEST_NONCE or not (nonce.isascii() and nonce.isprintable()):
            raise UnreadableMessageError(f"expected a nonce of 1 to {_LONGEST_NONCE} printable characters")
        self._header = base64.b64encode(f"{flag},{binding},".encode()).decode()
        self._nonce = nonce + base64.b64encode(self._random(_NONCE_BYTES)).decode()
        salt = base64.b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._so_far = f"{rest},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes | None:
        """Return the answer to the client's last message; None for a wrong password.

        Raises `FatalError` for a message of another form.
        """
        without_proof, separator, proof_text = _decoded(message).rpartition(",p=")
        attributes = without_proof.split(",")
        if not separator or len(attributes) < 2:
            raise UnreadableMessageError("expected a proof in a SCRAM message")
        is_ours = hmac.compare_digest(attributes[1].encode(), f"r={self._nonce}".encode())
        if attributes[0] != f"c={self._header}" or not is_ours:
            raise UnreadableMessageError("expected the channel and the nonce of the first SCRAM message, was another")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError):
            raise UnreadableMessageError("expected a proof in base 64 in a SCRAM message") from None
        signed = f"{self._so_far},{without_proof}".encode()
        signature = hmac.digest(self._verifier.stored_key, signed, "sha256")
        if len(proof) != len(signature):
            return None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server_key, signed, "sha256"))


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise UnreadableMessageError("expected a SCRAM message in UTF-8") from None


def _split_header(text: str) -> tuple[str, str, str]:
    """Return the flag of channel binding, the name of the authorization, and the rest."""
    parts = text.split(",", 2)
    if len(parts) < 3:
        raise UnreadableMessageError("expected a SCRAM message with a header")
    return parts[0], parts[1], parts[2]
