"""Brokers in the four characters that ITCH and OUCH have for a market participant.

Ids up to 9999 are their decimal digits, so that a person reads them; those above are a letter and three characters out
of ``0-9A-Z``, which is what the identifiers of real participants look like: each of them is some broker's.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LARGEST_BROKER", "attribution_of", "broker_of"]

_DECIMAL: Final = 10_000
_PER_LETTER: Final = 36**3
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

LARGEST_BROKER: Final = _DECIMAL + 26 * _PER_LETTER - 1
"""The largest broker id that has an attribution."""


def attribution_of(broker_id: int) -> str:
    """A broker's attribution without padding, empty if it has none.

    >>> attribution_of(7), attribution_of(10_000), attribution_of(-1)
    ('7', 'A000', '')
    """
    if not 0 <= broker_id <= LARGEST_BROKER:
        return ""
    if broker_id < _DECIMAL:
        return str(broker_id)
    letter, rest = divmod(broker_id - _DECIMAL, _PER_LETTER)
    return chr(ord("A") + letter) + _DIGITS[rest // 1296] + _DIGITS[rest // 36 % 36] + _DIGITS[rest % 36]


def broker_of(attribution: str) -> int | None:
    """The broker of an attribution, blanks around it ignored; None if no broker has it.

    >>> broker_of("7   "), broker_of("GSCO"), broker_of("")
    (7, 326680, None)
    """
    text = attribution.strip(" ")
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= 4 and (text == "0" or text[0] != "0") else None
    if len(text) != 4 or not "A" <= text[0] <= "Z" or not all(character in _DIGITS for character in text):
        return None
    return _DECIMAL + (ord(text[0]) - ord("A")) * _PER_LETTER + int(text[1:], 36)
