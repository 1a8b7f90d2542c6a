"""The feed as ITCH 5.0: a function of its lines alone, so that the same journal gives the same bytes again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from deltabook.wire.attribution import attribution_of
from deltabook.wire.itch import MESSAGES, Kind, encode_message
from deltabook.wire.soupbin import SEQUENCED, encode_packet
from exchange_server.nasdaq.listing import LARGEST_PRICE, LARGEST_SHARES, Listing

__all__ = ["Translator"]

_DAY_NS: Final = 86_400 * 10**9
_LAST_TIMESTAMP: Final = 2**48 - 1
_PRINTABLE: Final = b"Y"
_NOT_PRINTABLE: Final = b"N"
_UNKNOWN_SIDE: Final = b"B"
_SEQUENCE, _TIME, _ORDER, _BROKER, _ACTION, _VOLUME, _PRICE, _SYMBOL = range(8)
_LETTERS: Final = {1: "B", 2: "H", 4: "I", 6: "HI", 8: "Q"}


def _packer(letter: str) -> Callable[..., bytes]:
    """Packs a message in its packet, from the values of all fields in their order (a timestamp is two).

    `encode_message` checks names and values; this is for the messages of which there are hundreds of thousands a
    second, and the caller has checked what may not fit.
    """
    message = MESSAGES[letter]
    shared, own = message.fields[:3], message.fields[3:]
    layout = [f"{field.width}s" if field.kind is Kind.ALPHA else _LETTERS[field.width] for field in (*shared, *own)]
    pack = struct.Struct(">Hcc" + "".join(layout)).pack
    return partial(pack, message.length + 1, SEQUENCED, letter.encode("ascii"))


class Translator:
    """Turns lines of the feed into packets of one ITCH message each.

    * An add is F with the broker as attribution; A if the broker's id is too large to have one.
    * An execution at the order's own price is E, at another C; the match number is the line's number in the feed.
    * A trade that no displayed order took part in is P.
    * The first line brings the session's beginning before it: system events, then the directory and the trading state
      of every listing. Midnight UTC before the first line is the zero of all timestamps.

    Prices and shares have 32 bits. An order beyond them is not displayed: it is not added, its executions are P as far
    as they fit, and its end is not told. Timestamps have 48 bits, which is 78 hours: the first line behind them ends
    the messages.

    Holds something for each live order of a symbol that is played as recorded (only there are executions at other
    prices), and for each live order that is not displayed.
    """

    def __init__(self, listings: Mapping[str, Listing], replayed: str = "") -> None:
        """``replayed``: the symbol that is played as recorded, if there is one."""
        self._listings = dict(listings)
        self._stocks = {symbol: symbol.encode("ascii").ljust(8) for symbol in listings}
        self._replayed = replayed
        self._midnight_ns: int | None = None
        self._time = ""
        self._high = self._low = 0
        self._prices: dict[str, int] = {}
        self._undisplayed: dict[str, bytes] = {}
        self._attributions: dict[str, bytes] = {}
        self.is_over = False
        """The messages have ended, because their timestamps would not fit."""
        self.undisplayed = 0
        """Orders and trades that were left out because a field of theirs would not fit."""
        self._pack: Final = {letter: _packer(letter) for letter in "AFECXDP"}
        self._steps: Final[dict[str, Callable[..., bytes]]] = {
            "B": self._add,
            "S": self._add,
            "E": self._execute,
            "F": self._execute,
            "X": self._reduce,
            "D": self._delete,
            "T": self._trade,
        }

    def translate(self, lines: Iterable[str]) -> list[bytes]:
        """The packets that follow from the next lines of the feed."""
        packets: list[bytes] = []
        for line in lines:
            fields = line[:-1].split(",")
            if fields[_TIME] != self._time:
                packets += self._advance(fields[_TIME])
            if self.is_over:
                break
            listing = self._listings.get(fields[_SYMBOL])
            if listing is not None:
                shares, units = int(fields[_VOLUME]) * listing.lot_shares, int(fields[_PRICE]) * listing.tick_units
                packet = self._steps[fields[_ACTION]](listing, fields, shares, units)
                if packet:
                    packets.append(packet)
        return packets

    def _advance(self, time: str) -> list[bytes]:
        """Take over a line's time; the packets of the session's beginning or end, if it is there."""
        self._time = time
        time_ns = int(time)
        begins = self._midnight_ns is None
        if self._midnight_ns is None:
            self._midnight_ns = time_ns - time_ns % _DAY_NS
        timestamp = time_ns - self._midnight_ns
        if timestamp > _LAST_TIMESTAMP:
            timestamp = (self._high << 32) + self._low
            was_over, self.is_over = self.is_over, True
            return [] if was_over else [_sequenced("S", timestamp=timestamp, event_code="C")]
        self._high, self._low = timestamp >> 32, timestamp & 0xFFFFFFFF
        return self._beginning(timestamp) if begins else []

    def _beginning(self, timestamp: int) -> list[bytes]:
        listings = self._listings.values()
        return [
            _sequenced("S", timestamp=timestamp, event_code="O"),
            *(_directory(listing, timestamp) for listing in listings),
            _sequenced("S", timestamp=timestamp, event_code="S"),
            *(_trading(listing, timestamp) for listing in listings),
            _sequenced("S", timestamp=timestamp, event_code="Q"),
        ]

    # One packet for a line, empty for none.

    def _add(self, listing: Listing, fields: list[str], shares: int, units: int) -> bytes:
        side = fields[_ACTION].encode("ascii")
        if not (shares <= LARGEST_SHARES and units <= LARGEST_PRICE):
            self._undisplayed[fields[_ORDER]] = side
            self.undisplayed += 1
            return b""
        if listing.symbol == self._replayed:
            self._prices[fields[_ORDER]] = units
        stock, broker = self._stocks[listing.symbol], self._attribution(fields[_BROKER])
        head = (listing.locate, 0, self._high, self._low, int(fields[_ORDER]), side, shares, stock, units)
        return self._pack["F"](*head, broker) if broker else self._pack["A"](*head)

    def _execute(self, listing: Listing, fields: list[str], shares: int, units: int) -> bytes:
        if fields[_ORDER] in self._undisplayed:
            return self._trade(listing, fields, shares, units)
        head = (listing.locate, 0, self._high, self._low, int(fields[_ORDER]), shares, int(fields[_SEQUENCE]))
        if listing.symbol != self._replayed:
            return self._pack["E"](*head)
        own = self._prices.pop(fields[_ORDER]) if fields[_ACTION] == "F" else self._prices[fields[_ORDER]]
        if units == own:
            return self._pack["E"](*head)
        if units > LARGEST_PRICE:
            return self._pack["C"](*head, _NOT_PRINTABLE, LARGEST_PRICE)
        return self._pack["C"](*head, _PRINTABLE, units)

    def _reduce(self, listing: Listing, fields: list[str], shares: int, units: int) -> bytes:
        if fields[_ORDER] in self._undisplayed:
            return b""
        return self._pack["X"](listing.locate, 0, self._high, self._low, int(fields[_ORDER]), shares)

    def _delete(self, listing: Listing, fields: list[str], shares: int, units: int) -> bytes:
        if self._undisplayed.pop(fields[_ORDER], b""):
            return b""
        self._prices.pop(fields[_ORDER], None)
        return self._pack["D"](listing.locate, 0, self._high, self._low, int(fields[_ORDER]))

    def _trade(self, listing: Listing, fields: list[str], shares: int, units: int) -> bytes:
        side = self._undisplayed.get(fields[_ORDER], _UNKNOWN_SIDE)
        if fields[_ACTION] == "F":
            del self._undisplayed[fields[_ORDER]]
        if not (shares <= LARGEST_SHARES and units <= LARGEST_PRICE):
            self.undisplayed += 1
            return b""
        stock = self._stocks[listing.symbol]
        head = (listing.locate, 0, self._high, self._low, int(fields[_ORDER]), side, shares, stock, units)
        return self._pack["P"](*head, int(fields[_SEQUENCE]))

    def _attribution(self, broker_id: str) -> bytes:
        found = self._attributions.get(broker_id)
        if found is None:
            text = attribution_of(int(broker_id))
            found = self._attributions[broker_id] = text.encode("ascii").ljust(4) if text else b""
        return found


def _sequenced(letter: str, **values: Any) -> bytes:
    return encode_packet(SEQUENCED, encode_message(letter, **values))


def _directory(listing: Listing, timestamp: int) -> bytes:
    """A listing as a common stock of the simulated market, of whose rules it has none but round lots."""
    return _sequenced(
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


def _trading(listing: Listing, timestamp: int) -> bytes:
    return _sequenced(
        "H",
        stock_locate=listing.locate,
        timestamp=timestamp,
        stock=listing.symbol,
        trading_state="T",
        reason_code="",
    )
