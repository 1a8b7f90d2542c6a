"""Rounds of fuzzing: each is an exchange of its own and follows from its target and its seed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.fuzz.exchange.floor import TARGETS, FuzzFloor

__all__ = ["ROUND_MESSAGES", "Round", "run_round", "target_of"]

ROUND_MESSAGES = 20_000
"""Messages of a round: so many that its journal, its feed and its books get long, and few enough to run again."""

_CHECK_EVERY = 50


class Round(msgspec.Struct, frozen=True):
    """What a round did."""

    target: str
    seed: int
    messages: int
    """That were sent, whole or in part."""
    closed: int
    """Connections that the exchange closed."""
    orders: int
    """That the exchange took."""
    trades: int
    """Their matches."""


def target_of(seed: int) -> str:
    """What a seed is about, unless it is said."""
    return TARGETS[seed % len(TARGETS)]


def run_round(target: str, seed: int, messages: int = ROUND_MESSAGES) -> Round:
    """One round; what goes wrong is an exception that says which."""
    with TemporaryDirectory(prefix="deltabook-fuzz-") as folder:
        floor = FuzzFloor(Path(folder), seed)
        try:
            episodes = 0
            while floor.messages < messages:
                floor.episode(target)
                episodes += 1
                if episodes % _CHECK_EVERY == 0:
                    floor.check()
            floor.finish()
        except Exception as error:
            error.add_note(f"again: python -m tests.fuzz.exchange --target {target} --seed {seed}")
            raise
        market = floor.exchange.market
        return Round(target, seed, floor.messages, floor.closed, market.orders, market.trades)
