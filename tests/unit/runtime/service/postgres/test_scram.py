"""SCRAM-SHA-256 on the server's side, compared with RFC 7677's example and with messages that are not SCRAM's."""

from __future__ import annotations

import base64

import pytest

from runtime.service.postgres.errors import FatalError, UnreadableMessageError
from runtime.service.postgres.scram import ScramExchange, Verifier

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%s,p=%s"


def exchange(password: str = "pencil") -> tuple[ScramExchange, str]:
    """An exchange that has answered the first message, and the nonce that it added."""
    found = ScramExchange(Verifier.of(password, lambda _: SALT, 4096), lambda size: b"n" * size)
    nonce, salt, iterations = found.first(FIRST).decode().split(",")
    assert (salt, iterations) == ("s=W22ZaJ0SNY7soEsUEjb6gQ==", "i=4096")
    assert nonce.startswith("r=rOprNGfwEbeRWgbNEkqO")
    return found, nonce.removeprefix("r=rOprNGfwEbeRWgbNEkqO")


class _FixedNonce(ScramExchange):
    """An exchange with the server nonce of RFC 7677, section 3, which is not in base 64."""

    def first(self, message: bytes) -> bytes:
        answer = super().first(message).decode()
        own = self._nonce
        self._nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
        self._so_far = self._so_far.replace(own, self._nonce)
        return answer.replace(own, self._nonce).encode()


def test_the_example_of_rfc_7677() -> None:
    server = _FixedNonce(Verifier.of("pencil", lambda _: SALT, 4096), lambda size: b"n" * size)
    assert server.first(FIRST) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = FINAL % (b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert server.final(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_wrong_proof_has_no_answer() -> None:
    server, nonce = exchange()
    assert server.final(FINAL % (nonce.encode(), base64.b64encode(b"x" * 32))) is None
    assert server.final(FINAL % (nonce.encode(), base64.b64encode(b"short"))) is None


@pytest.mark.parametrize(
    "message",
    [
        b"\xff",
        b"n",
        b"x,,n=user,r=abc",
        b"n,b=c,n=user,r=abc",
        b"n,,r=abc",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=a\tb",
        b"n,,n=user,r=" + b"a" * 1001,
    ],
)
def test_a_first_message_that_is_not_scram_is_fatal(message: bytes) -> None:
    with pytest.raises(UnreadableMessageError, match="expected"):
        ScramExchange(Verifier.of("pencil", lambda _: SALT, 1), lambda size: b"n" * size).first(message)


def test_channel_binding_is_refused() -> None:
    with pytest.raises(FatalError, match="without channel binding"):
        ScramExchange(Verifier.of("pencil", lambda _: SALT, 1), lambda size: b"n" * size).first(
            b"p=tls-server-end-point,,n=,r=abc"
        )


@pytest.mark.parametrize(
    "message",
    [
        b"c=biws,r=another,p=" + base64.b64encode(b"x" * 32),
        b"c=eSws,r=rOprNGfwEbeRWgbNEkqO%s,p=" + base64.b64encode(b"x" * 32),
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%s",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%s,p=?",
        b"p=",
        b"\xff",
    ],
)
def test_a_final_message_of_another_exchange_is_fatal(message: bytes) -> None:
    server, nonce = exchange()
    with pytest.raises(UnreadableMessageError, match="expected"):
        server.final(message.replace(b"%s", nonce.encode()))


def test_a_verifier_does_not_hold_the_password() -> None:
    verifier = Verifier.of("a password", bytes, 2)
    assert b"a password" not in repr(verifier).encode()
    assert verifier.stored_key != verifier.server_key
