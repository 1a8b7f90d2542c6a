"""Public feed as TotalView-ITCH 5.0: the encoder of the market's events, and the server of the packets.

```
market ─events─▶ ItchEncoder (packets) ──▶ the exchange's stream "itch" ──▶ ItchServer ──▶ SoupBinTCP listeners
```
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec

from deltabook.wire.itch import MESSAGES, Kind, attribution_of, encode_message
from deltabook.wire.soupbin import SEQUENCED, LoginRequest, encode_packet
from exchange_server.exchange import Exchange
from exchange_server.logins import LoginGate
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.order import Order
from exchange_server.matching.outputs import FeedEncoder, Imbalance, Now
from exchange_server.nasdaq.listing import LARGEST_PRICE, LARGEST_SHARES, Listing, list_instruments
from exchange_server.nasdaq.soup import ListeningServer, SoupConnection, SoupLimits
from exchange_server.readers import Count, Delay, SequencedStream, Timers

__all__ = [
    "ItchEncoder",
    "ItchLimits",
    "ItchServer",
    "directory_packet",
    "pack_add",
    "pack_attributed_add",
    "pack_deleted",
    "pack_executed",
    "pack_executed_at",
    "pack_reduced",
    "pack_replaced",
    "pack_traded",
    "remember_attribution",
    "sequenced",
    "trading_packet",
]

LAST_TIMESTAMP: Final = 2**48 - 1
"""Largest timestamp of six bytes: 78 hours after midnight, in nanoseconds."""

_LETTERS: Final = {4: "I", 8: "Q"}
_ATTRIBUTIONS: Final = 1 << 16


def _packer(letter: str) -> Any:
    """Return a function that packs a message in its packet.

    Its arguments are the six bytes up to the locate (`Stock` has them), the timestamp, and the other fields in order.
    The tracking number, 0, and the timestamp are packed as one integer. The function is for messages that come hundreds
    of thousands of times a second, and checks only that numbers fit (`struct.error`); `encode_message` checks names and
    values too.
    """
    own = MESSAGES[letter].fields[3:]
    layout = (f"{field.width}s" if field.kind is Kind.ALPHA else _LETTERS[field.width] for field in own)
    return struct.Struct(">6sQ" + "".join(layout)).pack


pack_add: Final = _packer("A")
pack_attributed_add: Final = _packer("F")
pack_executed: Final = _packer("E")
pack_executed_at: Final = _packer("C")
pack_reduced: Final = _packer("X")
pack_deleted: Final = _packer("D")
pack_replaced: Final = _packer("U")
pack_traded: Final = _packer("P")


class Stock:
    """A listing, and for each type of message the six bytes that its packets start with: length, S, letter, locate."""

    __slots__ = (
        "add",
        "attributed_add",
        "deleted",
        "executed",
        "executed_at",
        "listing",
        "lot_shares",
        "name",
        "reduced",
        "replaced",
        "tick_units",
        "traded",
    )

    def __init__(self, listing: Listing) -> None:
        def head(letter: str) -> bytes:
            kind = SEQUENCED + letter.encode("ascii")
            return struct.pack(">H2sH", MESSAGES[letter].length + 1, kind, listing.locate)

        self.listing = listing
        self.name = listing.symbol.encode("ascii").ljust(8)
        self.tick_units, self.lot_shares = listing.tick_units, listing.lot_shares
        self.add, self.attributed_add = head("A"), head("F")
        self.executed, self.executed_at, self.traded = head("E"), head("C"), head("P")
        self.reduced, self.deleted, self.replaced = head("X"), head("D"), head("U")


def remember_attribution(known: dict[int, bytes], broker_id: int) -> bytes:
    """Return a broker's attribution (the name of a firm in ITCH) in four bytes, empty if it has none, and cache it.

    `known`, the cache, is cleared when it is full.
    """
    if len(known) >= _ATTRIBUTIONS:
        known.clear()
    text = attribution_of(broker_id)
    attribution = known[broker_id] = text.encode("ascii").ljust(4) if text else b""
    return attribution


def sequenced(letter: str, **values: Any) -> bytes:
    """Return the packet of any message, given its fields by name."""
    return encode_packet(SEQUENCED, encode_message(letter, **values))


def event_packet(code: str, timestamp: int) -> bytes:
    """Return the packet of a system event."""
    return sequenced("S", timestamp=timestamp, event_code=code)


def directory_packet(listing: Listing, timestamp: int) -> bytes:
    """Return the packet that lists an instrument: as a common stock, without special rules except round lots."""
    return sequenced(
        "R",
        stock_locate=listing.locate,
        timestamp=timestamp,
        stock=listing.symbol,
        market_category="Q",
        financial_status_indicator="N",
        round_lot_size=listing.lot_shares,
        round_lots_only="N" if listing.lot_shares == 1 else "Y",
        issue_classification="C",
        issue_sub_type="Z",
        authenticity="P",
        short_sale_threshold_indicator="N",
        ipo_flag="N",
        luld_reference_price_tier=" ",
        etp_flag="N",
        etp_leverage_factor=0,
        inverse_indicator="N",
    )


def trading_packet(listing: Listing, timestamp: int, state: str, reason: str) -> bytes:
    """Return the packet of a listing's trading state, with the reason in four characters."""
    return sequenced(
        "H",
        stock_locate=listing.locate,
        timestamp=timestamp,
        stock=listing.symbol,
        trading_state=state,
        reason_code=reason,
    )


_DAY_NS: Final = 86_400 * 10**9
_LARGEST_COUNT: Final = 2**64 - 1
_NO_ORDER: Final = 0
_BEFORE_ALL_NS: Final = -1


class _State(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """State of the encoder in a snapshot."""

    midnight_ns: int
    until_ns: int
    is_over: bool
    undisplayed: int
    undisplayed_ids: list[int]


class ItchEncoder(FeedEncoder):
    """Encoder of the public feed as packets of one ITCH message each.

    * A new order is message F with the broker as attribution, or message A if the broker's id is too large for an
      attribution.
    * An execution at the order's own price is E; an execution at another price, which only recordings have, is C. An
      order's part of an auction's cross is C, not printable, and the whole cross is Q. The match number is that of the
      trade, the order reference number is `Order.feed_id`.
    * A trade without a displayed order is P, with order reference number 0.
    * Timestamps count from midnight UTC before the first message.

    Prices and shares have 32 bits. An order that does not fit is not displayed: no F or A announces it, its executions
    are P if they fit, and its end has no message. Timestamps have 48 bits, which is 78 hours: in place of the first
    message after that time, event C ends the feed.

    Memory grows only with the live orders that are not displayed. A message costs 0.2 to 0.3 µs.
    """

    __slots__ = (
        "_append",
        "_attributions",
        "_midnight_ns",
        "_now",
        "_packets",
        "_until_ns",
        "is_over",
        "stocks",
        "symbols",
        "undisplayed",
        "undisplayed_ids",
        "unlisted",
    )

    def __init__(self, rules: MarketRules, now: Now) -> None:
        """Create an encoder for the market whose clock is ``now``."""
        listed, self.unlisted = list_instruments(rules.instruments)
        """Symbol that cannot be listed → reason."""
        self.symbols = tuple(listed)
        """Listed symbols."""
        self.stocks: list[Stock | None] = [None] * (len(rules.instruments) + 1)
        """Listed instruments, indexed by locate; None for the others."""
        for listing in listed.values():
            self.stocks[listing.locate] = Stock(listing)
        self._now = now
        self._midnight_ns = 0
        self._until_ns = _BEFORE_ALL_NS
        self._packets: list[bytes] = []
        self._append = self._packets.append
        self.undisplayed_ids: set[int] = set()
        """`Order.feed_id` of live orders that are not displayed because a field does not fit."""
        self._attributions: dict[int, bytes] = {}
        self.is_over = False
        """True once event C has ended the feed."""
        self.undisplayed = 0
        """Number of orders and trades left out because a field does not fit."""

    @property
    def timestamp(self) -> int:
        """Time of the latest input in nanoseconds since the session's midnight; 0 before the first message."""
        return max(0, min(self._now.time_ns - self._midnight_ns, LAST_TIMESTAMP)) if self._midnight_ns else 0

    # -- time --------------------------------------------------------------------------------------------------

    def _is_late(self) -> bool:
        """Return True if the present message is left out because it is later than `_until_ns`.

        Before the first message, the call sets the midnight and returns False. The first late message adds event C.
        """
        if self.is_over:
            return True
        time_ns = self._now.time_ns
        if self._until_ns == _BEFORE_ALL_NS:
            self._midnight_ns = time_ns - time_ns % _DAY_NS
            self._until_ns = self._midnight_ns + LAST_TIMESTAMP
            return False
        self._append(event_packet("C", LAST_TIMESTAMP))
        self._until_ns = _BEFORE_ALL_NS
        self.is_over = True
        return True

    def _timestamp(self) -> int | None:
        """Return the timestamp of a message that is published now; None if the message is left out."""
        time_ns = self._now.time_ns
        if time_ns > self._until_ns and self._is_late():
            return None
        return time_ns - self._midnight_ns

    # -- orders ------------------------------------------------------------------------------------------------

    def added(self, order: Order) -> None:
        """Append F, or A without attribution."""
        stock = self.stocks[order.locate]
        if stock is None:
            return
        time_ns = self._now.time_ns
        if time_ns > self._until_ns and self._is_late():
            return
        shares, units = order.volume * stock.lot_shares, order.price_ticks * stock.tick_units
        side = b"B" if order.side == "B" else b"S"
        timestamp = time_ns - self._midnight_ns
        try:
            broker = self._attributions[order.broker_id]
        except KeyError:
            broker = remember_attribution(self._attributions, order.broker_id)
        try:
            if broker:
                packet = pack_attributed_add(
                    stock.attributed_add, timestamp, order.feed_id, side, shares, stock.name, units, broker
                )
            else:
                packet = pack_add(stock.add, timestamp, order.feed_id, side, shares, stock.name, units)
        except struct.error:
            self.undisplayed_ids.add(order.feed_id)
            self.undisplayed += 1
            return
        self._append(packet)

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """Append E; C at a price other than the order's own, not printable if the price does not fit; P if not
        displayed.
        """
        stock = self.stocks[order.locate]
        if stock is None:
            return
        if self.undisplayed_ids and order.feed_id in self.undisplayed_ids:
            self._trade(stock, order.side, volume, price_ticks, match_id)
            self._forget(order, order.volume)
            return
        time_ns = self._now.time_ns
        if time_ns > self._until_ns and self._is_late():
            return
        timestamp, shares = time_ns - self._midnight_ns, volume * stock.lot_shares
        if price_ticks == order.price_ticks:
            self._append(pack_executed(stock.executed, timestamp, order.feed_id, shares, match_id))
            return
        units = price_ticks * stock.tick_units
        room = min(max(units, 0), LARGEST_PRICE)
        printable = b"Y" if units == room else b"N"
        self._append(pack_executed_at(stock.executed_at, timestamp, order.feed_id, shares, match_id, printable, room))

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """Append C, not printable, as the Q that follows reports the whole trade."""
        stock = self.stocks[order.locate]
        if stock is None:
            return
        if self.undisplayed_ids and order.feed_id in self.undisplayed_ids:
            self._forget(order, order.volume)
            return
        time_ns = self._now.time_ns
        if time_ns > self._until_ns and self._is_late():
            return
        timestamp, shares = time_ns - self._midnight_ns, volume * stock.lot_shares
        units = min(max(price_ticks * stock.tick_units, 0), LARGEST_PRICE)
        self._append(pack_executed_at(stock.executed_at, timestamp, order.feed_id, shares, match_id, b"N", units))

    def reduced(self, order: Order, volume: int) -> None:
        """Append X, a partial cancellation."""
        stock = self.stocks[order.locate]
        if stock is None or (self.undisplayed_ids and order.feed_id in self.undisplayed_ids):
            return
        time_ns = self._now.time_ns
        if time_ns > self._until_ns and self._is_late():
            return
        timestamp, shares = time_ns - self._midnight_ns, volume * stock.lot_shares
        self._append(pack_reduced(stock.reduced, timestamp, order.feed_id, shares))

    def deleted(self, order: Order, volume: int) -> None:
        """Append D, the deletion of an order."""
        stock = self.stocks[order.locate]
        if stock is None:
            return
        if self.undisplayed_ids and order.feed_id in self.undisplayed_ids:
            self._forget(order, 0)
            return
        time_ns = self._now.time_ns
        if time_ns > self._until_ns and self._is_late():
            return
        self._append(pack_deleted(stock.deleted, time_ns - self._midnight_ns, order.feed_id))

    def replaced(self, old: Order, order: Order) -> None:
        """Append U; if only one of the two orders is displayed, D for the old one or an add for the new one."""
        stock = self.stocks[order.locate]
        if stock is None:
            return
        time_ns = self._now.time_ns
        if time_ns > self._until_ns and self._is_late():
            return
        if old.feed_id not in self.undisplayed_ids:
            shares, units = order.volume * stock.lot_shares, order.price_ticks * stock.tick_units
            timestamp = time_ns - self._midnight_ns
            try:
                self._append(pack_replaced(stock.replaced, timestamp, old.feed_id, order.feed_id, shares, units))
            except struct.error:
                pass
            else:
                return
        self.deleted(old, old.volume)
        self.added(order)

    def _forget(self, order: Order, left: int) -> None:
        if not left:
            self.undisplayed_ids.discard(order.feed_id)

    # -- trades ------------------------------------------------------------------------------------------------

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None:
        """Append P, with the side of the resting order."""
        stock = self.stocks[order.locate]
        if stock is not None:
            self._trade(stock, order.side, volume, price_ticks, match_id)

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None:
        """Append P with side B, as the side is unknown."""
        stock = self.stocks[locate]
        if stock is not None:
            self._trade(stock, "B", volume, price_ticks, match_id)

    def _trade(self, stock: Stock, side: str, volume: int, price_ticks: int, match_id: int) -> None:
        timestamp = self._timestamp()
        if timestamp is None:
            return
        shares, units = volume * stock.lot_shares, price_ticks * stock.tick_units
        if shares > LARGEST_SHARES or not 0 <= units <= LARGEST_PRICE:
            self.undisplayed += 1
            return
        letter = b"B" if side == "B" else b"S"
        self._append(pack_traded(stock.traded, timestamp, _NO_ORDER, letter, shares, stock.name, units, match_id))

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None:
        """Append Q, the trade of an auction as a whole."""
        stock, timestamp = self.stocks[locate], self._timestamp()
        if stock is None or timestamp is None:
            return
        units = price_ticks * stock.tick_units
        if not 0 <= units <= LARGEST_PRICE:
            self.undisplayed += 1
            return
        self._append(
            sequenced(
                "Q",
                stock_locate=locate,
                timestamp=timestamp,
                cross_shares=min(volume * stock.lot_shares, _LARGEST_COUNT),
                stock=stock.listing.symbol,
                cross_price=units,
                match_number=match_id,
                cross_type=kind,
            )
        )

    def imbalance(self, imbalance: Imbalance) -> None:
        """Append I; a price that does not fit is 0, like a missing one."""
        stock, timestamp = self.stocks[imbalance.locate], self._timestamp()
        if stock is None or timestamp is None:
            return
        far, near, reference = (
            units if 0 <= (units := ticks * stock.tick_units) <= LARGEST_PRICE else 0
            for ticks in (imbalance.far_ticks, imbalance.near_ticks, imbalance.reference_ticks)
        )
        self._append(
            sequenced(
                "I",
                stock_locate=imbalance.locate,
                timestamp=timestamp,
                paired_shares=min(imbalance.paired * stock.lot_shares, _LARGEST_COUNT),
                imbalance_shares=min(imbalance.volume * stock.lot_shares, _LARGEST_COUNT),
                imbalance_direction=imbalance.direction,
                stock=stock.listing.symbol,
                far_price=far,
                near_price=near,
                current_reference_price=reference,
                cross_type=imbalance.kind,
                price_variation_indicator=_variation(near, reference),
            )
        )

    def busted(self, locate: int, match_id: int) -> None:
        """Append B, a broken trade."""
        stock, timestamp = self.stocks[locate], self._timestamp()
        if stock is not None and timestamp is not None:
            self._append(sequenced("B", stock_locate=locate, timestamp=timestamp, match_number=match_id))

    # -- states ------------------------------------------------------------------------------------------------

    def system(self, code: str) -> None:
        """Append S, a system event."""
        timestamp = self._timestamp()
        if timestamp is not None:
            self._append(event_packet(code, timestamp))

    def listed(self, locate: int) -> None:
        """Append R, a listing."""
        stock, timestamp = self.stocks[locate], self._timestamp()
        if stock is not None and timestamp is not None:
            self._append(directory_packet(stock.listing, timestamp))

    def trading(self, locate: int, state: str, reason: str) -> None:
        """Append H, a trading state."""
        stock, timestamp = self.stocks[locate], self._timestamp()
        if stock is not None and timestamp is not None:
            self._append(trading_packet(stock.listing, timestamp, state, reason))

    # -- output and state --------------------------------------------------------------------------------------

    def take(self) -> tuple[bytes, int]:
        """Return the packets since the last call, and their number."""
        packets = self._packets
        taken = b"".join(packets), len(packets)
        packets.clear()
        return taken

    def state(self) -> object:
        """Return the encoder's part of a snapshot."""
        state = _State(self._midnight_ns, self._until_ns, self.is_over, self.undisplayed, sorted(self.undisplayed_ids))
        return msgspec.to_builtins(state)

    def restore(self, state: object) -> None:
        """Continue from a `state`; raise `msgspec.ValidationError` for an invalid one."""
        kept = msgspec.convert(state, _State)
        self._midnight_ns, self._until_ns, self.is_over = kept.midnight_ns, kept.until_ns, kept.is_over
        self.undisplayed, self.undisplayed_ids = kept.undisplayed, set(kept.undisplayed_ids)
        self._packets.clear()


def _variation(near: int, reference: int) -> str:
    """Return ITCH's price variation indicator: distance of the near price from the reference price, in whole
    percent."""
    if not near or not reference:
        return " "
    percents = abs(near - reference) * 100 // reference
    if percents < 10:
        return str(percents) if percents else "L"
    return "A" if percents < 20 else "B" if percents < 30 else "C"


class ItchLimits(SoupLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of the server, which allow more connections than the other ports.

    Under constant load, packets are sent in bursts of many messages (`burst_interval_s`): a write to every listener for
    every order would delay the next order by more than all other work does.
    """

    connections: Count = 2_000
    burst_interval_s: Delay = 0.000_5


class ItchServer(ListeningServer):
    """Server of the ITCH feed: a listener logs in at any message of the session and gets all messages from there on."""

    name = "itch"

    def __init__(
        self,
        exchange: Exchange,
        encoder: ItchEncoder,
        clock: Timers,
        limits: SoupLimits,
        gate: LoginGate | None = None,
    ) -> None:
        super().__init__(clock, limits, gate)
        self.exchange = exchange
        self.encoder = encoder
        self._feed = exchange.feeds["itch"]
        for symbol, reason in encoder.unlisted.items():
            self._log.warn("itch: {symbol} is not listed: {reason}", symbol=symbol, reason=reason)

    def admit(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Accept a listener at its position, or reject it."""
        session = self.exchange.session
        number = self.position(connection, login, session, self._feed.records)
        if number is not None:
            self.follow(connection, self._feed, session, number)

    def is_over(self, stream: SequencedStream) -> bool:
        """Return True if event C has ended the feed."""
        del stream
        return self.encoder.is_over
