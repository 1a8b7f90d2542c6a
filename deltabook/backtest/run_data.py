"""Data of a run that has ended: configuration, figures, curves, orders and trades, and their statistics."""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property
from typing import Any

import msgspec

from algo_engine.desk.trades import Trade
from deltabook.backtest.config import RunConfig
from deltabook.backtest.flow import SourceFigures
from deltabook.backtest.measuring import statistics_of
from deltabook.backtest.recorder import OrderLife, OrderStatistics, Sample
from deltabook.backtest.statistics import Statistics
from deltabook.wire.symbols import Instrument

__all__ = ["Figures", "RunData", "StrategyFigures"]


class StrategyFigures(msgspec.Struct, frozen=True):
    """Figures of one strategy; money is in ticks × lots."""

    name: str
    """Name under which the strategy ran."""
    broker_id: int
    """Broker number under which the strategy ran."""
    parameters: dict[str, Any]
    """All parameters, including those that were not set."""
    profit: int
    """Profit: realised + unrealised - fees."""
    realised: int
    """Profit of closed positions."""
    unrealised: int
    """Profit of the positions at the end, at the price that would close them."""
    fees: int
    """Fees paid."""
    max_drawdown: int
    """Largest fall of the profit below its previous maximum, at the samples."""
    max_position_lots: dict[str, int]
    """Largest position in lots, long or short, by symbol, at the samples and the executions."""
    position_lots: dict[str, int]
    """Position in lots at the end, by symbol."""
    orders: OrderStatistics
    """Counts of orders."""
    failure: str
    """Reason why the strategy was stopped, empty if it was not."""


class Figures(msgspec.Struct, frozen=True):
    """Figures of the whole run."""

    records: int
    """Number of the files' records that were played; for a simulation, number of the exchange's inputs."""
    feed_messages: int
    """Number of feed messages that the market published for the records and the strategies' orders."""
    market_trades: int
    """Number of executions in the market."""
    own_trades: int
    """Number of the strategies' trades (both sides count if both belong to strategies)."""
    view_changes: int
    """Number of view changes sent to strategies."""
    begin_ns: int
    """Market time when the strategies connected, after the warm-up, in nanoseconds."""
    end_ns: int
    """Market time at the end, in nanoseconds."""
    profit: int
    """Profit of all strategies, ticks × lots."""
    fees: int
    """Fees of all strategies, ticks × lots."""
    max_drawdown: int
    """Largest drawdown of the sum of all profits."""
    dropped: dict[str, int]
    """Number of records without effect, by reason."""


class RunData(msgspec.Struct, frozen=True, dict=True):
    """Data of one backtest or simulation that has ended; tables, reports and pictures are made of it."""

    format: int
    """Version of this record's format."""
    config: RunConfig
    """Configuration: a `BacktestConfig` or a `SimulationConfig`."""
    sources: list[SourceFigures]
    """Figures of the files."""
    instruments: tuple[Instrument, ...]
    """Instruments that were traded, with their scales."""
    figures: Figures
    """Figures of the whole run."""
    strategies: list[StrategyFigures]
    """Figures of the strategies, in the order of the configuration."""
    slow_views: dict[str, str]
    """Views that were updated batch by batch, with the reason."""
    views: dict[str, str]
    """SQL of the maintained views, by name."""
    curve: list[Sample]
    """Prices, profits and positions over time."""
    order_lives: list[OrderLife]
    """First orders: at most as many as the configuration keeps."""
    fills: list[Trade]
    """All executions of the strategies, in the order of their times."""
    failure: str
    """Reason why the run ended before the end of its data or day; empty if it did not."""
    elapsed_s: float = 0.0
    """Duration of the run in seconds; it is in no file."""

    @property
    def messages_per_s(self) -> float:
        """Records played per second of the run; 0.0 if its duration is unknown."""
        return self.figures.records / self.elapsed_s if self.elapsed_s else 0.0

    @cached_property
    def statistics(self) -> Statistics:
        """Statistics that `stats` returns without arguments."""
        return self.stats()

    def stats(
        self,
        *,
        capital: Decimal | float | None = None,
        interval_s: float | None = None,
        days_a_year: float = 252,
        hours_a_day: float = 6.5,
    ) -> Statistics:
        """Return the statistics of the run; `deltabook.backtest.measuring.statistics_of` describes the arguments."""
        return statistics_of(
            self.instruments,
            [strategy.name for strategy in self.strategies],
            self.curve,
            self.fills,
            capital=capital,
            interval_s=interval_s,
            days_a_year=days_a_year,
            hours_a_day=hours_a_day,
        )
