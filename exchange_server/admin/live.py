"""The frames of a page that follows one symbol."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from deltabook.wire import admin
from deltabook.wire.symbols import Instrument
from exchange_server.admin.reports import Reports
from exchange_server.admin.tape import Tape

__all__ = ["LiveFrames"]

_DAY_NS: Final = 86_400 * 10**9


class LiveFrames:
    """Makes a frame when one is asked for: nothing is made, kept or counted for pages that do not ask."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._exchange = reports.exchange
        self._tape = Tape(reports.exchange.feeds)

    def frame(self, symbol: str, after: int = 0) -> admin.Live:
        """The frame of a symbol, with trades behind a message of the feed; raises `UnknownNameError`."""
        reports, market = self._reports, self._exchange.market
        book = reports.book_of(symbol)
        instrument: Instrument = market.rules.instruments[book.locate - 1]
        bid, ask = next(book.levels("B"), None), next(book.levels("S"), None)
        return admin.Live(
            session=self._exchange.session,
            up_s=reports.up_s,
            day_ns=self._exchange.heartbeat_time_ns() % _DAY_NS,
            symbol=symbol,
            phase=book.phase,
            last=_price(instrument, book.last_trade_ticks) if book.last_trade_ticks else None,
            spread=_price(instrument, ask[0] - bid[0]) if bid and ask else None,
            bids=_levels(instrument, book.levels("B")),
            asks=_levels(instrument, book.levels("S")),
            trades=tuple(self._tape.trades(instrument, book, after)),
            next_after=self._tape.messages,
            figures=self._figures(market),
            replay=reports.replay() if reports.playing is not None else None,
        )

    def _figures(self, market: Any) -> admin.LiveFigures:
        connections = [connection for _, _, connection in self._reports.connections()]
        return admin.LiveFigures(
            inputs=market.inputs,
            messages=self._tape.messages,
            orders=market.orders,
            trades=market.trades,
            live_orders=market.live_orders,
            sessions=len(connections),
            listeners=sum(connection.reader.tail is not None for connection in connections),
            refused=sum(market.refused.values()),
        )


def _price(instrument: Instrument, ticks: int) -> str:
    return f"{instrument.price(ticks):f}"


def _levels(instrument: Instrument, levels: Iterable[tuple[int, int, int]]) -> tuple[admin.LiveLevel, ...]:
    return tuple(
        admin.LiveLevel(_price(instrument, ticks), f"{instrument.quantity(lots):f}", orders)
        for ticks, lots, orders in islice(levels, admin.LIVE_DEPTH)
    )
