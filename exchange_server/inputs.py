"""What the market is asked to do: the records of the journal.

Everything that changes a book is an `Input`, whoever asks: the same inputs in the same order always give the same
books, the same feed and the same private streams.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from deltabook.wire.symbols import Instrument

__all__ = ["AGENT", "CLIENT", "JOURNAL_VERSION", "RECORDING", "REMAIN", "Input", "MarketRules", "ReplayMode"]

ReplayMode = Literal["as-recorded", "as-orders"]

CLIENT: Final = "c"
"""An interactive client's request; answered on its broker's private stream."""
AGENT: Final = "a"
"""An order of a background agent; nobody is answered."""
RECORDING: Final = "r"
"""A record of a file that is played; what it does depends on the symbol's replay mode."""

REMAIN: Final = "V"
"""A recording's own action: the order has `volume` left (Bitstamp's ``changed``)."""

JOURNAL_VERSION: Final = 1


class Input(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One request to the market, with the time it was given."""

    origin: str
    """`CLIENT`, `AGENT` or `RECORDING`."""
    time_ns: int
    """Market time, nanoseconds since the UTC epoch; strictly increasing over a journal."""
    client_id: int
    """Of a client: its request's number. Of a recording: the record's position in its file, from 1. Else 0."""
    order_id: int
    """The order to change; of a recording: the id in the file, for adds too."""
    broker_id: int
    """Who asks."""
    action: str
    """B, S, X, D; of a recording also E, F, T and `REMAIN`."""
    volume: int
    """Lots."""
    price_ticks: int
    """Limit; 0 is a market order (of clients and agents)."""
    symbol: str
    """Instrument."""


class MarketRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the market's answers depend on beside its inputs; the journal begins with it and it never changes."""

    instruments: tuple[Instrument, ...]
    """Symbols that are traded."""
    replay_symbol: str = ""
    """The symbol that a recording plays, empty for none."""
    replay_mode: ReplayMode = "as-orders"
    """How."""
    outlier_factor: int = 0
    """Drop recorded prices ≤ 0 or above this many times the mid; 0 drops none."""
    first_order_id: int = 1
    """The first id that the market gives; above every recorded id where a symbol is played as recorded."""
    max_live_orders: int = 1_000_000
    """More resting orders than this are refused."""
