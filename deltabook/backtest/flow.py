"""Recorded files as one stream of records, in which ids of different files are distinct."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import Final

import msgspec

from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError, CrossedDataError
from deltabook.wire.symbols import Instrument
from exchange_server.errors import ExchangeError, RecordError
from exchange_server.replay import (
    PRICE_FORMATS,
    BookFigures,
    Loader,
    LobsterLoader,
    PriceLoader,
    Record,
    RecordingFormat,
    crossed_rows,
    open_recording,
    outlier_factor,
    scale_of,
    source_format,
)
from exchange_server.replay._tables import column_names, is_parquet
from exchange_server.replay.bitstamp import decimal_converter, is_header
from exchange_server.replay.depth import depth_layout, trades_layout
from exchange_server.replay.files import READ_ERRORS, open_recorded
from exchange_server.replay.prices import bar_time_column

__all__ = ["FILE_SHIFT", "Flow", "SourceFigures", "detect_format", "time_text"]

_EARLY_RECORDS: Final = 10_000
"""Number of records after which a file with a crossed book may be refused before its end."""
_MAX_CROSSED_PERCENT: Final[dict[RecordingFormat, float]] = {"lobster": 5.0, "itch": 5.0}
"""Default of the largest percentage of crossed records, by format; other formats have no limit."""
_ORDERED: Final = frozenset("BSU")
"""Actions whose price is the price of an order."""
_SYMBOL: Final = re.compile(r"[!-+\--~]{1,16}")
FILE_SHIFT: Final = 64
"""Number of bits by which a file's number is shifted left before an id of the file is added; integers are unbounded."""


class SourceFigures(msgspec.Struct, frozen=True):
    """Figures of one file in the result."""

    name: str
    """File name, without folders."""
    format: str
    """Format of the file."""
    symbols: tuple[str, ...]
    """Symbols that the file plays."""
    sha256: str
    """SHA-256 of the file's bytes."""
    records: int
    """Number of records read."""
    errors: int
    """Number of records that could not be used."""
    skipped: int
    """Number of records that are known not to be events of a book."""
    begin_ns: int = 0
    """Market time of the first record, in nanoseconds."""
    end_ns: int = 0
    """Market time of the last record, in nanoseconds."""
    crossed: int = 0
    """Number of records after which the file's own book was crossed (`exchange_server.replay.CrossedRows`)."""
    stale_orders: int = 0
    """Number of orders that stayed crossed because the capture lost their end."""
    earlier: int = 0
    """Number of records whose time was before that of the preceding record; they are played at the preceding time."""
    orderbook: BookFigures | None = None
    """Comparison with the file's order book file, if there is one."""

    @property
    def crossed_percent(self) -> float:
        """Percentage of crossed records, 0 to 100."""
        return 100 * self.crossed / self.records if self.records else 0.0


class Flow:
    """Reads files and yields their records in the order of their times."""

    def __init__(
        self, files: Sequence[DataFile], limit_records: int = 0, *, max_crossed_percent: float | None = 100.0
    ) -> None:
        """Open the files; raise `ConfigurationError` if one cannot be read or two do not fit together.

        Reading ends with `CrossedDataError` if a file's own book is crossed after more than ``max_crossed_percent`` of
        its records, as checked every `_EARLY_RECORDS` records and at the end; None: the default of the file's format.
        """
        if not files:
            raise ConfigurationError("expected data to play, was none")
        self._limit = min(limit_records, sys.maxsize)
        if max_crossed_percent is not None and not 0 <= max_crossed_percent <= 100:
            raise ConfigurationError(f"expected a share from 0 to 100 percent, was {max_crossed_percent}")
        self._files = tuple(files)
        self._spans = [(0, 0)] * len(files)
        self._loaders: list[Loader] = []
        self._counts = [0] * len(files)
        self._formats: list[RecordingFormat] = []
        self._units: list[int] = []
        sizes: dict[str, tuple[str, str]] = {}
        owners: dict[str, Loader] = {}
        for file in files:
            form = file.format or detect_format(file)
            self._formats.append(form)
            try:
                symbols = tuple(filter(None, file.symbol.split(",")))
                loader = open_recording(
                    form, file.path, symbols, day=file.day, orderbook=file.orderbook, trades=file.trades,
                    queue=file.queue, tick=file.tick,
                )  # fmt: skip
            except ExchangeError as error:
                raise ConfigurationError(str(error)) from error
            self._loaders.append(loader)
            tick_size, lot_size = scale_of(form, file.path)
            self._units.append(_units(file.tick, tick_size, form))
            scale = (file.tick or tick_size, lot_size)
            for symbol in loader.symbols:
                if not _SYMBOL.fullmatch(symbol):
                    raise ConfigurationError(
                        f"expected a symbol of 1 to 16 ASCII characters without blanks and commas, was {symbol!r}"
                    )
                if sizes.setdefault(symbol, scale) != scale:
                    raise ConfigurationError(f"expected one scale of {symbol} in all files, was that of {form} too")
                other = owners.setdefault(symbol, loader)
                if other.symbols != loader.symbols:
                    raise ConfigurationError(
                        f"expected files with the same symbols or with none in common, was {symbol} in "
                        f"{other.path.name} with {', '.join(other.symbols)} and in {loader.path.name} with "
                        f"{', '.join(loader.symbols)}; name one symbol for each file (--data SYMBOL=FILE)"
                    )
        self.instruments = tuple(Instrument(symbol, *sizes[symbol]) for symbol in sizes)
        """Instruments of the files."""
        origins = [source_format(form, file.path) for form, file in zip(self._formats, files, strict=True)]
        self._max_crossed = [
            _MAX_CROSSED_PERCENT.get(form, 100.0) if max_crossed_percent is None else max_crossed_percent
            for form in origins
        ]
        self._crossed = [crossed_rows(form) for form in origins]
        self.outlier_factor = max(map(outlier_factor, origins))
        """Outlier factor of the market's rules: see `exchange_server.matching.MarketRules`."""

    def __iter__(self) -> Iterator[Record]:
        """Yield all records; raise `BacktestError` for a file that cannot be read or whose book is crossed."""
        streams = [self._days(numbers) for numbers in self._streams()]
        records: Iterable[Record] = streams[0] if len(streams) == 1 else merge(*streams, key=attrgetter("time_ns"))
        yield from islice(records, self._limit) if self._limit else records
        for number in range(len(self._loaders)):
            self._check_crossed(number)

    def _streams(self) -> list[list[int]]:
        """Return the numbers of the files of each stream: files of the same symbols are consecutive days."""
        days: dict[tuple[str, ...], list[int]] = {}
        for number, loader in enumerate(self._loaders):
            days.setdefault(loader.symbols, []).append(number)
        return list(days.values())

    @property
    def fills_at_next_price(self) -> bool:
        """True if a file has no book, so that orders wait for the next price."""
        return not PRICE_FORMATS.isdisjoint(self._formats)

    def price_after(self, time_ns: int) -> int:
        """Return the earliest time, in nanoseconds, by which each symbol without a book has had another price after
        ``time_ns``.

        Symbols without a further price are ignored; 0 if no symbol has one. Raise `ConfigurationError` for a file that
        cannot be read.
        """
        try:
            return max(self._price_after(numbers, time_ns) for numbers in self._streams())
        except ExchangeError as error:
            raise ConfigurationError(str(error)) from error
        except READ_ERRORS as error:
            raise ConfigurationError(f"expected readable files, was {error}") from error

    def _price_after(self, numbers: Sequence[int], time_ns: int) -> int:
        """Return the time of a stream's first price after ``time_ns``; 0 if there is none."""
        loaders = (self._loaders[number] for number in numbers)
        times = (loader.price_after(time_ns) for loader in loaders if isinstance(loader, PriceLoader))
        return next(filter(None, times), 0)

    def _days(self, numbers: Sequence[int]) -> Iterator[Record]:
        latest_ns = 0
        ended: list[int] = []
        for place, number in enumerate(numbers):
            loader, first, units = self._loaders[number], number << FILE_SHIFT, self._units[number]
            begin_ns = count = 0
            try:
                for record in self._checked(number):
                    count += 1
                    self._counts[number] = count
                    if count == 1:
                        begin_ns = record.time_ns
                        if place and begin_ns < latest_ns:
                            raise self._out_of_order(numbers[place - 1], number, begin_ns)
                        yield from self._ends(ended, record)
                        ended.clear()
                    self._spans[number] = (begin_ns, record.time_ns)
                    if first:
                        record = _moved(record, first)  # noqa: PLW2901
                    if units > 1:
                        record = _coarser(record, units, loader)  # noqa: PLW2901
                    latest_ns = record.time_ns
                    yield record
            except ExchangeError as error:
                raise ConfigurationError(str(error)) from error
            ended.append(number)

    def _ends(self, ended: Sequence[int], begin: Record) -> Iterator[Record]:
        """Yield the deletions of the orders that files have left, before the first record of the file that follows.

        No record of a later file is about these orders: they would stay in the book for ever.
        """
        for number in ended:
            for symbol, order_id in self._crossed[number].live_orders():
                yield Record(begin.position, begin.time_ns, order_id + (number << FILE_SHIFT), 0, "D", 0, 0, symbol)

    def _checked(self, number: int) -> Iterator[Record]:
        """Yield the records of a file and observe its own book; raise `CrossedDataError` if it is crossed too often."""
        crossed = self._crossed[number]
        observe = crossed.observe
        for record in self._read(self._loaders[number]):
            observe(record)
            if not crossed.rows % _EARLY_RECORDS:
                self._check_crossed(number)
            yield record

    def _read(self, loader: Loader) -> Iterator[Record]:
        # A loader of columns reads ahead, so it would count records beyond the limit.
        if self._limit or not loader.reads_columns:
            return loader.records()
        return chain.from_iterable(batch.records() for batch in loader.batches())

    def _check_crossed(self, number: int) -> None:
        if 100 * self._crossed[number].share > self._max_crossed[number]:
            raise self._too_crossed(number)

    def _too_crossed(self, number: int) -> CrossedDataError:
        crossed, file = self._crossed[number], self._files[number]
        advice = ""
        if self._formats[number] == "lobster" and file.orderbook is None:
            beside = file.path.with_name(file.path.name.replace("_message_", "_orderbook_"))
            known = str(beside) if beside != file.path and beside.is_file() else "FILE"
            advice = f"; --orderbook {known} corrects it by LOBSTER's order book file"
        return CrossedDataError(
            f"expected a book that is crossed after {self._max_crossed[number]:g} % of the records at most, "
            f"was {100 * crossed.share:.1f} % of {crossed.rows:,} in {file.path.name}: it lacks the ends of orders "
            f"behind the best prices, which then fill orders that they should not{advice}; "
            f"--max-crossed 100 plays it as it is"
        )

    def _out_of_order(self, before: int, number: int, begin_ns: int) -> ConfigurationError:
        names = [self._loaders[each].path.name for each in (before, number)]
        end_ns = self._spans[before][1]
        return ConfigurationError(
            f"expected files of {', '.join(self._loaders[number].symbols)} in the order of their times, was "
            f"{names[1]}, which begins at {time_text(begin_ns)}, behind {names[0]}, which ends at "
            f"{time_text(end_ns)} (days come from file names or --day)"
        )

    def sources(self) -> list[SourceFigures]:
        """Return the figures of the files that were played."""
        return [
            SourceFigures(
                loader.path.name,
                form,
                loader.symbols,
                _digest(loader),
                count,
                loader.errors,
                loader.skipped,
                *span,
                crossed=crossed.crossed,
                stale_orders=crossed.stale_orders,
                earlier=loader.earlier,
                orderbook=loader.book_figures if isinstance(loader, LobsterLoader) else None,
            )
            for loader, form, count, span, crossed in zip(
                self._loaders, self._formats, self._counts, self._spans, self._crossed, strict=True
            )
        ]


def time_text(time_ns: int) -> str:
    """Return a market time as readable text in UTC.

    >>> time_text(86_400 * 10**9)
    '1970-01-02 00:00:00'
    """
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _moved(record: Record, first: int) -> Record:
    return msgspec.structs.replace(
        record, order_id=record.order_id + first, new_id=record.new_id + first if record.new_id else 0
    )


def _units(tick: str, smallest: str, form: RecordingFormat) -> int:
    """Return how many ticks of the format equal one tick of the instrument; raise `ConfigurationError` if the number is
    not whole.
    """
    try:
        units = decimal_converter("tick", Decimal(smallest))(tick or smallest)
    except RecordError:
        units = 0
    if not units:
        raise ConfigurationError(f"expected a tick of whole {smallest} for a file of {form}, was {tick!r}")
    return units


def _coarser(record: Record, units: int, loader: Loader) -> Record:
    """Return the record with its price in ticks of the instrument, each of which is ``units`` ticks of the format.

    The price of a trade is rounded up, so that it does not become 0. Raise `ConfigurationError` for an order between
    two ticks.
    """
    price_ticks = -(-record.price_ticks // units)
    if record.action in _ORDERED and price_ticks * units != record.price_ticks:
        raise ConfigurationError(
            f"expected orders at whole ticks, was a price of {record.price_ticks}/{units} ticks at {loader.unit} "
            f"{record.position} of {loader.path.name}; a smaller tick fits"
        )
    return msgspec.structs.replace(record, price_ticks=price_ticks)


def _digest(loader: Loader) -> str:
    """Return the SHA-256 of a file's bytes, or for a folder the SHA-256 of its parts' names and digests."""
    if not loader.path.is_dir():
        with loader.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for path in sorted(loader.path.rglob("*.parquet")):
        digest.update(f"{path.relative_to(loader.path).as_posix()}\n".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def detect_format(file: DataFile) -> RecordingFormat:
    """Return the format of a file, by its name and its first line; raise `ConfigurationError` if neither shows it."""
    name = file.path.name.lower()
    if "itch" in name or name.endswith(("-v50.txt.gz", "-v50.txt")):
        return "itch"
    if "_message_" in name:
        return "lobster"
    if file.path.is_dir():
        return "parquet"
    try:
        start = _first_line(file)
    except ExchangeError as error:
        raise ConfigurationError(str(error)) from error
    except READ_ERRORS as error:
        raise ConfigurationError(f"expected a readable file, was {error}") from error
    if is_header(start):
        return "bitstamp"
    fields = start.split(",")
    if len(fields) == 5 and fields[2] in {"B", "S", "E", "F", "D", "X", "T"}:
        return "dbtoaster"
    names = [name.strip().strip('"') for name in fields]
    if is_parquet(file.path):
        names = column_names(file.path)
        if "price_ticks" in names:
            return "parquet"
    if depth_layout(names):
        return "depth"
    if bar_time_column(names):
        return "bars"
    if trades_layout(names):
        return "trades"
    raise ConfigurationError(f"expected a format to be named for {file.path}, whose first line is {start[:80]!r}")


def _first_line(file: DataFile) -> str:
    with open_recorded(file.path) as lines:
        return str(lines.readline(1000).decode("ascii", "replace").rstrip("\r\n"))
