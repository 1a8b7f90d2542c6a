"""ITCH messages in their sequenced packets: what makes them fast, and the rare ones by name."""

from __future__ import annotations

import struct
from typing import Any, Final

from deltabook.wire.itch import MESSAGES, Kind, attribution_of, encode_message
from deltabook.wire.soupbin import SEQUENCED, encode_packet
from exchange_server.nasdaq.listing import Listing

__all__ = [
    "LAST_TIMESTAMP",
    "Stock",
    "directory_packet",
    "event_packet",
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
"""Six bytes of nanoseconds, 78 hours behind midnight."""

_LETTERS: Final = {4: "I", 8: "Q"}
_ATTRIBUTIONS: Final = 1 << 16


def _packer(letter: str) -> Any:
    """Packs a message in its packet: six bytes up to its locate (`Stock` has them), tracking number 0 and timestamp as
    one integer, and the rest of its fields in their order.

    `encode_message` checks names and values; this is for the messages of which there are hundreds of thousands a
    second. A number that has no room raises `struct.error`.
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
    """A listing, and the six bytes that the packets of its messages begin with: length, S, letter, locate."""

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
    """A broker's attribution as the packets have it, empty if it has none; put into `known`, which stays small."""
    if len(known) >= _ATTRIBUTIONS:
        known.clear()
    text = attribution_of(broker_id)
    attribution = known[broker_id] = text.encode("ascii").ljust(4) if text else b""
    return attribution


def sequenced(letter: str, **values: Any) -> bytes:
    """Any message in its packet."""
    return encode_packet(SEQUENCED, encode_message(letter, **values))


def event_packet(code: str, timestamp: int) -> bytes:
    """A system event."""
    return sequenced("S", timestamp=timestamp, event_code=code)


def directory_packet(listing: Listing, timestamp: int) -> bytes:
    """A listing as a common stock of the simulated market, of whose rules it has none but round lots."""
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
