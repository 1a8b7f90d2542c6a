"""Feeds for derived queries, cut into epochs at random, run with restarts and lost saves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from runtime.compiler.script import NamedSelect
from runtime.engine.operators import DerivedQuery, StreamInput
from runtime.state import MemoryStore, ObjectSpace

Row = tuple[Any, ...]
Feed = list[tuple[str, Row]]
"""Relation and row, in order of arrival; a row of a table ends with its weight."""

ENDED = 2**63 - 1
SYMBOLS = ["A", "B", "ß", None]

TRADES = StreamInput(
    pa.schema([("t", pa.int64()), ("k", pa.string()), ("price", pa.int64()), ("volume", pa.int64()),
               ("f", pa.float64()), ("l", pa.list_(pa.int64()))]), "t",
)  # fmt: skip
QUOTES = StreamInput(pa.schema([("t", pa.int64()), ("k", pa.string()), ("bid", pa.int64())]), "t")
TABLE = StreamInput(pa.schema([("k", pa.string()), ("n", pa.int64()), ("name", pa.string())]), is_table=True)
INPUTS = {"trades": TRADES, "quotes": QUOTES, "names": TABLE}


def random_feed(random: Random, *, most: int = 60, disorder: int = 0) -> Feed:
    """Return trades and quotes, each in order of time except for rows that come up to ``disorder`` late."""
    feed: Feed = []
    now = 0
    for _ in range(random.randint(0, most)):
        now += random.choice([0, 0, 1, 1, 2, 5, 17])
        t = now - random.randint(0, disorder)
        k = random.choice(SYMBOLS)
        if random.random() < 0.5:
            row = (t, k, random.choice([None, 1, 2, 3, 2**62]), random.randint(1, 4),
                   random.choice([None, 0.1, 0.2, 1e16, -3.5]),
                   random.choice([None, [], [1], [2, None, 3]]))  # fmt: skip
            feed.append(("trades", row))
        else:
            feed.append(("quotes", (t, k, random.choice([None, 5, 6, 7]))))
    return feed


def epochs_of(random: Random, feed: Feed) -> list[Feed]:
    """Return the feed cut at random."""
    epochs, start = [], 0
    while start < len(feed):
        length = random.choice([0, 1, 2, 5, 20])
        epochs.append(feed[start : start + length])
        start += length
    return epochs


def batch_of(relation: str, rows: Sequence[Row], inputs: Mapping[str, StreamInput] = INPUTS) -> pa.RecordBatch:
    """Return rows of a relation as a batch."""
    schema = inputs[relation].schema
    if inputs[relation].is_table:
        schema = schema.append(pa.field("weight", pa.int64()))
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Return the rows in their order, with wide integers as Python's."""
    return [tuple(_plain(value) for value in row.values()) for batch in batches for row in batch.to_pylist()]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def close(query: DerivedQuery, watermarks: Mapping[str, int]) -> list[Row]:
    """Close an epoch and return its rows; an input whose watermark is `ENDED` has ended."""
    ended = [relation for relation, mark in watermarks.items() if mark == ENDED]
    return rows_of(query.close({name: mark for name, mark in watermarks.items() if mark != ENDED}, ended))


class Laboratory:
    """Derived query over a store that can lose commits, and its committed output."""

    def __init__(
        self, sql: str, random: Random, *, lateness: int = 0, inputs: Mapping[str, StreamInput] = INPUTS
    ) -> None:
        self._sql, self._random, self._lateness, self._inputs = sql, random, lateness, inputs
        self._store = MemoryStore()
        self._open()
        self.rows: list[Row] = []
        """Output rows up to the last commit."""
        self.marks: list[tuple[int, int]] = []
        """Number of rows so far, and the watermark, after each epoch."""

    def _open(self) -> None:
        self._space = ObjectSpace(self._store)
        select = NamedSelect("q", self._sql)
        self.query = DerivedQuery(select, self._inputs, self._space, "q", self._lateness)

    def run(self, epochs: Sequence[Feed], watermarks: Sequence[Mapping[str, int]]) -> list[Row]:
        """Run the epochs, with restarts between them and repetitions; return all rows."""
        for number, (epoch, watermark) in enumerate(zip(epochs, watermarks, strict=True)):
            if self._random.random() < 0.3:
                self._close(epoch, watermark)  # the process ends before the commit
                self._open()
            rows = self._close(epoch, watermark)
            fate = self._random.choice(["commit", "commit", "restart", "failed"])
            if fate == "failed":  # the outcome of a commit is unknown, and the next one contains it all
                self._space.save()
                self._space.on_failed()
            self._space.commit(full=self._random.random() < 0.1)
            if fate == "restart" or number == len(epochs) - 1:
                self._open()
            self.rows += rows
            self.marks.append((len(self.rows), self.query.watermark()))
        return self.rows

    def _close(self, epoch: Feed, watermarks: Mapping[str, int]) -> list[Row]:
        """Run one epoch, with its rows cut at random into batches of one relation."""
        waiting: list[Row] = []
        for place, (relation, row) in enumerate(epoch):
            waiting.append(row)
            is_last = place + 1 == len(epoch) or epoch[place + 1][0] != relation
            if is_last or self._random.random() < 0.3:
                if relation in self.query.reads:
                    self.query.add(relation, batch_of(relation, waiting, self._inputs))
                waiting = []
        return close(self.query, watermarks)


def in_order_marks(epochs: Sequence[Feed]) -> list[dict[str, int]]:
    """Return the watermarks of one feed after each epoch: the latest time of the rows of any stream so far."""
    marks, now = [], -(2**62)
    for epoch in epochs:
        now = max([now, *(row[0] for relation, row in epoch if relation != "names")])
        marks.append({"trades": now, "quotes": now})
    return marks


def run_lab(sql: str, feed: Feed, random: Random, *, lateness: int = 0) -> Laboratory:
    """Run the feed, cut at random, with a further epoch in which both streams have ended."""
    epochs = [*epochs_of(random, feed), []]
    laboratory = Laboratory(sql, random, lateness=lateness)
    laboratory.run(epochs, [*in_order_marks(epochs[:-1]), {"trades": ENDED, "quotes": ENDED}])
    return laboratory


def stream_of(feed: Feed, relation: str) -> list[Row]:
    """Return the rows of a relation in order of time, then arrival."""
    return sorted((row for name, row in feed if name == relation), key=lambda row: row[0])
