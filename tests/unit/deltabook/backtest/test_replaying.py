"""Epochs of a recording: their changes add up to the full results, which are what DuckDB says of the same rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from deltabook.backtest import BacktestError, ConfigurationError, DataFile, EpochPassedError
from deltabook.backtest.replaying import Epoch, Replay
from queries import QUERIES_DIR

TRACE = DataFile(QUERIES_DIR / "trace-5000.csv", symbol="ACME")
BOOK = "SELECT t, id, broker_id, volume, price, symbol FROM bids"
LEVELS = (
    "SELECT symbol, price, SUM(volume) AS lots, COUNT(*) AS orders, AVG(t) AS mean_t FROM bids GROUP BY symbol, price"
)
LEAST = "SELECT SQRT(MIN(volume)) AS root FROM bids"
"""Of a function that only DuckDB knows: it is computed anew for each epoch."""


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*[column.to_pylist() for column in table.columns], strict=True))


def test_changes_add_up_to_results_and_results_to_duckdb() -> None:
    replay = Replay([TRACE], {"book": BOOK, "Levels": LEVELS, "least": LEAST}, epoch_ms=500, limit_records=2000)
    kept: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in ("book", "levels", "least")}
    count = records = 0
    for epoch in replay:
        count, records = count + 1, records + epoch.records
        assert epoch.number == count
        for name, delta in epoch.items():
            kept[name].update(rows(delta.added))
            kept[name].subtract(rows(delta.removed))
            assert min(kept[name].values(), default=0) >= 0
            assert +kept[name] == rows(delta.result())
        bids = epoch["book"].result()
        assert rows(epoch["Levels"].result()) == asked(bids, LEVELS)
        assert rows(epoch["least"].result()) == asked(bids, LEAST)
    assert (records, count > 5) == (2000, True)
    assert list(replay.slow_views) == ["least"]


def asked(bids: pa.Table, sql: str) -> Counter[tuple[Any, ...]]:
    """What DuckDB answers; the table goes by the name of the argument."""
    assert bids.num_rows
    return Counter(duckdb.connect().sql(sql).fetchall())


def test_epochs_are_spans_of_market_time() -> None:
    """They begin at multiples of their length, so ten short ones are a long one."""
    short = list(Replay([TRACE], {"book": BOOK}, epoch_ms=100, limit_records=1500))
    long = list(Replay([TRACE], {"book": BOOK}, epoch_ms=1000, limit_records=1500))
    assert [epoch.time_ns // 10**9 for epoch in long] == sorted({epoch.time_ns // 10**9 for epoch in short})
    assert sum(epoch.records for epoch in short) == sum(epoch.records for epoch in long) == 1500
    total = Counter[tuple[Any, ...]]()
    for epoch in long:
        total.update(rows(epoch["book"].added))
        total.subtract(rows(epoch["book"].removed))
    for epoch in short:
        total.subtract(rows(epoch["book"].added))
        total.update(rows(epoch["book"].removed))
    assert not any(total.values())


def test_now_is_the_time_of_the_epoch() -> None:
    view = "SELECT COUNT(*) AS orders, now() AS moment FROM bids"
    for epoch in Replay([TRACE], {"recent": view}, epoch_ms=1000, limit_records=1500):
        ((_, moment_ns),) = rows(epoch["recent"].result())
        # To the second, as the last records of an epoch may have changed nothing.
        assert moment_ns // 10**9 == epoch.time_ns // 10**9


def test_each_iteration_begins_anew() -> None:
    replay = Replay([TRACE], ["best_quote"], limit_records=800)
    first, second = ([(e.number, e.records, e["best_quote"].added.to_pylist()) for e in replay] for _ in range(2))
    assert first == second
    assert first


def test_a_result_is_only_there_in_its_epoch() -> None:
    epochs = iter(Replay([TRACE], ["best_quote"], epoch_ms=1000))
    first = next(epochs)
    kept = first["best_quote"].added
    assert first["best_quote"].result().num_rows == 1
    next(epochs)
    with pytest.raises(EpochPassedError, match="of best_quote to be requested in its epoch 1, was 2"):
        first["best_quote"].result()
    assert first["best_quote"].added is kept


def test_an_epoch_is_a_mapping_of_all_views() -> None:
    epoch: Epoch = next(iter(Replay([TRACE], {"book": BOOK, "none": "SELECT symbol FROM trades WHERE volume < 0"})))
    assert list(epoch) == ["book", "none"]
    assert list(epoch.changes) == ["book"]
    assert not epoch["none"]
    assert epoch["none"].added.column_names == ["symbol"]
    assert repr(epoch) == f"<Epoch 1: {epoch.records} records, changed book>"
    assert repr(epoch["none"]) == "<ViewDelta of none: 0 rows added, 0 removed>"
    with pytest.raises(KeyError, match="expected one of the views book, none, was tape"):
        epoch["tape"]


def test_views_may_read_views_that_ship() -> None:
    replay = Replay([TRACE], {"spread": "SELECT symbol, ask_price - bid_price AS spread FROM best_quote"})
    assert next(list(epoch) for epoch in replay) == ["spread"]
    *_, last = replay
    assert last["spread"].result().column_names == ["symbol", "spread"]


@pytest.mark.parametrize(
    ("views", "words"),
    [
        ({}, "expected views by name"),
        ("best_quote", "expected views by name"),
        (["nothing"], "expected one of the views"),
        (["bars_1s"], "was the derived stream bars_1s"),
        ({"a": "SELECT nope FROM bids"}, "a:1:8: unknown column 'nope'"),
        ({"a": "SELECT FROM"}, "a:1:8: expected a table name"),
        ({"a": "SELECT price FROM bid"}, "a:1:19: "),
        ({"a": 3}, "expected the SQL of the view a, was 3"),
        ({"bids": "SELECT price FROM asks"}, "expected a new name for the view, was 'bids'"),
    ],
)
def test_unsupported_views_are_refused_before_the_replay(views: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        Replay([TRACE], views)
    assert words in str(error.value)


def test_a_file_that_is_damaged_ends_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "day.csv.gz"
    path.write_bytes(b"\x1f\x8b\x08 and no more")
    with pytest.raises(BacktestError):
        list(Replay([DataFile(path, "dbtoaster")], ["best_quote"]))


def test_an_epoch_has_a_length() -> None:
    with pytest.raises(ConfigurationError, match="expected an epoch of 1 ms or more, was 0"):
        Replay([TRACE], ["best_quote"], epoch_ms=0)
