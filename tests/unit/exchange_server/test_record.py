"""Records as columns are the same records, in every format, with the same counts of what could not be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange_server.errors import RecordError
from exchange_server.replay import DbtoasterLoader, Record, RecordColumns
from exchange_server.replay import record as record_module
from tests.generators.recordings import FORMATS, Event, write_recording

DAY = [
    Event(34_200, "B", 1, 10, 100), Event(34_201, "S", 2, 5, 200, side="S"),
    Event(34_202, "E", 1, 4, left=6, price=100), Event(34_203, "D", 2, 5, price=200, side="S"),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_records_as_columns(tmp_path: Path, form: str) -> None:
    """Batches of one record, of some and of all hold what `records` yields."""
    loader = write_recording(form, tmp_path, DAY)
    records = list(loader.records())
    assert len(records) == len(DAY)
    for rows in (1, 3, 100):
        batches = list(loader.batches(rows))
        assert [record for batch in batches for record in batch.records()] == records
    assert list(loader.columns().records()) == records


def test_records_of_several_symbols_come_back() -> None:
    """A batch has only the symbols that it needs; concatenation renumbers them."""
    records = [Record(n, n, n, 1, "B", 5, 100, symbol, n + 1) for n, symbol in enumerate("ABACB", 1)]
    parts = [RecordColumns.from_records(records[:2]), RecordColumns.from_records(records[2:], ("C",))]
    columns = RecordColumns.concatenated(parts)
    assert list(columns.records()) == records
    assert sorted(columns.symbols) == ["A", "B", "C"]
    assert list(columns.sliced(1, 3).records()) == records[1:3]


def test_no_record_is_columns_of_no_length() -> None:
    """Empty input has a type for each column all the same."""
    for columns in (RecordColumns.from_records([]), RecordColumns.concatenated([])):
        assert len(columns) == len(columns.time_ns) == len(columns.action) == 0


def test_a_number_beyond_64_bits_is_refused_with_its_place() -> None:
    """Ids of a second file, which the flow shifts beyond 64 bits, do not become other ids."""
    with pytest.raises(RecordError, match=r"^expected order_id of 64 bits, was 18446744073709551617, at record 3$"):
        RecordColumns.from_records([Record(3, 1, 2**64 + 1, 1, "B", 5, 100, "A")])


FIELDS = st.one_of(
    st.integers(0, 200).map(str),
    st.sampled_from(["", " 5", "-1", "+1", "007", "0x1F", "0X1", "1.0", '"5"', "B", "NA", "null", "1_0"]),
    st.sampled_from(["ÿ", "\r", "\f", "0" * 19 + "1", "0" * 18 + "1", str(10**17), str(10**17 + 1)]),
    st.sampled_from([str(2**63 - 1), str(2**63), "9" * 19]),
)  # fmt: skip
LINES = st.one_of(
    st.tuples(FIELDS, FIELDS, st.sampled_from([*"BSEFDXTC", "Q", "", "b", "BB", "5"]), FIELDS, FIELDS).map(",".join),
    st.tuples(*[st.integers(0, 9).map(str)] * 2, st.sampled_from("BSEFDXTC"), *[st.integers(0, 9).map(str)] * 2).map(
        ",".join
    ),
    st.sampled_from(["", ",", "1,2,B,3", "1,2,B,3,4,5", "\r"]),
)


@given(
    st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.integers(1, 13),
    st.sampled_from([0, 1, 10**6]),
)  # fmt: skip
def test_columns_of_a_trace_are_its_records_whatever_the_lines(
    tmp_path_factory: Any, lines: list[str], ending: str, is_ended: bool, rows: int, day_ns: int
) -> None:
    """The fast reader uses, counts and refuses exactly what the reader of lines does."""
    path = tmp_path_factory.getbasetemp() / "trace.csv"
    path.write_bytes((ending.join(lines) + (ending if is_ended else "")).encode())
    expected, loader = DbtoasterLoader(path, "R", day_ns=day_ns), DbtoasterLoader(path, "R", day_ns=day_ns)
    records = list(expected.records())
    assert [record for batch in loader.batches(rows) for record in batch.records()] == records
    assert loader.errors == expected.errors
    assert list(DbtoasterLoader(path, "R", day_ns=day_ns).columns().records()) == records


def test_long_columns_become_records_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`records` goes through its columns in parts, and loses none at their ends."""
    monkeypatch.setattr(record_module, "BATCH_RECORDS", 2)
    records = [Record(n, n, n, 1, "B", 5, 100, "A") for n in range(1, 6)]
    assert list(RecordColumns.from_records(records).records()) == records


@pytest.mark.parametrize("place", [0, 1, 3, 4])
@pytest.mark.parametrize("number", ["0" * 19 + "1", "0" * 18 + "1", "007", str(10**17 + 1), str(2**63), "-1", " 1"])
def test_numbers_that_are_not_plain_are_judged_as_in_lines(tmp_path: Path, place: int, number: str) -> None:
    """A number of 20 digits is bad whatever its value; the block around it is read all the same."""
    fields = ["1", "2", "B", "3", "4"]
    fields[place] = number
    path = tmp_path / "trace.csv"
    path.write_text("1,1,B,3,4\n" + ",".join(fields) + "\n2,3,S,3,4\n")
    expected, loader = DbtoasterLoader(path, "R"), DbtoasterLoader(path, "R")
    records = list(expected.records())
    assert list(loader.columns().records()) == records
    assert (loader.errors, len(records)) == (expected.errors, 3 - expected.errors)
