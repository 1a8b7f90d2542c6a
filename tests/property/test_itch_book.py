"""The books and trades that follow from a day of ITCH are those of an independent book builder."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from itch_book._core import Session

from deltabook.wire.itch import decode_message, frame
from runtime.formats import InOrder, InputFormatter, RawBuffer
from runtime.relations import ItchAdaptor, Prepared, Retention
from runtime.state import MemoryStore, ObjectSpace
from tests.generators.itch_day import make_day
from tests.harness.examples import examples

Touch = tuple[int, int, int]


class Market:
    """Relations by the adaptor, a row as the tuple of its values."""

    def __init__(self) -> None:
        self.adaptor = ItchAdaptor(ObjectSpace(MemoryStore()), "feed", Retention(), gives_touches=True)
        self.touches: list[tuple[Any, ...]] = []
        self.rows: dict[str, Counter[Any]] = {"bids": Counter(), "asks": Counter(), "trades": Counter()}
        self._formatter = InputFormatter(self.adaptor.schema, self.adaptor.pushdown)
        self._order = InOrder(16)
        self._buffers = self._bytes = 0

    def feed(self, data: bytes) -> None:
        self._buffers += 1
        raw = RawBuffer(1, self._buffers, data, self._bytes)
        self._bytes += len(data)
        for batch in self._order.add(self._formatter.format([raw]).batches):
            rows = self.adaptor.received(batch)
            prepared = Prepared(rows, np.zeros(rows.num_rows, np.int64), np.ones(rows.num_rows, np.bool_))
            for name, deltas in self.adaptor.apply(prepared).items():
                if name == "touches":
                    self.touches += [tuple(row.values())[:-1] for row in deltas.to_pylist()]
                    continue
                for row in deltas.to_pylist():
                    weight = row.pop("weight")
                    self.rows[name][tuple(row.items())] += weight

    def live(self, name: str) -> list[dict[str, Any]]:
        assert min(self.rows[name].values(), default=0) >= 0
        return [dict(row) for row, count in self.rows[name].items() for _ in range(count)]

    def touch(self, name: str, symbol: str) -> Touch:
        """Price, shares and orders of the best level; all 0 without one."""
        rows = [row for row in self.live(name) if row["symbol"] == symbol]
        if not rows:
            return (0, 0, 0)
        price = (max if name == "bids" else min)(row["price"] for row in rows)
        best = [row["volume"] for row in rows if row["price"] == price]
        return price, sum(best), len(best)


@pytest.mark.parametrize("seed", range(3))
def test_touch_and_trades_are_those_of_the_book_builder(seed: int) -> None:
    check(seed, 900, 60)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(10, 400), st.integers(1, 100))
def test_on_any_day_in_any_steps(seed: int, messages: int, step: int) -> None:
    check(seed, messages, step)


def check(seed: int, count: int, step: int) -> None:
    messages = make_day(seed, count).messages
    market, session = Market(), Session(tables=["bbo", "trades"], depth=0, symbols=[])
    touches: dict[int, tuple[Touch, Touch]] = {}
    rows: list[tuple[Any, ...]] = []
    names: dict[int, str] = {}
    matches: set[tuple[int, int, int]] = set()
    for start in range(0, len(messages), step):
        data = b"".join(map(frame, messages[start : start + step]))
        market.feed(data)
        session.feed(data)
        names |= {row[0]: row[1] for row in session.take_symbols()}
        matches |= take(session, touches, names, rows)
        assert market.touches == rows
        for locate, symbol in names.items():
            assert (market.touch("bids", symbol), market.touch("asks", symbol)) == touches.get(
                locate, ((0, 0, 0), (0, 0, 0))
            )
    assert {(row["match_id"], row["price"], row["volume"]) for row in market.live("trades")} == {
        match for match in matches if is_printable(messages[match[0] - 1])
    }
    stats = session.stats()
    assert stats["live_orders"] == len(market.live("bids")) + len(market.live("asks"))
    assert stats["malformed"] == stats["missing_ref"] == stats["dup_ref"] == 0


def is_printable(message: bytes) -> bool:
    """Whether it reports a trade; parts of a cross, crosses without shares and broken trades do not."""
    letter = message[:1]
    if letter not in b"CQ":
        return letter in b"EP"
    fields = decode_message(message).fields
    return fields["printable"] == "Y" if letter == b"C" else fields["cross_shares"] != 0


def take(
    session: Session, touches: dict[int, tuple[Touch, Touch]], names: dict[int, str], rows: list[tuple[Any, ...]]
) -> set[tuple[int, int, int]]:
    """Put the newest touch of each stock in its place, and a row behind the others if its price or shares are others;
    gives what traded as message, price and shares."""
    best = {name: column.tolist() for name, column in session.take_bbo().items()}
    sides = [[best[f"{side}_{what}"] for what in ("px", "sz", "ct")] for side in ("bid", "ask")]
    for i, locate in enumerate(best["locate"]):
        bid, ask = ((price[i], shares[i], orders[i]) for price, shares, orders in sides)
        old_bid, old_ask = touches.get(locate, ((0, 0, 0), (0, 0, 0)))
        if (bid[:2], ask[:2]) != (old_bid[:2], old_ask[:2]):
            shown = [value if shares else None for price, shares, _ in (bid, ask) for value in (price, shares)]
            rows.append((best["ts"][i], names[locate], *shown))
        touches[locate] = (bid, ask)
    trades = session.take_trades()
    return set(zip(*(trades[name].tolist() for name in ("seq", "px", "size")), strict=True))
