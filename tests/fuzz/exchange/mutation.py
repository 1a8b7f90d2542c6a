"""Breaks messages, and cuts bytes into pieces."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["mutated", "pieces"]

_TELLING = (0, 1, 2, 9, 10, 31, 32, 44, 48, 65, 79, 85, 126, 127, 128, 254, 255)
"""Bytes at which readers go wrong."""


def mutated(chance: random.Random, message: bytes) -> bytes:
    """The message with a few faults: bytes changed, lost, doubled, put in, or all of it replaced."""
    data = bytearray(message)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        fault, at = chance.randrange(8), chance.randrange(len(data) + 1)
        if fault == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif fault == 1 and at < len(data):
            data[at] = chance.choice(_TELLING)
        elif fault == 2:
            del data[at:]
        elif fault == 3:
            del data[at : at + chance.randrange(1, 5)]
        elif fault == 4:
            data[at:at] = data[: chance.randrange(9)]
        elif fault == 5:
            data[at:at] = bytes(chance.choices(_TELLING, k=chance.randrange(1, 5)))
        elif fault == 6:
            data[at : at + 8] = chance.choice((b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7))
        else:
            data[at:] = chance.randbytes(chance.randrange(40))
    return bytes(data)


def pieces(chance: random.Random, data: bytes) -> Iterator[bytes]:
    """The bytes as a network may hand them over: at once, in a few pieces, or byte by byte."""
    kind = chance.randrange(8)
    if kind < 3:
        yield data
        return
    most = 1 if kind == 3 and len(data) < 400 else chance.choice((7, 40, 200))
    at = 0
    while at < len(data):
        end = at + chance.randint(1, most)
        yield data[at:end]
        at = end
