"""GLIMPSE: a snapshot of all books over SoupBinTCP, and the number at which to join the feed.

```
market's books ──captured at once──▶ Snapshot ──in slices──▶ GlimpseServer ──▶ SoupBinTCP clients, then ITCH
```
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from deltabook.wire.itch import encode_snapshot_end
from deltabook.wire.soupbin import SEQUENCED, LoginRequest, encode_packet
from exchange_server.exchange import Exchange
from exchange_server.logins import LoginGate
from exchange_server.matching.market import Market
from exchange_server.matching.order import Order
from exchange_server.nasdaq.itch import (
    ItchEncoder,
    directory_packet,
    pack_add,
    pack_attributed_add,
    remember_attribution,
    trading_packet,
)
from exchange_server.nasdaq.soup import ListeningServer, SoupConnection, SoupLimits
from exchange_server.readers import Count, Delay, SequencedStream, Timers

__all__ = ["GlimpseLimits", "GlimpseServer", "Snapshot"]

_SLICE_ORDERS: Final = 1_000
"""Number of orders encoded in one turn of the reactor: about a millisecond and 43 kB."""

_FEED_ID: Final[Callable[[Order], int]] = attrgetter("feed_id")
_VOLUME: Final[Callable[[Order], int]] = attrgetter("volume")
_STATES: Final = {"continuous": "T", "paused": "P", "halted": "H", "closed": "H"}


class Snapshot:
    """Snapshot of the books: directory and trading state of every listing, one add for each displayed order, and the
    feed's next message number.

    Bids come before asks, better prices before worse ones, and the orders of a price in the order of their queue. All
    data are those of the moment of construction, which takes about 0.15 µs for each order. The feed id and the
    displayed volume of an order are copied, since they may change later; the other fields of an order never change. The
    packets are encoded slice by slice, so that a large book does not block the reactor.
    """

    def __init__(self, market: Market, encoder: ItchEncoder, join_at: int) -> None:
        """Record the market's books; ``join_at`` is the number of the feed's next message."""
        self.join_at = join_at
        """Number of the first message that the snapshot does not contain."""
        self.on_append: list[Callable[[bytes], None]] = []
        self.next_number = 1
        self.size_bytes = 0
        self.is_complete = False
        """True once all packets are encoded."""
        self._chunks: list[bytes] = []
        self._offsets: list[int] = []
        self._stocks = encoder.stocks
        self._timestamp = encoder.timestamp
        self._attributions: dict[int, bytes] = {}
        self._done = 0
        orders: list[Order] = []
        if join_at > 1:  # before its first message the feed has not yet sent the directory
            self._list(market)
            for book in market.book_at:
                if book is not None and encoder.stocks[book.locate] is not None:
                    for levels in (book.bids, book.asks):
                        for price in levels:
                            orders.extend(levels[price].values())
        if encoder.undisplayed_ids:
            orders = [order for order in orders if order.feed_id not in encoder.undisplayed_ids]
        self._orders = orders
        self._feed_ids = list(map(_FEED_ID, orders))
        self._volumes = list(map(_VOLUME, orders))

    def _list(self, market: Market) -> None:
        packets: list[bytes] = []
        for book in market.book_at:
            stock = self._stocks[book.locate] if book is not None else None
            if book is not None and stock is not None:
                packets.append(directory_packet(stock.listing, self._timestamp))
                packets.append(trading_packet(stock.listing, self._timestamp, _STATES.get(book.phase, "Q"), ""))
        if packets:
            self._append(packets)

    @property
    def records(self) -> Snapshot:
        """Records of the stream: the snapshot itself."""
        return self

    def fill(self) -> bool:
        """Encode the next slice; return True if more slices follow."""
        if self.is_complete:
            return False
        begin, end = self._done, self._done + _SLICE_ORDERS
        stocks, attributions, timestamp = self._stocks, self._attributions, self._timestamp
        packets: list[bytes] = []
        for order, feed_id, volume in zip(
            self._orders[begin:end], self._feed_ids[begin:end], self._volumes[begin:end], strict=True
        ):
            stock = stocks[order.locate]
            assert stock is not None
            side, broker = b"B" if order.side == "B" else b"S", attributions.get(order.broker_id)
            if broker is None:
                broker = remember_attribution(attributions, order.broker_id)
            shares, units = volume * stock.lot_shares, order.price_ticks * stock.tick_units
            head = stock.attributed_add if broker else stock.add
            fields = (head, timestamp, feed_id, side, shares, stock.name, units)
            try:
                packets.append(pack_attributed_add(*fields, broker) if broker else pack_add(*fields))
            except struct.error:
                continue  # entered after the end of the feed, when the encoder no longer notes which orders do not fit
        self._done = end
        if end >= len(self._orders):
            packets.append(encode_packet(SEQUENCED, encode_snapshot_end(self.join_at)))
            self.is_complete = True
            self._orders, self._feed_ids, self._volumes = [], [], []
        self._append(packets)
        return not self.is_complete

    def _append(self, packets: list[bytes]) -> None:
        data = b"".join(packets)
        self._offsets.append(self.size_bytes)
        self._chunks.append(data)
        self.size_bytes += len(data)
        self.next_number += len(packets)
        for listener in tuple(self.on_append):
            listener(data)

    def offset_of(self, number: int) -> int:
        """Return the offset of record 1; raise `ValueError` for any other number."""
        if number != 1:
            raise ValueError(f"expected the number 1, was {number}")
        return 0

    def read(self, offset: int, limit_bytes: int) -> bytes:
        """Return the packets of the slice that begins at an offset."""
        del limit_bytes  # a slice is smaller than any limit
        return self._chunks[bisect_right(self._offsets, offset) - 1]

    piece = read

    def rest_of_record(self, offset: int) -> bytes:
        """Return no bytes: pieces end with packets."""
        del offset
        return b""


class GlimpseLimits(SoupLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the snapshot server."""

    fresh_s: Delay = 1.0
    """Time for which a snapshot is also sent to further clients, in seconds; at least until it is complete."""
    snapshots: Count = 4
    """Largest number of snapshots in memory, about 50 bytes for each displayed order.

    Beyond that number clients share the newest snapshot, however old, and join the feed at an earlier message.
    """


class GlimpseServer(ListeningServer):
    """Sends each client the books of one moment and the number at which to join the feed; then the session ends.

    For another snapshot the client logs in again.
    """

    name = "glimpse"

    def __init__(
        self,
        exchange: Exchange,
        encoder: ItchEncoder,
        clock: Timers,
        limits: GlimpseLimits,
        gate: LoginGate | None = None,
    ) -> None:
        super().__init__(clock, limits, gate)
        self.exchange = exchange
        self._encoder = encoder
        self._limits = limits
        self._newest: Snapshot | None = None
        self._is_stale = False
        self._fill_calls: dict[Snapshot, Any] = {}
        self._drop_call: Any = None

    def admit(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Send the client a snapshot from its first message; no other start is allowed."""
        session = self.exchange.session
        if login.session and login.session.upper() != session.upper():
            connection.reject("S", f"expected session {session}, was {login.session}")
        elif login.sequence > 1:
            connection.reject("S", f"expected sequence 1, was {login.sequence}: snapshots are sent as a whole")
        else:
            snapshot = self._snapshot()
            self.follow(connection, snapshot, session, 1)
            self._fill_soon(snapshot)

    def is_over(self, stream: SequencedStream) -> bool:
        """Return True if the snapshot is complete."""
        return isinstance(stream, Snapshot) and stream.is_complete

    def _snapshot(self) -> Snapshot:
        if self._newest is not None:
            return self._newest
        followed = self.followed
        if len(followed) >= self._limits.snapshots and isinstance(followed[-1], Snapshot):
            return followed[-1]
        feed = self.exchange.feeds["itch"].records
        newest = self._newest = Snapshot(self.exchange.market, self._encoder, feed.next_number)
        self._is_stale = False
        self._drop_call = self.clock.callLater(self._limits.fresh_s, self._drop)
        return newest

    def _fill_soon(self, snapshot: Snapshot) -> None:
        if snapshot in self.followed and not snapshot.is_complete and snapshot not in self._fill_calls:
            self._fill_calls[snapshot] = self.clock.callLater(0, self._fill, snapshot)

    def _fill(self, snapshot: Snapshot) -> None:
        """Encode one more slice, unless every client of the snapshot has disconnected."""
        del self._fill_calls[snapshot]
        if snapshot in self.followed:
            snapshot.fill()
            self._fill_soon(snapshot)
        self._forget_stale()

    def _drop(self) -> None:
        """Mark the newest snapshot as stale, so that it is dropped once it is complete or has no client."""
        self._is_stale = True
        self._forget_stale()

    def _forget_stale(self) -> None:
        """Drop the newest snapshot if it is stale, and is complete or has no client.

        Until then no other snapshot is begun, since snapshots might be begun faster than they are encoded.
        """
        newest = self._newest
        if self._is_stale and newest is not None and (newest.is_complete or newest not in self.followed):
            self._newest = None

    def close(self) -> None:
        """Close every connection; an incomplete snapshot is useless to its client."""
        for call in (*self._fill_calls.values(), self._drop_call):
            if call is not None and call.active():
                call.cancel()
        self._fill_calls.clear()
        super().close()
