"""A recording as Parquet has the same records, and says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from exchange_server.errors import ExchangeConfigurationError, ReplayFileError
from exchange_server.replay import Loader, Record, RecordColumns, open_recording
from exchange_server.replay._tables import table_rows
from exchange_server.replay.parquet import ParquetLoader, RecordingInfo, read_info, write_parquet
from tests.generators.recordings import FORMATS, Event, write_recording
from tests.harness.examples import examples

DAY = 86_400 * 10**9
INFO = RecordingInfo("itch", "0.0001", "1", ("A", "B/..", "C"))
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 3 * DAY), st.integers(0, 2**63 - 1), st.sampled_from("BSEFDXTCUV"), st.sampled_from(INFO.symbols)
    ),
    min_size=1, max_size=30,
)  # fmt: skip


class Given(Loader):
    """Records that a test has made."""

    unit = "record"

    def __init__(self, records: list[Record]) -> None:
        super().__init__(Path("given"), INFO.symbols)
        self._given = records

    def records(self) -> Any:
        return iter(self._given)


def made(rows: list[tuple[int, int, str, str]]) -> list[Record]:
    times = sorted(row[0] for row in rows)
    return [
        Record(3 * n, time_ns, number, number % 10, action, number // 2, number // 3, symbol, number // 5)
        for n, (time_ns, (_, number, action, symbol)) in enumerate(zip(times, rows, strict=True), 1)
    ]


@given(RECORDS, st.integers(1, 7), st.sampled_from(["out.parquet", "out"]))
@settings(max_examples=examples(60), deadline=None)
def test_records_come_back_from_a_file_and_from_a_folder(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], size: int, name: str
) -> None:
    """In the same order, whatever the days, the symbols and the batches; and any choice of symbols."""
    out = tmp_path_factory.mktemp("parquet") / name
    records = made(rows)
    assert write_parquet(out, Given(records), INFO, size) == len(records)
    present = {record.symbol for record in records}
    info = read_info(out)
    assert set(info.symbols) == (present if name == "out" else set(INFO.symbols))
    loader = ParquetLoader(out, ["REPLAY"])
    assert list(loader.records()) == records
    assert [r for batch in loader.batches(size) for r in batch.records()] == records
    chosen = sorted(present)[:2]
    if len(info.symbols) > 1:
        own = [record for record in records if record.symbol in chosen]
        assert list(ParquetLoader(out, chosen).records()) == own


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_converted(tmp_path: Path, form: str) -> None:
    """The one symbol of a recording can be given another name."""
    loader = write_recording(form, tmp_path, [Event(34_200, "B", 1, 10, 100), Event(34_203, "D", 1, 10, price=100)])
    write_parquet(tmp_path / "out.parquet", loader, RecordingInfo(form, "0.01", "1", loader.symbols))
    expected = list(loader.records())
    assert list(open_recording("parquet", tmp_path / "out.parquet", ["PAST"]).records()) == expected
    renamed = list(open_recording("parquet", tmp_path / "out.parquet", ["NEW"]).records())
    assert [record.symbol for record in renamed] == ["NEW", "NEW"]
    assert RecordColumns.from_records(renamed).order_id.tolist() == [record.order_id for record in expected]


def test_positions_continue_over_days(tmp_path: Path) -> None:
    """Days whose positions begin anew would be skipped by a replay that goes on after a restart."""
    for day, name in ((0, "first"), (1, "second")):
        records = [Record(n, day * DAY + n, n, 1, "B", 1, 1, "A") for n in (1, 2)]
        write_parquet(tmp_path / name, Given(records), INFO)
    (tmp_path / "second/day=1970-01-02").rename(tmp_path / "first/day=1970-01-02")
    loader = ParquetLoader(tmp_path / "first", ["A"])
    assert [record.position for record in loader.records()] == [1, 2, 3, 4]


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    """Parquet of others, damage, symbols that are not there, an empty folder."""
    path = tmp_path / "other.parquet"
    parquet.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ReplayFileError, match="expected a recording of `deltabook data convert`, was another Parquet"):
        ParquetLoader(path, ["A"])
    good = tmp_path / "good.parquet"
    write_parquet(good, Given(made([(1, 5, "B", "A"), (2, 6, "S", "C")])), INFO)
    with pytest.raises(ExchangeConfigurationError, match=r"^expected symbols out of A, B/\.\., C, was X, at"):
        ParquetLoader(good, ["X"])
    with pytest.raises(ExchangeConfigurationError, match=r"^expected nothing at .*good\.parquet, was something$"):
        write_parquet(good, Given([]), INFO)
    data = bytearray(good.read_bytes())
    (tmp_path / "cut.parquet").write_bytes(data[:-20])
    data[20] ^= 0xFF
    (tmp_path / "flipped.parquet").write_bytes(data)
    with pytest.raises(ReplayFileError, match=r"cut\.parquet$"):
        ParquetLoader(tmp_path / "cut.parquet", ["A"])
    with pytest.raises(ReplayFileError, match=r"flipped\.parquet$"):
        list(ParquetLoader(tmp_path / "flipped.parquet", ["A"]).records())
    (tmp_path / "folder").mkdir()
    with pytest.raises(ReplayFileError, match="expected a recording's folders"):
        ParquetLoader(tmp_path / "folder", ["A"])
    with pytest.raises(ExchangeConfigurationError, match="expected no day for a recording"):
        open_recording("parquet", good, ["A"], day="2012-06-21")


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Neither the file nor the scratch beside it."""

    class Broken(Given):
        def records(self) -> Any:
            yield from self._given
            raise ReplayFileError("expected more")

    for name in ("out.parquet", "out"):
        with pytest.raises(ReplayFileError, match="expected more"):
            write_parquet(tmp_path / name, Broken(made([(1, 5, "B", "A")])), INFO, 1)
    assert list(tmp_path.iterdir()) == []


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """Parquet does not check text, so damage may leave any bytes in it."""
    strings = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    described, table, names = tmp_path / "described.parquet", tmp_path / "table.parquet", tmp_path / "names.parquet"
    metadata = {b"deltabook.recording": b'{"format":"\xff"}'}
    parquet.write_table(pa.table({"a": [1]}).replace_schema_metadata(metadata), described)
    with pytest.raises(ReplayFileError, match="expected a readable recording"):
        read_info(described)
    parquet.write_table(pa.table({"price": strings}), table)
    with pytest.raises(ReplayFileError, match="expected a readable table"):
        list(table_rows(table, ("price",), lambda number, error: None))
    write_parquet(names, Given([Record(1, 1, 1, 1, "B", 1, 1, "A")]), INFO)
    names.write_bytes(names.read_bytes().replace(b"B/..", b"B/.\xff"))
    with pytest.raises(ReplayFileError, match="expected a readable recording"):
        list(ParquetLoader(names, ("A",)).records())
