"""Orders, trades, profits and positions of a run, as Arrow tables and as the lists that charts draw.

Prices, quantities and money are exact decimals with the digits of the instruments; further columns have lots and ticks
as integers. Times are nanoseconds in UTC, and NULL for events that have not happened. `pyarrow.Table.to_pandas`
makes a pandas frame of a table, and `polars.from_arrow` a polars one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from algo_engine.views.quotes import mark_ticks
from deltabook.backtest.measuring import falls
from deltabook.backtest.presentation import Money, digits_of
from deltabook.backtest.recorder import OrderLife, Sample
from deltabook.backtest.run_data import RunData
from deltabook.wire.symbols import Instrument

__all__ = [
    "chart_data",
    "daily_table",
    "orders_table",
    "pnl_table",
    "positions_table",
    "trades_table",
]

_TIME: Final = pa.timestamp("ns", "UTC")
_DIGITS: Final = 38
"""Number of digits of a decimal column."""
_DAY_NS: Final = 86_400 * 10**9
_SIDES: Final = {"B": "buy", "S": "sell"}


class _Scales:
    """Decimal columns over several instruments: with as many digits after the point as the most precise instrument
    needs.
    """

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._instruments = {instrument.symbol: instrument for instrument in instruments}

    def price(self, symbols: Sequence[str], ticks: Iterable[int | None]) -> pa.Array:
        """Return ticks as prices."""
        return self._column(symbols, ticks, lambda instrument: Decimal(instrument.tick_size))

    def quantity(self, symbols: Sequence[str], lots: Iterable[int | None]) -> pa.Array:
        """Return lots as quantities."""
        return self._column(symbols, lots, lambda instrument: Decimal(instrument.lot_size))

    def money(self, symbols: Sequence[str], sums: Iterable[int | None]) -> pa.Array:
        """Return sums of ticks × lots as money."""
        return self._column(symbols, sums, lambda each: Decimal(each.tick_size) * Decimal(each.lot_size))

    def _column(
        self, symbols: Sequence[str], values: Iterable[int | None], unit_of: Callable[[Instrument], Decimal]
    ) -> pa.Array:
        units = {symbol: unit_of(instrument) for symbol, instrument in self._instruments.items()}
        digits = max((digits_of(unit) for unit in units.values()), default=0)
        factors = {symbol: int(unit.scaleb(digits)) for symbol, unit in units.items()}
        whole = [
            None if value is None else value * factors[symbol] for symbol, value in zip(symbols, values, strict=True)
        ]
        return decimals(whole, digits)


def decimals(values: Sequence[int | None], digits: int) -> pa.Array:
    """Return decimals with ``digits`` digits after the point; ``values`` count units of the last digit."""
    whole = pa.array(values, pa.decimal128(_DIGITS, 0))
    # A decimal with another number of digits after the point has the same 128 bits.
    return pa.Array.from_buffers(pa.decimal128(_DIGITS, digits), len(whole), whole.buffers())


def trades_table(result: RunData) -> pa.Table:
    """Return own executions: time, strategy, symbol, side, quantity, price, fee, liquidity, and the order's id."""
    fills, scales = result.fills, _Scales(result.instruments)
    symbols = [fill.symbol for fill in fills]
    return pa.table(
        {
            "time": pa.array([fill.time_ns for fill in fills], _TIME),
            "strategy": pa.array([fill.strategy for fill in fills], pa.string()),
            "symbol": pa.array(symbols, pa.string()),
            "side": pa.array([_SIDES[fill.side] for fill in fills], pa.string()),
            "quantity": scales.quantity(symbols, (fill.volume_lots for fill in fills)),
            "price": scales.price(symbols, (fill.price_ticks for fill in fills)),
            "fee": scales.money(symbols, (fill.fee for fill in fills)),
            "liquidity": pa.array([fill.liquidity for fill in fills], pa.string()),
            "volume_lots": pa.array([fill.volume_lots for fill in fills], pa.int64()),
            "price_ticks": pa.array([fill.price_ticks for fill in fills], pa.int64()),
            "order_id": pa.array([fill.order_id for fill in fills], pa.int64()),
            "client_id": pa.array([fill.client_id for fill in fills], pa.int64()),
        }
    )


def orders_table(result: RunData) -> pa.Table:
    """Return orders: strategy, symbol, side, quantities, price, status, reason, and the times of their events."""
    orders, scales = result.order_lives, _Scales(result.instruments)
    # An order for an instrument that is not traded is refused; its quantities have no scale and are NULL.
    known = {instrument.symbol for instrument in result.instruments}
    symbols = [order.symbol if order.symbol in known else result.instruments[0].symbol for order in orders]

    def of_known(value: Callable[[OrderLife], int]) -> list[int | None]:
        return [value(order) if order.symbol in known else None for order in orders]

    return pa.table(
        {
            "submitted": _times([order.submitted_ns for order in orders]),
            "strategy": pa.array([order.strategy for order in orders], pa.string()),
            "symbol": pa.array([order.symbol for order in orders], pa.string()),
            "side": pa.array([_SIDES[order.side] for order in orders], pa.string()),
            "quantity": scales.quantity(symbols, of_known(lambda order: order.volume_lots)),
            "price": scales.price(symbols, of_known(lambda order: order.price_ticks)),
            "filled": scales.quantity(symbols, of_known(lambda order: order.filled_lots)),
            "status": pa.array([order.status for order in orders], pa.string()),
            "reason": pa.array([order.reason for order in orders], pa.string()),
            "accepted": _times([order.accepted_ns for order in orders]),
            "ended": _times([order.ended_ns for order in orders]),
            "volume_lots": pa.array([order.volume_lots for order in orders], pa.int64()),
            "price_ticks": pa.array([order.price_ticks for order in orders], pa.int64()),
            "filled_lots": pa.array([order.filled_lots for order in orders], pa.int64()),
            "order_id": pa.array([order.order_id or None for order in orders], pa.int64()),
            "client_id": pa.array([order.client_id for order in orders], pa.int64()),
        }
    )


def pnl_table(result: RunData) -> pa.Table:
    """Return time, strategy, symbol, realised, unrealised, fees and profit (realised + unrealised - fees)."""
    rows = _long_rows(result)
    symbols = [symbol for _, _, symbol, _, _ in rows]
    scales = _Scales(result.instruments)
    profits = [sample.profits[place][number] for sample, place, _, number, _ in rows]
    return pa.table(
        {
            **_keys(result, rows),
            "realised": scales.money(symbols, (realised for realised, _, _ in profits)),
            "unrealised": scales.money(symbols, (unrealised for _, unrealised, _ in profits)),
            "fees": scales.money(symbols, (fees for _, _, fees in profits)),
            "profit": scales.money(symbols, (realised + unrealised - fees for realised, unrealised, fees in profits)),
        }
    )


def positions_table(result: RunData) -> pa.Table:
    """Return time, strategy, symbol, quantity, best bid and ask, and the exposure at the price that would close the
    position.
    """
    rows = _long_rows(result)
    symbols = [symbol for _, _, symbol, _, _ in rows]
    scales = _Scales(result.instruments)
    bids, asks = ([sample.quotes[number][side] for sample, _, _, number, _ in rows] for side in (0, 1))
    lots = [position for _, _, _, _, position in rows]
    marks = [mark_ticks(bid, ask, position) for bid, ask, position in zip(bids, asks, lots, strict=True)]
    exposures = [None if mark is None else mark * position for mark, position in zip(marks, lots, strict=True)]
    return pa.table(
        {
            **_keys(result, rows),
            "quantity": scales.quantity(symbols, lots),
            "bid": scales.price(symbols, bids),
            "ask": scales.price(symbols, asks),
            "exposure": scales.money(symbols, exposures),
            "position_lots": pa.array(lots, pa.int64()),
        }
    )


def daily_table(result: RunData) -> pa.Table:
    """Return a row for each UTC day, strategy and symbol: the profit and the trading of the day.

    A day's profit is the profit at its last sample minus the profit at the last sample of the day before. Both profits
    value the position at the price that would close it. The first day begins at 0. A day that has neither a sample nor
    an own execution has no row.
    """
    fills: dict[tuple[int, str, str], list[int]] = {}
    for fill in result.fills:
        counts = fills.setdefault((fill.time_ns // _DAY_NS, fill.strategy, fill.symbol), [0, 0])
        counts[0] += 1
        counts[1] += fill.volume_lots
    last = {sample.time_ns // _DAY_NS: sample for sample in result.curve}
    rows: list[tuple[int, str, str, int, int, int, int, int, int]] = []
    before: dict[tuple[int, int], tuple[int, int, int]] = {}
    position: dict[tuple[int, int], int] = {}
    for day in sorted({*last, *(day for day, _, _ in fills)}):
        for place, strategy in enumerate(result.strategies):
            for number, instrument in enumerate(result.instruments):
                key = place, number
                then = before.get(key, (0, 0, 0))
                now = last[day].profits[place][number] if day in last else then
                position[key] = last[day].positions[place][number] if day in last else position.get(key, 0)
                count, lots = fills.get((day, strategy.name, instrument.symbol), (0, 0))
                realised, unrealised, fees = (after - earlier for after, earlier in zip(now, then, strict=True))
                row = (day, strategy.name, instrument.symbol, realised, unrealised, fees, count, lots, position[key])
                rows.append(row)
                before[key] = now
    scales, symbols = _Scales(result.instruments), [row[2] for row in rows]
    return pa.table(
        {
            "day": pa.array([row[0] for row in rows], pa.int32()).cast(pa.date32()),
            "strategy": pa.array([row[1] for row in rows], pa.string()),
            "symbol": pa.array(symbols, pa.string()),
            "realised": scales.money(symbols, (row[3] for row in rows)),
            "unrealised": scales.money(symbols, (row[4] for row in rows)),
            "fees": scales.money(symbols, (row[5] for row in rows)),
            "profit": scales.money(symbols, (row[3] + row[4] - row[5] for row in rows)),
            "fills": pa.array([row[6] for row in rows], pa.int64()),
            "traded": scales.quantity(symbols, (row[7] for row in rows)),
            "position": scales.quantity(symbols, (row[8] for row in rows)),
        }
    )


_Row = tuple[Sample, int, str, int, int]
"""Sample, index of the strategy, symbol and its index, position in lots."""


def _long_rows(result: RunData) -> list[_Row]:
    """Return a row for each sample, strategy and symbol."""
    return [
        (sample, place, instrument.symbol, number, sample.positions[place][number])
        for sample in result.curve
        for place in range(len(result.strategies))
        for number, instrument in enumerate(result.instruments)
    ]


def _keys(result: RunData, rows: Sequence[_Row]) -> dict[str, pa.Array]:
    names = [strategy.name for strategy in result.strategies]
    return {
        "time": pa.array([sample.time_ns for sample, *_ in rows], _TIME),
        "strategy": pa.array([names[place] for _, place, *_ in rows], pa.string()),
        "symbol": pa.array([symbol for _, _, symbol, *_ in rows], pa.string()),
    }


def _times(times_ns: Sequence[int]) -> pa.Array:
    return pa.array([time_ns or None for time_ns in times_ns], _TIME)


_NS: Final = 1_000_000_000
_FILLS: Final = 5_000
"""Largest number of fills that are drawn for a symbol; if the symbol has more, every nth fill is drawn."""


def chart_data(result: RunData) -> dict[str, Any]:
    """Return the data of all charts, by chart."""
    money = Money(result.instruments)
    samples = result.curve
    profits = [
        [sum(r + u - f for r, u, f in sample.profits[place]) for sample in samples]
        for place in range(len(result.strategies))
    ]
    totals = [sum(each) for each in zip(*profits, strict=True)] if profits else [0] * len(samples)
    if len(profits) > 1:
        profits.append(totals)
    symbols = {}
    for number, instrument in enumerate(result.instruments):
        tick, lot = Decimal(instrument.tick_size), Decimal(instrument.lot_size)
        touch = [sample.quotes[number] for sample in samples]
        symbols[instrument.symbol] = {
            "bid": [None if bid is None else float(bid * tick) for bid, _ in touch],
            "ask": [None if ask is None else float(ask * tick) for _, ask in touch],
            "position": [
                [float(sample.positions[place][number] * lot) for sample in samples]
                for place in range(len(result.strategies))
            ],
        }
    return {
        "time": [sample.time_ns / _NS for sample in samples],
        "strategies": [strategy.name for strategy in result.strategies],
        "profit": [[money.number(value) for value in line] for line in profits],
        "drawdown": [money.number(value) for value in falls(totals)],
        "symbols": symbols,
        "fills": {instrument.symbol: _fills(result, instrument) for instrument in result.instruments},
    }


def _fills(result: RunData, instrument: Instrument) -> list[tuple[float, float, str, str]]:
    tick = Decimal(instrument.tick_size)
    fills = [trade for trade in result.fills if trade.symbol == instrument.symbol]
    step = max(1, -(-len(fills) // _FILLS))
    return [(t.time_ns / _NS, float(t.price_ticks * tick), t.side, t.strategy) for t in fills[::step]]
