"""What derived streams keep: tables of new streams, failures, state of the space, and what is refused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from twisted.logger import Logger

from runtime.compiler import NamedSelect, SqlError
from runtime.engine.ingest import EpochWriter
from runtime.engine.operators.plans.derived import DerivedQuery
from runtime.engine.streams import DerivedStreams, explain_stream
from runtime.engine.streams.declaring import query_inputs
from runtime.plan import (
    Column,
    DerivedInput,
    Program,
    Relation,
    decode_program,
    encode_program,
    lane_program,
    readers_of_stream,
    without_stream,
)
from runtime.state import PersistedDictionary, PersistedValue, Schema
from tests.generators.streams_lab import MARKET_INPUTS, program_of

NAMES = Relation("names", (Column("id", "int64"), Column("name", "string")))
PRICED = Relation("priced", (Column("t", "int64"), Column("amount", "int64", scale=2)))
TRADES = program_of("CREATE STREAM s AS SELECT t, match_id FROM trades")
NOTHING = Program((), (), ())


def names(*rows: tuple[int, str, int]) -> pa.RecordBatch:
    ids, texts, weights = zip(*rows, strict=True)
    return pa.record_batch({"id": list(ids), "name": list(texts), "weight": pa.array(weights, pa.int64())})


def trades(*rows: tuple[int, int]) -> pa.RecordBatch:
    columns = {column.name: [None] * len(rows) for column in MARKET_INPUTS[0].relation.columns}
    arrays: dict[str, Any] = {n: pa.array(v, pa.string() if n in ("symbol", "side") else pa.int64())
                              for n, v in columns.items()}  # fmt: skip
    arrays |= {"t": [row[0] for row in rows], "match_id": [row[1] for row in rows]}
    return pa.record_batch({**arrays, "weight": pa.array([1] * len(rows), pa.int64())})


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    made = EpochWriter(tmp_path, lambda: 0, lambda footer: None)
    yield made
    made.close()


def test_rows_that_no_stream_reads_are_not_joined(writer: EpochWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept for a stream that may come, and cost nothing else."""
    given: list[str] = []
    streams = DerivedStreams(writer.space, writer.log, TRADES)
    monkeypatch.setattr(streams, "_give", lambda name, rows: given.append(name))
    streams.take({"names": names((1, "a", 1)), "trades": trades((1, 1))})
    streams.take({"names": names((2, "b", 1)), "trades": trades((2, 2))})
    streams.close({})
    assert given == ["trades"]
    assert [rows.num_rows for rows in streams._open_deltas["names"]] == [1, 1]


def test_a_new_stream_has_the_rows_of_its_tables(writer: EpochWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the log and those of the epoch that is open, with their weights; from then on it is given changes."""
    taken: list[tuple[str, list[Any]]] = []
    monkeypatch.setattr(DerivedQuery, "add", lambda self, name, rows: taken.append((name, rows.to_pylist())))
    writer.seal({}, control=encode_program(NOTHING))
    for row in ((1, "a", 1), (2, "b", 1), (1, "a", -1)):
        writer.add({"names": names(row)}, 1)
        writer.seal({})
    streams = DerivedStreams(writer.space, writer.log, NOTHING)
    streams.take({"names": names((3, "c", 1))})
    stream = msgspec.structs.replace(TRADES.streams[0], inputs=(MARKET_INPUTS[0], DerivedInput(NAMES)))
    streams.change_over(msgspec.structs.replace(TRADES, streams=(stream,)), writer.epoch + 1)
    streams.end_epoch()
    assert [(name, row["id"], row["weight"]) for name, rows in taken for row in rows] == [
        ("names", 2, 1),
        ("names", 3, 1),
    ]
    assert set(streams.reads) == {"trades", "names"}
    assert dict(streams.times) == {"trades": "t"}
    streams.take({"names": names((2, "b", -1))})
    streams.close({})
    assert taken[-1] == ("names", [{"id": 2, "name": "b", "weight": -1}])


def test_a_watermark_never_goes_back(writer: EpochWriter) -> None:
    """What a restart knows of it is what was committed, however slow the origins are after it."""
    writer.seal({}, control=encode_program(TRADES))
    streams = DerivedStreams(writer.space, writer.log, TRADES)
    streams.take({"trades": trades((5, 1), (20, 2))})
    assert streams.close({"trades": 10}).relations["s"].num_rows == 1
    writer.seal({})
    assert streams.figures["s"].watermark == 10
    streams.take({"trades": trades((7, 3))})
    closed = streams.close({"trades": 3})
    assert (closed.late, [letter.reason for letter in closed.letters]) == (1, ["late for stream s"])
    assert streams.figures["s"].watermark == 10


MOMENTS = Relation("moments", (Column("t", "timestamp"), Column("day", "date"), Column("f", "float64")))
FAR_US = 253_402_300_800_000_000
"""The year 10000, which Python's datetime does not have."""


def test_late_rows_of_any_time_are_described(writer: EpochWriter) -> None:
    """A row that no Python datetime can hold is written like every other one."""
    program = program_of("CREATE STREAM s AS SELECT t, f FROM moments", [DerivedInput(MOMENTS, "t")])
    writer.seal({}, control=encode_program(program))
    streams = DerivedStreams(writer.space, writer.log, program)
    streams.close({"moments": (FAR_US + 9) * 1000})
    columns = [pa.array([FAR_US], pa.timestamp("us")), pa.array([2_932_897], pa.date32()), pa.array([float("nan")])]
    streams.take({"moments": pa.record_batch([*columns, pa.array([1])], names=["t", "day", "f", "weight"])})
    closed = streams.close({})
    assert (closed.late, closed.failed) == (1, {})
    (letter,) = closed.letters
    assert letter.data == b'{"t":"10000-01-01 00:00:00.000000","day":"10000-01-01","f":null}'


def test_late_rows_that_cannot_be_described_fail_their_stream(
    writer: EpochWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed goes on, whatever is wrong with a row."""

    def broken(stream: str, late: object) -> None:
        raise OverflowError(f"{stream}: no such time")

    monkeypatch.setattr("runtime.engine.streams.streams.late_letters", broken)
    writer.seal({}, control=encode_program(TRADES))
    streams = DerivedStreams(writer.space, writer.log, TRADES)
    streams.close({"trades": 10})
    streams.take({"trades": trades((5, 1), (10, 2))})
    closed = streams.close({"trades": 10})
    assert (closed.relations, closed.failed) == ({}, {"s": "OverflowError: s: no such time"})


CHAIN = program_of(
    "CREATE STREAM firsts AS SELECT DISTINCT t, match_id FROM trades;"
    "CREATE STREAM counts AS SELECT window_end AS t, COUNT(*) AS n FROM firsts "
    "GROUP BY TUMBLE(t, INTERVAL '10' NANOSECOND)"
)


def test_rows_behind_the_end_of_a_relation_are_in_time(tmp_path: Path) -> None:
    """A file to which rows are appended is read on by the next start, in streams that read streams too."""
    with opened(tmp_path) as writer:
        writer.seal({}, control=encode_program(CHAIN))
        streams = DerivedStreams(writer.space, writer.log, CHAIN)
        streams.take({"trades": trades((5, 1), (12, 2))})
        closed = streams.close({"trades": 12}, {"trades"}).relations
        assert closed["counts"].column("t").to_pylist() == [10, 20], "an end completes what is open"
        assert streams.figures["counts"].watermark == 2**63 - 1
        writer.seal({})
    with opened(tmp_path) as writer:
        streams = DerivedStreams(writer.space, writer.log, CHAIN)
        streams.take({"trades": trades((11, 3), (12, 2), (14, 4), (25, 5))})
        closed = streams.close({"trades": 25}).relations
        assert streams.figures["firsts"].late == 1, "11 is behind 12"
        assert closed["firsts"].column("match_id").to_pylist() == [4, 5], "a row of before the end is known"
        assert closed["counts"].select([0, 1]).to_pylist() == [{"t": 20, "n": 1}], "the rest of a window that has ended"
        writer.seal({})
        again = streams.close({}, {"trades"}).relations
        assert again["counts"].column("t").to_pylist() == [30]
        assert "counts" not in streams.close({}, {"trades"}).relations


def test_a_relation_that_no_stream_reads_has_no_watermark(writer: EpochWriter) -> None:
    """A stream that is created later begins with the rows that come then."""
    writer.seal({}, control=encode_program(TRADES))
    streams = DerivedStreams(writer.space, writer.log, TRADES)
    streams.close({"trades": 10})
    streams.change_over(without_stream(TRADES, "s"), 1)
    streams.end_epoch()
    streams.change_over(TRADES, 2)
    streams.take({"trades": trades((5, 1))})
    closed = streams.close({"trades": 5})
    assert (closed.relations["s"].num_rows, closed.late) == (1, 0)


def test_rows_that_are_deleted_are_no_input(writer: EpochWriter) -> None:
    """That trades leave the relation is no event."""
    writer.seal({}, control=encode_program(TRADES))
    streams = DerivedStreams(writer.space, writer.log, TRADES)
    left = trades((1, 1), (2, 2))
    gone = left.set_column(left.schema.get_field_index("weight"), "weight", pa.array([-1, 1], pa.int64()))
    streams.take({"trades": gone})
    (rows,) = streams.close({"trades": 100}).relations.values()
    assert rows.column("match_id").to_pylist() == [2]


def test_a_stream_reads_and_gives_scaled_integers(writer: EpochWriter) -> None:
    """As the decimals that they stand for: comparisons and sums bring them to one scale."""
    text = """CREATE STREAM x AS SELECT t, amount, amount * 2 + 0.125 AS more, amount > 1.5 AS is_large FROM priced;
    CREATE STREAM y AS SELECT window_end AS t, SUM(amount) AS total, MIN(more) AS least, AVG(amount) AS mean
    FROM x GROUP BY TUMBLE(t, INTERVAL '10' NANOSECOND)"""
    program = program_of(text, [DerivedInput(PRICED, "t")])
    x, y = program.streams
    assert [(column.type, column.scale) for column in x.columns[1:3]] == [("int128", 2), ("int128", 3)]
    assert [(column.type, column.scale) for column in y.columns[1:]] == [("int128", 2), ("int128", 3), ("float64", 0)]
    writer.seal({}, control=encode_program(program))
    streams = DerivedStreams(writer.space, writer.log, program)
    rows = {"t": [1, 2, 3], "amount": pa.array([150, 275, None], pa.int64()), "weight": pa.array([1, 1, 1], pa.int64())}
    streams.take({"priced": pa.record_batch(rows)})
    closed = streams.close({"priced": 100}).relations
    assert [tuple(row.values())[:4] for row in closed["x"].to_pylist()] == [
        (1, 150, 3125, False),
        (2, 275, 5625, True),
        (3, None, None, None),
    ]
    assert [tuple(row.values())[:4] for row in closed["y"].to_pylist()] == [(10, 425, 3125, 2.125)]


BARS = program_of(
    "CREATE STREAM bars AS SELECT window_end AS t, MAX(price) AS high FROM trades GROUP BY "
    "TUMBLE(t, INTERVAL '10' NANOSECOND)"
)
PREFIX = "stream/bars/query"
PLAN = f"{PREFIX}/plan"


def opened(directory: Path) -> closing[EpochWriter]:
    return closing(EpochWriter(directory, lambda: 0, lambda footer: None))


def test_state_of_another_plan_is_never_read(tmp_path: Path) -> None:
    """Names of states are numbers of operators, which another release may give to others."""
    with opened(tmp_path) as writer:
        writer.seal({}, control=encode_program(BARS))
        streams = DerivedStreams(writer.space, writer.log, BARS)
        streams.take({"trades": trades((5, 1), (15, 2))})
        assert streams.close({"trades": 12}).relations["bars"].num_rows == 1
        kept: PersistedValue[list[str]] = writer.space.get(PersistedValue, PLAN, Schema(list[str]))
        assert any("streaming aggregation" in line and "high int64" in line for line in kept.value)
        kept.value = [line.replace("high int64", "high float64") for line in kept.value]
        writer.seal({})
    with opened(tmp_path) as writer:
        again = DerivedStreams(writer.space, writer.log, BARS)
        assert again.rows()["bars"].num_rows == 1, "its rows stay"
        (reason,) = again.failed().values()
        assert "drop the stream and create it again" in reason
        assert "high float64" in reason
        closed = again.close({"trades": 100})
        assert (closed.relations, closed.failed) == ({}, {"bars": reason})
        writer.seal({})
    with opened(tmp_path) as writer:
        assert not [name for name in writer.space if name.startswith("stream/bars/query/")]
        assert DerivedStreams(writer.space, writer.log, BARS).failed() == {"bars": reason}


def test_state_that_says_nothing_of_its_plan_is_taken(tmp_path: Path) -> None:
    """It is of a release that did not keep it."""
    with opened(tmp_path) as writer:
        writer.seal({}, control=encode_program(BARS))
        streams = DerivedStreams(writer.space, writer.log, BARS)
        streams.take({"trades": trades((5, 1))})
        streams.close({"trades": 7})
        writer.space.delete(PLAN)
        writer.seal({})
    with opened(tmp_path) as writer:
        again = DerivedStreams(writer.space, writer.log, BARS)
        assert again.close({"trades": 100}).relations["bars"].column("t").to_pylist() == [10]
        assert PLAN in writer.space


def test_a_select_that_a_release_refuses_fails_alone(tmp_path: Path) -> None:
    """The runtime starts, the other streams go on, and the rows stay until the stream is dropped."""
    both = program_of("CREATE STREAM s AS SELECT t, match_id FROM trades", before=BARS)
    with opened(tmp_path) as writer:
        writer.seal({}, control=encode_program(both))
        streams = DerivedStreams(writer.space, writer.log, both)
        streams.take({"trades": trades((5, 1), (15, 2))})
        assert streams.close({"trades": 12}).relations["bars"].num_rows == 1
        writer.seal({})
    refused = msgspec.structs.replace(both.streams[0], sql="SELECT t, nothing AS high FROM trades")
    later = msgspec.structs.replace(both, streams=(refused, both.streams[1]))
    with opened(tmp_path) as writer:
        again = DerivedStreams(writer.space, writer.log, later)
        (reason,) = again.failed().values()
        assert "unknown column 'nothing'" in reason
        assert "drop the stream and create it again" in reason
        assert again.rows()["bars"].num_rows == 1
        assert "refused: bars:1:11: unknown column" in explain_stream(refused)
        again.take({"trades": trades((25, 3))})
        closed = again.close({"trades": 100})
        assert (list(closed.relations), closed.failed) == (["s"], {"bars": reason})
        writer.seal({})
        assert not [name for name in writer.space if name.startswith("stream/bars/query/")]


@pytest.mark.parametrize("kind", ["columns", "types"])
def test_a_state_that_a_release_cannot_read_fails_alone(tmp_path: Path, kind: str) -> None:
    """A state of other columns or types that says nothing of its plan is of another release."""
    other = program_of("CREATE STREAM bars AS SELECT t, price AS high FROM trades")
    written = "SELECT t, price AS high, match_id FROM trades LIMIT 9" if kind == "columns" else other.streams[0].sql
    first = msgspec.structs.replace(other, streams=(msgspec.structs.replace(other.streams[0], sql=written),))
    with opened(tmp_path) as writer:
        writer.seal({}, control=encode_program(first))
        space = writer.space
        query = DerivedQuery(NamedSelect("bars", written), query_inputs(first.streams[0].inputs), space, PREFIX)
        query.add("trades", trades((5, 1)).drop_columns(["weight"]))
        query.close({"trades": 1})
        space.delete(PLAN)
        if kind == "types":
            space.delete(f"{PREFIX}/watermarks")
            space.create(PersistedDictionary, f"{PREFIX}/watermarks", Schema(str, str))
        writer.seal({})
    later = msgspec.structs.replace(other.streams[0], sql="SELECT t, price AS high FROM trades LIMIT 9")
    with opened(tmp_path) as writer:
        again = DerivedStreams(writer.space, writer.log, msgspec.structs.replace(first, streams=(later,)))
        (reason,) = again.failed().values()
        assert "that this release can continue" in reason


def test_a_stream_that_cannot_be_is_refused_with_its_place() -> None:
    inputs = [*MARKET_INPUTS, DerivedInput(PRICED, "t")]
    for text, expected in (
        ("CREATE STREAM trades AS SELECT t FROM touches", "script.sql:1:25: expected a new name for the stream"),
        ("CREATE STREAM x AS SELECT t FROM bids", "script.sql:1:"),
        ("CREATE STREAM x AS SELECT price FROM trades", "script.sql:1:"),
        (
            "CREATE STREAM x AS SELECT t, 1 AS weight FROM trades",
            "script.sql:1:20: expected columns of the types int64",
        ),
    ):
        with pytest.raises(SqlError) as error:
            program_of(text, inputs)
        assert str(error.value).startswith(expected)


def test_a_dropped_stream_leaves_its_columns_behind() -> None:
    """The log has rows of it, so a stream of its name has its columns; a name and a place of its own it may have."""
    gone = without_stream(TRADES, "s")
    assert gone.dropped_streams == (TRADES.streams[0].relation,)
    with pytest.raises(
        SqlError, match=r"with the columns that it had before it was dropped \(t int64, match_id int64\)"
    ):
        program_of("CREATE STREAM s AS SELECT t FROM trades", before=gone)
    again = program_of("CREATE STREAM s RETAIN 5 ROWS AS SELECT t, match_id FROM trades", before=gone)
    assert (again.dropped_streams, again.streams[0].retain_rows) == ((), 5)


def test_programs_have_their_streams() -> None:
    """A record of before there were streams has none, a lane has none, and who reads a stream is known."""
    both = program_of("CREATE STREAM more AS SELECT t FROM s", before=TRADES)
    assert decode_program(encode_program(both)) == both
    assert readers_of_stream(both, "s") == ("more",)
    assert lane_program(both, "express") == NOTHING
    fields = msgspec.msgpack.decode(encode_program(NOTHING))
    del fields["streams"], fields["dropped_streams"]
    assert decode_program(msgspec.msgpack.encode(fields)) == NOTHING


def test_a_stream_is_explained_in_words() -> None:
    program = program_of("CREATE STREAM kept RETAIN 5 ROWS LATENESS INTERVAL 2 SECONDS AS SELECT t, price FROM trades")
    lines = explain_stream(program.streams[0]).splitlines()
    assert lines[:4] == [
        "kept: derived stream (t int64, price int64)",
        "  time: t, lateness 2000000000 ns",
        "  reads: trades by t",
        "  keeps: the newest 5 rows",
    ]


def test_what_waits_and_what_is_kept_are_counted_apart(writer: EpochWriter) -> None:
    """Open windows wait for their end; a key of LAG is kept for ever."""
    program = program_of("""CREATE STREAM x AS SELECT t, LAG(t) OVER (PARTITION BY match_id ORDER BY t) u FROM trades;
    CREATE STREAM y AS SELECT window_end AS t, match_id, COUNT(*) AS n FROM trades GROUP BY match_id, TUMBLE(t, 100)""")
    writer.seal({}, control=encode_program(program))
    streams = DerivedStreams(writer.space, writer.log, program)
    streams.take({"trades": trades((1, 7), (2, 8), (9, 8))})
    streams.close({"trades": 5})
    figures = streams.figures
    assert (figures["x"].waiting_rows, figures["x"].state_rows) == (1, 2)
    assert (figures["y"].waiting_rows, figures["y"].state_rows) == (3, 0)
    assert msgspec.to_builtins(figures["x"])["state"] == 2


def test_a_stream_warns_once_before_it_holds_too_much(writer: EpochWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[dict[str, Any]] = []
    monkeypatch.setattr(Logger, "warn", lambda self, text, **values: warnings.append(values))
    program = program_of("CREATE STREAM s AS SELECT t, LAG(t) OVER (PARTITION BY match_id ORDER BY t) AS u FROM trades")
    writer.seal({}, control=encode_program(program))
    streams = DerivedStreams(writer.space, writer.log, program)
    query = streams._running["s"].query
    assert query is not None
    query.most_held = 10
    for match in range(10):
        streams.take({"trades": trades((match, match))})
        streams.close({"trades": match})
        streams.end_epoch()
        assert len(warnings) == (match >= 7)
    assert (warnings[0]["name"], warnings[0]["held"], warnings[0]["state"], warnings[0]["most"]) == ("s", 8, 8, 10)
    streams.take({"trades": trades((10, 10))})
    streams.close({"trades": 10})
    assert "expected at most 10 rows held by stream/s/query, was 11" in streams.failed()["s"]
