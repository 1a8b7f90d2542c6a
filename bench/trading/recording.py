"""One recorded flow for every backtester: an exchange's published messages, in DBToaster's format."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Final

from bench.exchange.flow import CANCEL, make_flow
from deltabook.wire.symbols import Instrument
from exchange_server.matching import Cancel, Enter, Market, MarketRules, Now
from exchange_server.text.protocol import TextEncoder

__all__ = ["SYMBOL", "write_recording"]

SYMBOL: Final = "ACME"
_LIVE: Final = 2_000
_REQUESTS_PER_MS: Final = 10
_FIRST_MS: Final = 36_000_000
"""Ten in the morning, in milliseconds since midnight."""


def write_recording(path: Path, requests: int, seed: int = 1) -> int:
    """Write ``t,id,action,volume,price`` (B S add, E executed in part, F in full, D deleted) and return the number of
    messages.

    About half of the requests add an order, four tenths cancel one, and a tenth execute. About 2,000 orders are live,
    and each millisecond has ten requests.
    """
    now, rules = Now(), MarketRules((Instrument(SYMBOL),))
    encoder = TextEncoder(rules, now)
    market = Market(rules, [encoder], (), now)
    filling, flow, _ = make_flow(requests, _LIVE, seed)
    ids: dict[int, int] = {}
    messages = 0
    with path.open("w", encoding="ascii") as file:
        for number, (kind, order_id, side, price, volume) in enumerate(chain(filling, flow)):
            time_ms = _FIRST_MS + number // _REQUESTS_PER_MS
            if kind == CANCEL:
                market.apply(Cancel(number, 0, 0, 0, ids.get(order_id, 0), SYMBOL))
            else:
                ids[order_id] = market.next_order_id
                market.apply(Enter(number, 0, 0, 0, SYMBOL, "S" if side else "B", volume, price))
            lines, count = encoder.take()
            messages += count
            for line in lines.decode("ascii").splitlines():
                _, _, entered, _, action, lots, ticks, _ = line.split(",")
                file.write(f"{time_ms},{entered},{action},{lots},{ticks}\n")
    return messages
