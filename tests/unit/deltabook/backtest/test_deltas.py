"""Deltas made by the market are those that the adaptor makes of the market's text feed."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from deltabook.backtest.deltas import Delta, DeltaEncoder
from deltabook.wire.symbols import Instrument
from exchange_server.matching import AnyInput, Cancel, Enter, Market, MarketRules, Now, Phase, Recorded, Reduce, Replace
from exchange_server.matching import order as flags
from exchange_server.text import TextEncoder
from runtime.formats import InputFormatter, RawBuffer
from runtime.relations import FEED_SCHEMA, FeedAdaptor, Retention
from runtime.state import MemoryStore, ObjectSpace

RULES = MarketRules((Instrument("ACME"), Instrument("GLOBEX")), outlier_factor=10)


def inputs(seed: int, count: int) -> list[AnyInput]:
    """Orders of all kinds of two symbols, an auction among them."""
    rng = random.Random(seed)
    found: list[AnyInput] = []
    for n in range(1, count + 1):
        symbol, side = rng.choice(["ACME", "GLOBEX"]), rng.choice("BS")
        volume, price = rng.randint(1, 40), rng.randint(95, 105)
        order_id, broker = rng.randint(max(1, n - 60), n), rng.randint(1, 3)
        kind = rng.random()
        if kind < 0.45:
            found.append(Enter(n, 0, broker, 0, symbol, side, volume, price))
        elif kind < 0.55:
            found.append(Enter(n, 0, broker, 0, symbol, side, volume, price, flags.ICEBERG, display=min(5, volume)))
        elif kind < 0.6:
            found.append(Enter(n, 0, broker, 0, symbol, side, volume, price, flags.HIDDEN))
        elif kind < 0.7:
            found.append(Reduce(n, 0, broker, 0, order_id, volume, symbol))
        elif kind < 0.8:
            found.append(Cancel(n, 0, broker, 0, order_id, symbol))
        elif kind < 0.88:
            found.append(Replace(n, 0, broker, 0, order_id, volume, price, symbol))
        elif kind < 0.97:
            found.append(Recorded(n, n, n % 50, broker, rng.choice("BSBSEFDX"), volume, price, symbol))
        else:
            phase = rng.choice(["auction-halt", "continuous", "continuous"])
            found.append(Phase(n, symbol, phase))  # type: ignore[arg-type]
    return found


class Adaptor:
    """The text feed through formatter and adaptor."""

    def __init__(self, retention: Retention) -> None:
        self._formatter = InputFormatter(FEED_SCHEMA)
        self._adaptor = FeedAdaptor(ObjectSpace(MemoryStore()), "feed", retention)
        self._buffers = self._bytes = 0

    def deltas(self, data: bytes) -> Counter[tuple[str, tuple[Any, ...]]]:
        found: Counter[tuple[str, tuple[Any, ...]]] = Counter()
        self._buffers += 1
        for batch in self._formatter.format([RawBuffer(1, self._buffers, data, self._bytes)]).batches:
            for relation, rows in self._adaptor.apply(self._adaptor.prepare(batch.rows, batch.row_ends)).items():
                self._add(found, relation, rows)
        self._bytes += len(data)
        return found

    @staticmethod
    def _add(found: Counter[tuple[str, tuple[Any, ...]]], relation: str, rows: pa.RecordBatch) -> None:
        for *cells, weight in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            found[relation, tuple(cells)] += weight


def added_up(deltas: list[Delta]) -> Counter[tuple[str, tuple[Any, ...]]]:
    found: Counter[tuple[str, tuple[Any, ...]]] = Counter()
    for relation, row, weight in deltas:
        found[relation, row] += weight
    return Counter({key: number for key, number in found.items() if number})


@pytest.mark.parametrize("seed", range(2))
def test_each_input_gives_the_deltas_that_the_adaptor_gives(seed: int) -> None:
    now = Now()
    text, encoder = TextEncoder(RULES, now), DeltaEncoder(RULES, now, Retention(10**6, 10**12))
    market, adaptor = Market(RULES, (text, encoder), (), now), Adaptor(Retention(10**6, 10**12))
    kinds: Counter[str] = Counter()
    for item in inputs(seed, 1_500):
        market.apply(item)
        data, _ = text.take()
        mine = added_up(encoder.deltas)
        kinds.update(relation for relation, _ in mine)
        encoder.deltas.clear()
        theirs = adaptor.deltas(data) if data else Counter()
        assert mine == Counter({key: number for key, number in theirs.items() if number}), item
    assert encoder.messages == text.next_sequence - 1
    assert min(kinds[name] for name in ("bids", "asks", "trades")) > 50
    assert added_up(encoder.rows()).keys() >= {("bids", row) for relation, row in mine if relation == "bids"}


def test_trades_leave_by_age_and_by_count() -> None:
    now = Now()
    encoder = DeltaEncoder(RULES, now, Retention(rows=2, time_ns=100))
    for time_ns in (1, 2, 3, 200):
        now.time_ns = time_ns
        encoder.printed(1, 0, 5, 100, 1)
    times = [(row[0], weight) for _, row, weight in encoder.deltas]
    assert times == [(1, 1), (2, 1), (3, 1), (1, -1), (200, 1), (2, -1), (3, -1)]
    assert [row[0] for _, row, _ in encoder.rows()] == [200]
