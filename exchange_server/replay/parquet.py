"""Deltabook's own recordings as Parquet: the columns of a `Record`, in one file, or in a folder of days and symbols.

``OUT.parquet`` is one file; ``OUT/day=2012-06-21/symbol=ACME/part-0.parquet`` is a folder. Each file's metadata
(``deltabook.recording``) contains its symbols, the sizes of a tick and a lot, and the original format.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from exchange_server.errors import ExchangeConfigurationError, ReplayFileError
from exchange_server.replay.files import READ_ERRORS, check_regular
from exchange_server.replay.loader import ANY_SYMBOL, Loader
from exchange_server.replay.record import BATCH_RECORDS, Record, RecordColumns

__all__ = ["ParquetLoader", "RecordingInfo", "read_info", "write_parquet"]

_KEY: Final = b"deltabook.recording"
_DAY_NS: Final = 86_400 * 10**9
_MOST_PARTS: Final = 1_000
"""Largest number of files to which a folder is written at once: days × symbols."""
_ACTIONS: Final = "BSEFDXTCUV"
_SCHEMA: Final = pa.schema(
    [
        ("position", pa.int64()), ("time_ns", pa.int64()), ("order_id", pa.int64()), ("broker_id", pa.int64()),
        ("action", pa.dictionary(pa.int8(), pa.string())), ("volume", pa.int64()), ("price_ticks", pa.int64()),
        ("symbol", pa.dictionary(pa.int32(), pa.string())), ("new_id", pa.int64()),
    ]
)  # fmt: skip


class RecordingInfo(msgspec.Struct, frozen=True):
    """Description of a recording in its file."""

    format: str
    """Format of the original file."""
    tick_size: str
    """Size of a tick."""
    lot_size: str
    """Size of a lot."""
    symbols: tuple[str, ...]
    """Symbols that the recording may have."""
    version: int = 1
    """Version of this description."""


def parts_of(path: Path) -> list[Path]:
    """Return the files of a recording: the file itself, or the files of a folder by day and symbol."""
    return sorted(path.glob("day=*/symbol=*/*.parquet")) if path.is_dir() else [path]


def read_info(path: Path) -> RecordingInfo:
    """Return the description of a recording or of all parts of a folder; raise `ReplayFileError` without one."""
    infos = [_info_of(part) for part in parts_of(path)]
    if not infos:
        raise ReplayFileError(f"expected a recording's folders day=…/symbol=…, was none, at {path}")
    symbols = tuple(sorted({symbol for info in infos for symbol in info.symbols}))
    if len({msgspec.structs.replace(info, symbols=()) for info in infos}) > 1:
        raise ReplayFileError(f"expected parts of one format and scale, was several, at {path}")
    return msgspec.structs.replace(infos[0], symbols=symbols)


def _info_of(path: Path) -> RecordingInfo:
    check_regular(path)
    try:
        metadata = parquet.read_schema(path).metadata or {}
        return msgspec.json.decode(metadata[_KEY], type=RecordingInfo)
    except KeyError:
        raise ReplayFileError(
            f"expected a recording of `deltabook data convert`, was another Parquet file, at {path}"
        ) from None
    except (*READ_ERRORS, pa.ArrowException, ValueError) as error:
        raise ReplayFileError(f"expected a readable recording, was {error}, at {path}") from error


class ParquetLoader(Loader):
    """Records of a recording's symbols under their own names; a single symbol may be renamed.

    Days of a folder follow one another. If a day's positions do not continue those of the day before, the last position
    of the earlier day is added to each of them, so that positions always rise.
    """

    reads_columns = True
    unit = "record"

    def __init__(self, path: Path, symbols: Sequence[str]) -> None:
        """Open a recording; raise `ExchangeConfigurationError` for symbols that it does not have."""
        info = read_info(path)
        names = dict.fromkeys(symbols)
        if tuple(symbols) == (ANY_SYMBOL,):
            names = dict.fromkeys(info.symbols)
            self._renamed: dict[str, str] = {}
        elif len(symbols) == len(info.symbols) == 1:
            self._renamed = {info.symbols[0]: symbols[0]}
        elif missing := names.keys() - set(info.symbols):
            raise ExchangeConfigurationError(
                f"expected symbols out of {', '.join(info.symbols[:20])}, was {', '.join(sorted(missing))}, at {path}"
            )
        else:
            self._renamed = {}
        super().__init__(path, tuple(names))
        self.info = info

    def records(self) -> Iterator[Record]:
        """Yield all records from the beginning."""
        for batch in self.batches():
            yield from batch.records()

    def batches(self, rows: int = BATCH_RECORDS) -> Iterator[RecordColumns]:
        """Yield all records as columns, read in columns."""
        position = latest_ns = 0
        for parts in self._days():
            offset: int | None = None
            for batch in self._merged(parts, max(rows, 1)):
                if not len(batch):
                    continue
                latest_ns = _check_order(batch.time_ns, latest_ns, parts[0])
                if offset is None:
                    offset = position if int(batch.position[0]) <= position else 0
                if offset:
                    batch = msgspec.structs.replace(batch, position=batch.position + offset)  # noqa: PLW2901
                position = int(batch.position[-1])
                yield batch

    def _days(self) -> list[list[Path]]:
        """Return the files of each day, in order of symbol, without the files of symbols that are not replayed."""
        days: dict[str, list[Path]] = {}
        wanted = {f"symbol={_folder_name(name)}" for name in (*self.symbols, *self._renamed)}
        for part in parts_of(self.path):
            if not self.path.is_dir() or part.parent.name in wanted:
                days.setdefault(part.parent.parent.name if self.path.is_dir() else "", []).append(part)
        return [days[day] for day in sorted(days)]

    def _merged(self, parts: Sequence[Path], rows: int) -> Iterator[RecordColumns]:
        if len(parts) == 1:
            yield from self._batches_of(parts[0], rows)
            return
        streams = [(record for batch in self._batches_of(part, rows) for record in batch.records()) for part in parts]
        records: list[Record] = []
        for record in merge(*streams, key=attrgetter("time_ns", "position")):
            records.append(record)
            if len(records) == rows:
                yield RecordColumns.from_records(records, self.symbols)
                records = []
        yield RecordColumns.from_records(records, self.symbols)

    def _batches_of(self, path: Path, rows: int) -> Iterator[RecordColumns]:
        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                if not file.schema_arrow.equals(_SCHEMA):
                    raise ReplayFileError(f"expected the columns {', '.join(_SCHEMA.names)}, was others, at {path}")
                for batch in file.iter_batches(rows):
                    yield self._columns(batch, path)
        except ReplayFileError:
            raise
        except (*READ_ERRORS, pa.ArrowException, UnicodeDecodeError) as error:
            raise ReplayFileError(f"expected a readable recording, was {error}, at {path}") from error

    def _columns(self, batch: pa.RecordBatch, path: Path) -> RecordColumns:
        if any(column.null_count for column in batch.columns):
            raise ReplayFileError(f"expected no empty cells, was some, at {path}")
        actions = batch.column("action")
        letters = actions.dictionary.to_pylist()
        if unknown := set(letters) - set(_ACTIONS):
            raise ReplayFileError(f"expected actions out of {' '.join(_ACTIONS)}, was {min(unknown)!r}, at {path}")
        codes = np.array([ord(letter) for letter in letters] or [0], np.uint8)
        symbols = batch.column("symbol")
        names = [self._renamed.get(name, name) for name in symbols.dictionary.to_pylist()]
        columns = RecordColumns(
            action=codes[actions.indices.to_numpy()],
            symbol=symbols.indices.to_numpy().astype(np.int32),
            symbols=tuple(names),
            **{
                name: batch.column(name).to_numpy()
                for name in ("position", "time_ns", "order_id", "broker_id", "volume", "price_ticks", "new_id")
            },
        )
        wanted = np.array([name in self.symbols for name in names] or [True], bool)
        return columns if wanted.all() else columns.chosen(wanted[columns.symbol])


def _check_order(times_ns: NDArray[np.int64], latest_ns: int, path: Path) -> int:
    """Return the last of the times; raise `ReplayFileError` if one is earlier than the time before it."""
    if int(times_ns[0]) < latest_ns or (np.diff(times_ns) < 0).any():
        raise ReplayFileError(f"expected records in the order of their times, was others, at {path}")
    return int(times_ns[-1])


def write_parquet(out: Path, loader: Loader, info: RecordingInfo, rows: int = BATCH_RECORDS) -> int:
    """Write all records of a loader to a file, or to a folder if ``out`` does not end in ``.parquet``.

    Return the number of records. A failure leaves no file behind. Raise `ExchangeConfigurationError` where ``out`` or
    ``out.part`` exists, and for a folder of more parts than can be written at once; raise `ReplayFileError` if there
    are no records.
    """
    if out.exists():
        raise ExchangeConfigurationError(f"expected nothing at {out}, was something")
    scratch = out.with_name(out.name + ".part")
    if scratch.exists():
        raise ExchangeConfigurationError(f"expected nothing at {scratch}, was a conversion that did not end; remove it")
    try:
        count = _write(scratch, loader, info, rows, is_folder=out.suffix != ".parquet")
        scratch.rename(out)
    except BaseException:
        if scratch.is_dir():
            shutil.rmtree(scratch)
        scratch.unlink(missing_ok=True)
        raise
    return count


def _write(scratch: Path, loader: Loader, info: RecordingInfo, rows: int, *, is_folder: bool) -> int:
    count = 0
    writers: dict[tuple[int, str], Any] = {}
    with ExitStack() as stack:
        for batch in loader.batches(rows):
            count += len(batch)
            for day, symbol, part in _parts(batch) if is_folder else [(0, "", batch)]:
                writer = writers.get((day, symbol))
                if writer is None:
                    if len(writers) >= _MOST_PARTS:
                        raise ExchangeConfigurationError(f"expected at most {_MOST_PARTS} days × symbols, was more")
                    path = scratch / _folder(day, symbol) / "part-0.parquet" if is_folder else scratch
                    path.parent.mkdir(parents=True, exist_ok=True)
                    own = msgspec.structs.replace(info, symbols=(symbol,)) if is_folder else info
                    schema = _SCHEMA.with_metadata({_KEY: msgspec.json.encode(own)})
                    writer = stack.enter_context(
                        parquet.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)
                    )
                    writers[day, symbol] = writer
                writer.write_table(_table(part))
        if not writers:
            raise ReplayFileError(
                f"expected records to write, was none ({loader.errors:,} bad, {loader.skipped:,} left out), "
                f"at {loader.path}"
            )
    return count


def _parts(batch: RecordColumns) -> Iterator[tuple[int, str, RecordColumns]]:
    """Yield the parts of a batch by day and symbol."""
    days = batch.time_ns // _DAY_NS
    for day in np.unique(days):
        for symbol in np.unique(batch.symbol):
            chosen = (days == day) & (batch.symbol == symbol)
            if chosen.any():
                yield int(day), batch.symbols[symbol], batch.chosen(chosen)


def _folder(day: int, symbol: str) -> str:
    date = datetime.fromtimestamp(day * 86_400, UTC).date().isoformat()
    return f"day={date}/symbol={_folder_name(symbol)}"


def _folder_name(symbol: str) -> str:
    """Return a symbol as a folder's name, with unsafe and special characters as codes."""
    return "".join(char if char.isalnum() or char in "-_" else f"%{ord(char):02X}" for char in symbol)


def _table(columns: RecordColumns) -> pa.Table:
    letters = pa.array(list(_ACTIONS))
    places = np.zeros(256, np.int8)
    for place, letter in enumerate(_ACTIONS):
        places[ord(letter)] = place
    return pa.table(
        [
            columns.position, columns.time_ns, columns.order_id, columns.broker_id,
            pa.DictionaryArray.from_arrays(places[columns.action], letters), columns.volume, columns.price_ticks,
            pa.DictionaryArray.from_arrays(columns.symbol, pa.array(columns.symbols, pa.string())), columns.new_id,
        ],
        schema=_SCHEMA,
    )  # fmt: skip
