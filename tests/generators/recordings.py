"""One market day in the four formats of recorded files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from deltabook.wire.itch import encode_message, frame
from exchange_server.replay import Loader, open_recording
from exchange_server.replay.bitstamp import HEADER

__all__ = ["FORMATS", "Event", "write_recording"]

_DAY: Final = "2012-06-21"


class Event(msgspec.Struct, frozen=True):
    """Event of a recording: seconds after midnight, lots, and a price in ticks of 0.0001 (of 0.01 for Bitstamp)."""

    at_s: int
    action: str
    """Kind of the event: B or S (an order to buy or to sell was added), E (executed) or D (deleted)."""
    order_id: int
    volume: int = 0
    """Number of added or executed lots; for D the remaining lots."""
    price: int = 0
    """Price of the order."""
    left: int = 0
    """Remaining lots after E."""
    side: str = "B"
    """Side of the order."""


def _dbtoaster(events: list[Event]) -> bytes:
    return "".join(f"{e.at_s * 1000},{e.order_id},{e.action},{e.volume},{e.price}\n" for e in events).encode()


def _lobster(events: list[Event]) -> bytes:
    kinds = {"B": 1, "S": 1, "E": 4, "D": 3}
    return "".join(
        f"{e.at_s}.000000000,{kinds[e.action]},{e.order_id},{e.volume},{e.price},{1 if e.side == 'B' else -1}\n"
        for e in events
    ).encode()


def _bitstamp(events: list[Event]) -> bytes:
    lines = [HEADER]
    for e in events:
        action = {"B": "created", "S": "created", "E": "changed" if e.left else "deleted", "D": "deleted"}[e.action]
        lots = e.left if e.action == "E" else e.volume
        price, volume = f"{e.price // 100}.{e.price % 100:02}", f"{lots // 10**8}.{lots % 10**8:08}"
        way = "bid" if e.side == "B" else "ask"
        lines.append(f"{e.order_id},{e.at_s * 1000},{e.at_s * 1000 - 7},{price},{volume},{action},{way}")
    return ("\n".join(lines) + "\n").encode()


def _itch(events: list[Event]) -> bytes:
    messages = []
    for e in events:
        common = {"stock_locate": 3, "timestamp": e.at_s * 10**9, "order_reference_number": e.order_id}
        if e.action in "BS":
            messages.append(
                encode_message("A", **common, buy_sell_indicator=e.action, shares=e.volume, stock="PAST", price=e.price)
            )
        elif e.action == "E":
            messages.append(encode_message("E", **common, executed_shares=e.volume, match_number=1))
        else:
            messages.append(encode_message("D", **common))
    return b"".join(map(frame, messages))


FORMATS: Final[Mapping[str, Callable[[list[Event]], bytes]]] = {
    "dbtoaster": _dbtoaster,
    "lobster": _lobster,
    "bitstamp": _bitstamp,
    "itch": _itch,
}
"""Writers by format."""


def write_recording(form: str, path: Path, events: list[Event]) -> Loader:
    """Write a file, and return its loader for the symbol PAST."""
    file = path / f"recording.{form}"
    file.write_bytes(FORMATS[form](events))
    return open_recording(form, file, ["PAST"], day=_DAY if form in {"lobster", "itch"} else "")  # type: ignore[arg-type]
