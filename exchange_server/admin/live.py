"""Frames of the page that follows one symbol, with the symbol's latest trades.

Trades are read from the end of the feed on each request; the exchange keeps no copy of them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from struct import Struct
from typing import Any, Final

from deltabook.wire import admin
from deltabook.wire.admin import MOST_TRADES, LiveTrade
from deltabook.wire.symbols import Instrument
from exchange_server.admin.reports import Reports
from exchange_server.nasdaq.listing import list_instruments

__all__ = ["MOST_LINES", "MOST_PACKETS", "LiveFrames", "Tape"]

MOST_LINES: Final = 1 << 14
"""Largest number of messages at the end of the text feed that one request searches. The search takes up to 4 ms, in
which the market does nothing else.
"""
MOST_PACKETS: Final = 1 << 12
"""Largest number of messages at the end of the ITCH feed that one request searches. The search takes up to 3 ms, since
the messages are examined one by one.
"""
_DAY_NS: Final = 86_400 * 10**9

# Offsets in a packet, which begins with two bytes of length and one byte of packet type.
_LETTER_AT: Final = 3
_LOCATE_AT: Final = 4
_TIMESTAMP_AT: Final = 8
_FIELDS_AT: Final = 14
"""Offset of the fields that follow the fields common to all messages."""
_TWO_BYTES: Final = Struct(">H")
_FIELDS: Final = {
    ord("A"): Struct(">QcI8sI"),
    ord("F"): Struct(">QcI8sI"),
    ord("U"): Struct(">QQII"),
    ord("E"): Struct(">QI"),
    ord("C"): Struct(">QIQcI"),
    ord("P"): Struct(">QcI8sI"),
    ord("Q"): Struct(">Q8sI"),
}
"""Layouts of the messages that carry a price or a trade, without the common fields."""


class Tape:
    """Reads trades from one form of the feed.

    A text message contains the whole trade. An ITCH execution at the resting order's own price contains no price; the
    order's message has the price, and may lie before the searched part of the feed.
    """

    def __init__(self, feeds: Mapping[str, Any]) -> None:
        """Create a tape over ``feeds``: streams by form, as `Exchange.feeds`.

        The text form is preferred; without a feed there are no trades.
        """
        self._is_text = "text" in feeds
        self._records = feeds["text"].records if self._is_text else feeds["itch"].records if "itch" in feeds else None

    @property
    def messages(self) -> int:
        """Number of messages in the feed so far."""
        return self._records.next_number - 1 if self._records is not None else 0

    def trades(self, instrument: Instrument, book: Any, after: int = 0) -> list[LiveTrade]:
        """Return the latest trades after message number ``after``, oldest first, at most `MOST_TRADES`."""
        records = self._records
        if records is None or after >= records.next_number - 1:
            return []
        # Text needs only the new lines. ITCH also needs earlier packets, which may contain the prices of the new
        # trades.
        oldest = (
            max(after + 1, records.next_number - MOST_LINES) if self._is_text else records.next_number - MOST_PACKETS
        )
        begin = max(oldest, 1)
        offset = records.offset_of(begin)
        data = records.piece(offset, records.size_bytes - offset)
        trades = _of_text(data, instrument) if self._is_text else _of_itch(data, begin, instrument, book)
        newest = deque((trade for trade in trades if trade[0] > after), MOST_TRADES)
        price, quantity = instrument.price, instrument.quantity
        return [
            LiveTrade(number, day_ns, None if ticks is None else f"{price(ticks):f}", f"{quantity(lots):f}")
            for number, day_ns, ticks, lots in newest
        ]


def _of_text(data: bytes, instrument: Instrument) -> Iterator[tuple[int, int, int | None, int]]:
    symbol = re.escape(instrument.symbol.encode("ascii"))
    # The pattern begins with the part of a line that few lines contain. The fields before that part are parsed for the
    # latest matches only.
    pattern = re.compile(rb",[EFT],(\d+),(\d+)," + symbol + rb"\n")
    for match in deque(pattern.finditer(data), MOST_TRADES):
        number, time_ns, _ = data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()].split(b",", 2)
        yield int(number), int(time_ns) % _DAY_NS, int(match[2]), int(match[1])


def _of_itch(data: bytes, number: int, instrument: Instrument, book: Any) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield the trades in ITCH packets, the first of which has number ``number``; ``book`` has the live orders."""
    listed, _ = list_instruments([instrument])
    if not listed:
        return
    tick_units, lot_shares = listed[instrument.symbol].tick_units, listed[instrument.symbol].lot_shares
    locate, at, number = _TWO_BYTES.pack(book.locate), 0, number - 1
    prices: dict[int, int] = {}
    while at < len(data):
        packet, at, number = at, at + 2 + _TWO_BYTES.unpack_from(data, at)[0], number + 1
        layout = _FIELDS.get(data[packet + _LETTER_AT])
        if layout is None or data[packet + _LOCATE_AT : packet + _LOCATE_AT + 2] != locate:
            continue
        trade = _trade(chr(data[packet + _LETTER_AT]), layout.unpack_from(data, packet + _FIELDS_AT), prices)
        if trade is not None:
            shares, units, ref = trade
            order = book.orders.get(ref)
            ticks = units // tick_units if units is not None else order.price_ticks if order is not None else None
            time_ns = int.from_bytes(data[packet + _TIMESTAMP_AT : packet + _FIELDS_AT], "big")
            yield number, time_ns % _DAY_NS, ticks, shares // lot_shares


def _trade(letter: str, fields: tuple[Any, ...], prices: dict[int, int]) -> tuple[int, int | None, int] | None:
    """Return a trade's shares, its price in the message's units, and its order id; None if the message is not a trade.

    The price of an announced order is added to ``prices``.
    """
    match letter:
        case "A" | "F":
            prices[fields[0]] = fields[4]
        case "U":
            prices[fields[1]] = fields[3]
        case "E":
            return fields[1], prices.get(fields[0]), fields[0]
        case "C" if fields[3] == b"Y":
            return fields[1], fields[4], fields[0]
        case "P":
            return fields[2], fields[4], fields[0]
        case "Q":
            return fields[0], fields[2], 0
        case _:
            pass
    return None


class LiveFrames:
    """Makes the frames of the page on request; without a request nothing is computed or stored."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._exchange = reports.exchange
        self._tape = Tape(reports.exchange.feeds)

    def frame(self, symbol: str, after: int = 0) -> admin.Live:
        """Return the frame of a symbol with the trades after message ``after``.

        Raise `UnknownNameError` for an unknown symbol.
        """
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
