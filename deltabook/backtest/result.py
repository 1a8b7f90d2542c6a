"""The result of a backtest: figures, curves, orders, trades; equal inputs give equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyarrow import csv

from algo_engine.desk.trades import write_trades
from deltabook.backtest.config import RunConfig
from deltabook.backtest.errors import BacktestError
from deltabook.backtest.flow import SourceFigures
from deltabook.backtest.measuring import falls
from deltabook.backtest.recorder import OrderLife, Recorder
from deltabook.backtest.report import result_html, write_report
from deltabook.backtest.run_data import Figures, RunData, StrategyFigures
from deltabook.backtest.tables import daily_table, orders_table, pnl_table, positions_table, trades_table
from deltabook.wire.symbols import Instrument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from algo_engine.host import StrategyHost
    from deltabook.backtest.views import BacktestViews

__all__ = ["Result", "StrategyStopped", "Totals", "result_of"]

FORMAT: Final = 2
"""Version of the result's format."""
_NAMES: Final = {"order_lives": "orders", "fills": "trades"}
"""Fields whose key in the JSON differs from their name."""


class Result(RunData, frozen=True):
    """Complete result; `to_json` returns the same bytes for the same inputs, in every process.

    `orders`, `trades`, `pnl`, `positions` and `daily` are Arrow tables; `stats` computes statistics, `plot` draws. A
    notebook shows a summary.
    """

    @cached_property
    def orders(self) -> pa.Table:
        """Orders, one row each: see `deltabook.backtest.tables`."""
        return orders_table(self)

    @cached_property
    def trades(self) -> pa.Table:
        """All executions of the strategies, one row each, in the order of their times."""
        return trades_table(self)

    @cached_property
    def pnl(self) -> pa.Table:
        """Profit over time, one row for each sample, strategy and symbol."""
        return pnl_table(self)

    @cached_property
    def positions(self) -> pa.Table:
        """Positions, best bid and ask, and exposure over time, one row for each sample, strategy and symbol."""
        return positions_table(self)

    @cached_property
    def daily(self) -> pa.Table:
        """Profit by day, one row for each UTC day, strategy and symbol."""
        return daily_table(self)

    def plot(self, symbol: str = "") -> Figure:
        """Draw profit, drawdown, position and the fills over the price, by default of the first symbol.

        Raise `PlottingError` where matplotlib is not installed, and `ConfigurationError` for a symbol that was not
        traded.
        """
        from deltabook.backtest.plotting import tearsheet

        return tearsheet(self, symbol)

    def _repr_html_(self) -> str:
        return result_html(self)

    def __repr__(self) -> str:
        f = self.figures
        names = ", ".join(strategy.name for strategy in self.strategies) or "no strategies"
        return f"<Result of {names}: {f.records} records, {f.own_trades} own trades, profit {f.profit} ticks × lots>"

    def to_json(self) -> bytes:
        """Return everything except the duration as JSON."""
        return msgspec.json.format(msgspec.json.encode(_plain(self), enc_hook=str), indent=1) + b"\n"

    def write(self, directory: Path | str, *, html: bool = True) -> list[Path]:
        """Write ``result.json``, ``trades.csv``, ``trades.parquet``, ``orders.csv``, ``daily.csv`` and ``report.html``;
        return their paths.
        """
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        names = ("result.json", "trades.csv", "trades.parquet", "orders.csv", "daily.csv")
        written = [directory / name for name in names]
        written[0].write_bytes(self.to_json())
        for path in written[1:3]:
            write_trades(path, iter(self.fills))
        _write_orders(written[3], self.order_lives)
        csv.write_csv(self.daily, written[4], csv.WriteOptions(quoting_style="needed"))
        if html:
            written.append(write_report(directory / "report.html", self))
        return written


class StrategyStopped(BacktestError):
    """A run ended early; ``result`` is the run's result up to its end, and the cause is the strategy's error."""

    def __init__(self, reason: str, result: Result) -> None:
        super().__init__(reason)
        self.result = result


def _plain(result: Result) -> dict[str, Any]:
    plain = {_NAMES.get(name, name): value for name, value in msgspec.structs.asdict(result).items()}
    del plain["elapsed_s"]
    plain["statistics"] = result.statistics
    return plain


def _write_orders(path: Path, orders: Sequence[OrderLife]) -> None:
    names = OrderLife.__struct_fields__
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write(",".join(names) + "\n")
        for order in orders:
            cells = (str(value).replace(",", ";").replace("\n", " ") for value in msgspec.structs.astuple(order))
            out.write(",".join(cells) + "\n")


class Totals(msgspec.Struct, frozen=True):
    """Counts from the parts of a run; `Figures` describes each of them."""

    records: int
    feed_messages: int
    market_trades: int
    view_changes: int
    dropped: dict[str, int]


def result_of(
    config: RunConfig,
    *,
    recorder: Recorder,
    hosts: Sequence[StrategyHost],
    totals: Totals,
    instruments: tuple[Instrument, ...],
    views: BacktestViews | None,
    sources: list[SourceFigures],
    failure: str,
    elapsed_s: float,
) -> Result:
    """Return the result from a recorder and the hosts of a run; ``views`` None: no views were maintained."""
    samples = recorder.samples
    strategies = [_strategy(host, place, recorder, instruments) for place, host in enumerate(hosts)]
    profits = [sum(r + u - f for line in sample.profits for r, u, f in line) for sample in samples]
    figures = Figures(
        records=totals.records,
        feed_messages=totals.feed_messages,
        market_trades=totals.market_trades,
        own_trades=len(recorder.trades),
        view_changes=totals.view_changes,
        begin_ns=samples[0].time_ns,
        end_ns=samples[-1].time_ns,
        profit=sum(s.profit for s in strategies),
        fees=sum(s.fees for s in strategies),
        max_drawdown=-min(falls(profits)),
        dropped=totals.dropped,
    )
    return Result(
        format=FORMAT,
        config=config,
        sources=sources,
        instruments=instruments,
        figures=figures,
        strategies=strategies,
        slow_views=views.slow if views is not None else {},
        views=dict(sorted(views.sql.items())) if views is not None else {},
        curve=samples,
        order_lives=recorder.orders,
        fills=sorted(recorder.trades, key=lambda trade: (trade.time_ns, trade.broker_id, trade.sequence)),
        failure=failure,
        elapsed_s=elapsed_s,
    )


def _strategy(
    host: StrategyHost, place: int, recorder: Recorder, instruments: tuple[Instrument, ...]
) -> StrategyFigures:
    profit = host.profit()
    symbols = [instrument.symbol for instrument in instruments]
    largest = {
        symbol: max((abs(sample.positions[place][number]) for sample in recorder.samples), default=0)
        for number, symbol in enumerate(symbols)
    }
    positions = dict.fromkeys(symbols, 0)
    for trade in recorder.trades:
        if trade.strategy == host.name:
            positions[trade.symbol] += trade.volume_lots if trade.side == "B" else -trade.volume_lots
            largest[trade.symbol] = max(largest[trade.symbol], abs(positions[trade.symbol]))
    return StrategyFigures(
        name=host.name,
        broker_id=host.desk.broker_id,
        parameters=msgspec.to_builtins(host.parameters),
        profit=profit.total,
        realised=profit.realised,
        unrealised=profit.unrealised,
        fees=profit.fees,
        max_drawdown=-min(falls(sum(r + u - f for r, u, f in sample.profits[place]) for sample in recorder.samples)),
        max_position_lots=largest,
        position_lots=positions,
        orders=recorder.statistics[host.name],
        failure=host.failure,
    )
