"""Random properties of a seed: its market and its faults."""

from __future__ import annotations

import random
from typing import Any, Final, TypeVar

import msgspec

from deltabook.wire.symbols import Instrument
from exchange_server.journal import FsyncPolicy
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.order import AccountLimits, SelfTrade
from exchange_server.readers import ReaderLimits

__all__ = ["Shape"]

L = TypeVar("L", bound=ReaderLimits)

_POLICIES: Final[tuple[FsyncPolicy, ...]] = ("always", "always", "interval", "never")
_START_NS: Final = 1_700_000_000_000_000_000


class Shape(msgspec.Struct, frozen=True):
    """Properties drawn once, at the beginning."""

    rules: MarketRules
    fsync: FsyncPolicy
    keep: int | None
    lag_bytes: int
    stall_s: float
    connections: int
    account_limits: AccountLimits
    self_trade: SelfTrade
    brokers: int
    """Number of brokers of the text protocol."""
    duplicates: int
    """Number of additional clients for a broker or user."""
    steps: int
    power_share: float
    """Share of the crashes that stop the whole machine."""
    weights: dict[str, int]
    """Relative frequency of each kind of step."""
    start_ns: int = _START_NS

    @staticmethod
    def of(chance: random.Random) -> Shape:
        """Return the shape of a seed."""
        symbols = ("ACME", "GLOBEX")[: chance.choice((1, 1, 2))]
        rules = MarketRules(
            instruments=tuple(Instrument(symbol, reference_price_ticks=100) for symbol in symbols),
            collar_bps=chance.choice((0, 0, 0, 1_000)),
            opens_with_auction=chance.random() < 0.2,
            max_live_orders=chance.choice((1_000_000, 1_000_000, 30)),
        )
        fsync = chance.choice(_POLICIES)
        calm = chance.random() < 0.2
        weights = {
            "trade": 300, "move": 450, "time": 120, "connect": 90, "snapshot": chance.choice((0, 4, 15)), "phase": 6,
            "sync": 10, "tick": 8, "cut": 0 if calm else 12, "heal": 12, "stall": 0 if calm else 8,
            "hang_up": 0 if calm else 12, "crash": 0 if calm else chance.choice((2, 6, 15)),
            "crash_later": 0 if calm else chance.choice((0, 5, 15)), "disk": chance.choice((0, 0, 3)),
            "vandal": chance.choice((0, 10, 30)), "stop": 2,
            "desk": chance.choice((0, 150, 500)), "desk_kill": 0 if calm else chance.choice((0, 6, 25)),
            "desk_pause": 0 if calm else 4, "desk_full": 0 if calm else chance.choice((0, 0, 8)),
            "full": 0 if calm else chance.choice((0, 0, 4)), "clock": chance.choice((0, 3)),
            "pause": 0 if calm else chance.choice((0, 3)),
        }  # fmt: skip
        return Shape(
            rules=rules,
            fsync=fsync,
            keep=chance.choice((None, None, 2)),
            lag_bytes=chance.choice((64 << 20, 4_000)),
            stall_s=chance.choice((30.0, 3.0)),
            connections=chance.choice((256, 256, 10)),
            account_limits=AccountLimits(open_orders=chance.choice((0, 0, 10))),
            self_trade=chance.choice(("allow", "newest", "oldest", "both", "decrement")),
            brokers=chance.choice((1, 2, 3)),
            duplicates=chance.choice((0, 1, 2)),
            steps=chance.choice((150, 300, 500)),
            power_share=chance.choice((0.0, 0.5)) if fsync == "always" else 0.0,
            weights=weights,
        )  # fmt: skip

    def limits(self, kind: type[L], **more: Any) -> L:
        """Return the limits of the servers."""
        return kind(lag_bytes=self.lag_bytes, stall_s=self.stall_s, connections=self.connections, **more)
