"""Small backtests: strategies written in a test, and flow of a few records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from algo_engine.desk.risk import RiskLimits
from algo_engine.loader import LoadedStrategy
from algo_engine.strategy import NoParameters, Strategy
from deltabook.backtest import Backtest, BacktestConfig
from deltabook.backtest.backtest import MarketKind
from deltabook.wire.symbols import Instrument
from exchange_server.replay import Record

__all__ = ["MS", "adds", "backtest"]

MS = 1_000_000
LIMITS = RiskLimits(max_order_lots={"*": 10**9}, max_position_lots={"*": 10**9}, price_band_bps=100_000)


def adds(*orders: tuple[int, str, int, int], symbol: str = "ACME") -> list[Record]:
    """Return records from (time in ms, action, volume, price).

    The n-th order has the id n; actions D and E have the id of their order in place of a price.
    """
    found = []
    for n, (time_ms, action, volume, price) in enumerate(orders, 1):
        order_id = price if action in "DE" else n
        found.append(Record(n, time_ms * MS, order_id, 1, action, volume, 0 if action in "DE" else price, symbol))
    return found


def backtest(
    strategy: type[Strategy[Any]],
    records: Sequence[Record],
    symbols: Sequence[str] = ("ACME",),
    market: MarketKind = "native",
    **config: Any,
) -> Backtest:
    """Return a backtest of one strategy without parameters."""
    loaded = LoadedStrategy("mine", strategy(NoParameters()), LIMITS)
    instruments = tuple(Instrument(symbol) for symbol in symbols)
    given = BacktestConfig(("mine",), **config)
    return Backtest(given, records=records, strategies=[loaded], instruments=instruments, market=market)
