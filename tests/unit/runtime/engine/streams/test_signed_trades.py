"""The shipped stream of signed trades: by the quote before a trade, at its mid by the last change of the price."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa

from queries import query_path
from runtime.compiler import TOUCHES, TRADES, Relation
from runtime.engine.ingest import EpochWriter
from runtime.engine.streams import DerivedStreams
from runtime.plan import encode_program
from runtime.state import ARROW_TYPES
from tests.generators.streams_lab import program_of


def rows_of(relation: Relation, **columns: list[object]) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(c.name, [None] * count), ARROW_TYPES[c.type]) for c in relation.columns]
    weight = pa.array([1] * count, pa.int64())
    return pa.RecordBatch.from_arrays([*arrays, weight], names=[*(c.name for c in relation.columns), "weight"])


def test_trades_are_signed_by_quote_and_at_the_mid_by_tick(tmp_path: Path) -> None:
    """Bid 98 and offer 102 until the offer goes at t = 60: the mid is 100."""
    program = program_of(f"INCLUDE '{query_path('signed_trades')}';")
    trades = [
        (10, "A", 100, None),  # no price before it
        (20, "A", 101, "B"),  # above the mid
        (21, "B", 7, None),  # another symbol, without quotes
        (30, "A", 100, "S"),  # at the mid, below the price before it
        (40, "A", 100, "S"),  # at the mid, unchanged: the last change was down
        (45, "A", 99, "S"),  # below the mid
        (50, "A", 100, "B"),  # at the mid, above the price before it
        (51, "B", 8, "B"),  # without quotes, up
        (70, "A", 100, "B"),  # without an offer: the last change was up
    ]
    with closing(EpochWriter(tmp_path, lambda: 0, lambda footer: None)) as writer:
        writer.seal({}, control=encode_program(program))
        streams = DerivedStreams(writer.space, writer.log, program)
        t, symbol, price, _ = (list(column) for column in zip(*trades, strict=True))
        given = rows_of(TRADES, t=t, match_id=list(range(9)), symbol=symbol, price=price, volume=[1] * 9)
        touches = rows_of(TOUCHES, t=[1, 60], symbol=["A", "A"], bid_price=[98, 98], ask_price=[102, None])
        streams.take({"touches": touches, "trades": given})
        signed = streams.close({"touches": 1000, "trades": 1000}).relations["signed_trades"]
    assert signed.column("side").to_pylist() == [side for *_, side in trades]
