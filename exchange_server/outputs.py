"""All encoders of the feed and all protocols of accounts that an exchange has."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.market import AccountProtocol
from exchange_server.matching.outputs import FeedEncoder, Now
from exchange_server.nasdaq.itch import ItchEncoder
from exchange_server.nasdaq.ouch import Ouch5, Ouch42
from exchange_server.text import TextEncoder, TextProtocol

__all__ = ["FORMS", "FeedForm", "all_outputs", "encoders_of", "protocols_of"]

FeedForm = Literal["text", "itch"]
FORMS: Final[tuple[FeedForm, ...]] = ("text", "itch")
"""Forms of the feed."""


def encoders_of(rules: MarketRules, now: Now, forms: Collection[FeedForm]) -> dict[str, FeedEncoder]:
    """Return a new encoder for each of these forms, by form; the encoders write the time of `now`."""
    encoders: dict[str, FeedEncoder] = {}
    if "text" in forms:
        encoders["text"] = TextEncoder(rules, now)
    if "itch" in forms:
        encoders["itch"] = ItchEncoder(rules, now)
    return encoders


def protocols_of(rules: MarketRules) -> tuple[AccountProtocol, ...]:
    """Return every protocol that an account of a journal may use."""
    return TextProtocol(rules), Ouch5(rules), Ouch42(rules)


def all_outputs(rules: MarketRules, now: Now) -> tuple[dict[str, FeedEncoder], tuple[AccountProtocol, ...]]:
    """Return all encoders and protocols, to read a journal of any exchange."""
    return encoders_of(rules, now, FORMS), protocols_of(rules)
