"""Results of backtests that were never run, with given curves and executions."""

from __future__ import annotations

from collections.abc import Sequence

from algo_engine.desk.trades import Trade
from deltabook.backtest import BacktestConfig, Figures, Result, StrategyFigures
from deltabook.backtest.recorder import OrderLife, OrderStatistics, Sample
from deltabook.wire.symbols import Instrument

__all__ = ["fill", "result_of", "sample"]

ACME = Instrument("ACME", "0.01", "1")


def sample(
    time_ns: int,
    profits: Sequence[Sequence[int]],
    quotes: Sequence[tuple[int | None, int | None]] | None = None,
    positions: Sequence[Sequence[int]] | None = None,
) -> Sample:
    """Return a sample with realised profits by strategy and symbol; nothing is quoted or held unless given."""
    width = len(profits[0])
    return Sample(
        time_ns,
        tuple(quotes or [(None, None)] * width),
        tuple(tuple((profit, 0, 0) for profit in line) for line in profits),
        tuple(map(tuple, positions or [[0] * width] * len(profits))),
    )


def fill(
    time_ns: int,
    side: str,
    lots: int,
    ticks: int,
    *,
    fee: int = 0,
    symbol: str = "ACME",
    strategy: str = "one",
    liquidity: str = "maker",
) -> Trade:
    """Return an execution."""
    return Trade(time_ns, 1, strategy, 9001, symbol, side, lots, ticks, 7, 1, liquidity, fee)


def result_of(
    curve: Sequence[Sample],
    fills: Sequence[Trade] = (),
    *,
    names: Sequence[str] = ("one",),
    instruments: Sequence[Instrument] = (ACME,),
    orders: Sequence[OrderLife] = (),
) -> Result:
    """Return a result of these samples and executions; other figures are 0."""
    strategies = [
        StrategyFigures(name, 9001 + place, {}, 0, 0, 0, 0, 0, {}, {}, OrderStatistics(), "")
        for place, name in enumerate(names)
    ]
    figures = Figures(0, 0, 0, len(fills), 0, curve[0].time_ns, curve[-1].time_ns, 0, 0, 0, {})
    return Result(
        format=2,
        config=BacktestConfig(tuple(names)),
        sources=[],
        instruments=tuple(instruments),
        figures=figures,
        strategies=strategies,
        slow_views={},
        views={},
        curve=list(curve),
        order_lives=list(orders),
        fills=list(fills),
        failure="",
    )
