"""Clients that send wrong data."""

from __future__ import annotations

import random

from deltabook.wire.soupbin import LoginRequest, encode_login

__all__ = ["Vandal"]


class Vandal:
    """Sends wrong data, or the half of a valid message, and ignores all answers."""

    def __init__(self, chance: random.Random, face: str) -> None:
        self._chance = chance
        self._face = face

    def data(self) -> bytes:
        """Return the data to send."""
        chance = self._chance
        if self._face == "text":
            lines = (b"1,,0\n", b"0,1,,0\n", b"1,NOBODY,5\n", b"0,9,,99999\n", b"0,1,,0\n1,0,0,1,B,x,y,ACME\n", b"1,,0")
            good = chance.choice(lines)
        else:
            login = LoginRequest("ALPHA", chance.choice(("SECRET", "WRONG")), chance.choice(("", "NOBODY")), 1)
            good = encode_login(login) + chance.choice((b"", b"\0\x03UXX", b"\0\1O", b"\0\0", b"\xff\xff"))
        fate = chance.randrange(3)
        if fate == 0:
            return good
        if fate == 1:
            return good[: chance.randint(0, len(good))]
        return chance.randbytes(chance.choice((1, 20, 300, 3_000)))

    def received(self, data: bytes) -> None:
        """Ignore the data."""

    def lost(self) -> None:
        """Ignore the end of the connection."""
