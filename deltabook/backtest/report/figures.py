"""What the charts of a report draw: plain lists, scaled for people."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from deltabook.backtest.statistics import falls
from deltabook.wire.symbols import Instrument

if TYPE_CHECKING:
    from deltabook.backtest.result import Result

__all__ = ["Money", "chart_data"]

_NS: Final = 1_000_000_000
_FILLS: Final = 5_000
"""So many fills of a symbol are drawn, evenly chosen."""


class Money:
    """Sums of ticks × lots as people read them: money where all instruments have one scale."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        scales = {(each.tick_size, each.lot_size) for each in instruments}
        self.unit = "" if len(scales) == 1 else "ticks × lots"
        """Named where it is not money."""
        self._unit = instruments[0].notional(1) if len(scales) == 1 else Decimal(1)

    def text(self, value: int) -> str:
        """Exact, with thousands apart.

        >>> Money([Instrument("ACME", "0.01", "1")]).text(-1234567)
        '-12,345.67'
        """
        money = value * self._unit
        return f"{money:,f}".rstrip("0").rstrip(".") if money != int(money) else f"{int(money):,}"

    def column(self, values: Sequence[int]) -> list[str]:
        """The same of several that stand one below the other: all with as many decimals as one of them needs.

        >>> Money([Instrument("ACME", "0.01", "1")]).column([150, -1234567, 0])
        ['1.50', '-12,345.67', '0.00']
        """
        texts = [self.text(value) for value in values]
        digits = max((len(text.partition(".")[2]) for text in texts), default=0)
        return [f"{value * self._unit:,.{digits}f}" for value in values]

    def number(self, value: int) -> float:
        """For a chart."""
        return float(value * self._unit)


def chart_data(result: Result) -> dict[str, Any]:
    """Everything that is drawn, by chart."""
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


def _fills(result: Result, instrument: Instrument) -> list[tuple[float, float, str, str]]:
    tick = Decimal(instrument.tick_size)
    fills = [trade for trade in result.fills if trade.symbol == instrument.symbol]
    step = max(1, -(-len(fills) // _FILLS))
    return [(t.time_ns / _NS, float(t.price_ticks * tick), t.side, t.strategy) for t in fills[::step]]
