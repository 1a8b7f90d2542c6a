"""Fees of executions: exact integers, from a text or a file.

A fee is ``rate × notional / 1,000,000 + per_lot × lots``, in ticks × lots, where the notional is price × lots. The
division is rounded up, in favour of the exchange: for each execution a fee is higher, and a rebate is lower, than the
exact figure by less than one tick × lot. Executions in auctions cost the taker's fee.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from algo_engine.errors import ParameterError

__all__ = ["FREE", "FeeSchedule", "Fees", "parse_fees", "read_fees"]

_MILLION: Final = 1_000_000
_OTHERS: Final = "*"
"""Key of the fees of all other symbols."""


class Fees(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fees of one symbol; a negative figure is a rebate."""

    maker_millionths: int = 0
    """Fee of executions of resting orders, in millionths of the notional."""
    taker_millionths: int = 0
    """Fee of all other executions, in millionths of the notional."""
    maker_per_lot: int = 0
    """Fee of a resting order for each lot, in ticks × lots."""
    taker_per_lot: int = 0
    """Fee of all other executions for each lot, in ticks × lots."""


class FeeSchedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fees by symbol.

    >>> schedule = parse_fees("maker=-20,taker=50;ACME:taker_per_lot=3")
    >>> schedule.fee("BTCUSD", "taker", volume_lots=7, price_ticks=30_001)
    11
    >>> schedule.fee("BTCUSD", "maker", volume_lots=7, price_ticks=30_001)
    -4
    >>> schedule.fee("ACME", "taker", volume_lots=7, price_ticks=30_001)
    21
    """

    symbols: dict[str, Fees] = {}
    """Fees by symbol, ``*`` for all other symbols; a symbol without fees is free."""

    def fee(self, symbol: str, liquidity: str, volume_lots: int, price_ticks: int) -> int:
        """Return the fee of one execution in ticks × lots; ``liquidity`` is maker, taker or cross."""
        fees = self.symbols.get(symbol) or self.symbols.get(_OTHERS)
        if fees is None:
            return 0
        is_maker = liquidity == "maker"
        rate = fees.maker_millionths if is_maker else fees.taker_millionths
        per_lot = fees.maker_per_lot if is_maker else fees.taker_per_lot
        return -(-rate * volume_lots * price_ticks // _MILLION) + per_lot * volume_lots


FREE: Final = FeeSchedule()
"""Schedule without fees."""

_WORDS: Final = {
    "maker": "maker_millionths",
    "taker": "taker_millionths",
    "maker_per_lot": "maker_per_lot",
    "taker_per_lot": "taker_per_lot",
}


def read_fees(given: str) -> FeeSchedule:
    """Read the option of a command: a TOML file with a table per symbol, or text for `parse_fees`.

    Raise `ParameterError` for an invalid schedule.
    """
    if not given.endswith(".toml"):
        return parse_fees(given)
    try:
        tables = tomllib.loads(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"expected a file of fees, was {given}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"expected a TOML file of fees, was {given}: {error}") from None
    return _schedule(tables, given)


def parse_fees(text: str) -> FeeSchedule:
    """Parse ``maker=-20,taker=50;ACME:taker=0,taker_per_lot=3``: maker and taker in millionths of the notional.

    Raise `ParameterError` for an invalid text.
    """
    tables: dict[str, dict[str, int]] = {}
    for part in filter(None, text.split(";")):
        symbol, _, pairs = part.rpartition(":")
        table: dict[str, int] = {}
        for pair in pairs.split(","):
            word, _, value = pair.partition("=")
            if word not in _WORDS or not value.removeprefix("-").isdecimal():
                raise ParameterError(f"expected fees such as maker=-20,taker=50 ({', '.join(_WORDS)}), was {pair!r}")
            if _WORDS[word] in table or (symbol or _OTHERS) in tables:
                raise ParameterError(f"expected each symbol once, with each fee once, was {text!r}")
            table[_WORDS[word]] = int(value)
        tables[symbol or _OTHERS] = table
    return _schedule(tables, text)


def _schedule(tables: Mapping[str, object], where: str) -> FeeSchedule:
    try:
        return FeeSchedule(msgspec.convert(tables, dict[str, Fees]))
    except msgspec.ValidationError as error:
        raise ParameterError(f"expected a table of fees per symbol, was {where}: {error}") from None
