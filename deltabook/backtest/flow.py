"""The recorded flow: files as one stream of records, each file's ids apart from the others'."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec

from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError
from deltabook.wire.symbols import Instrument
from exchange_server.errors import ExchangeError
from exchange_server.replay import SCALES, Loader, Record, RecordingFormat, open_recording
from exchange_server.replay.bitstamp import HEADER

__all__ = ["Flow", "SourceFigures", "detect_format"]

_OUTLIER_FACTOR: Final = 10
_ORDERED: Final = frozenset("BSU")
"""Actions whose price is an order's."""
_FILE_SHIFT: Final = 64
"""A file's ids are those that it says plus its number shifted by so many bits: Python's integers have room."""


class SourceFigures(msgspec.Struct, frozen=True):
    """One file, as the result says it."""

    name: str
    """Its file name, without folders."""
    format: str
    """Its form."""
    symbols: tuple[str, ...]
    """What it plays."""
    sha256: str
    """Of its bytes."""
    records: int
    """Read from it."""
    errors: int
    """Records of it that could not be used."""
    skipped: int
    """Records of it that are known not to be events of a book."""


class Flow:
    """Files in, records in the order of their times out."""

    def __init__(self, files: Sequence[DataFile], limit_records: int = 0) -> None:
        """Raises `ConfigurationError`."""
        if not files:
            raise ConfigurationError("expected data to play, was none")
        self._limit = limit_records
        self._loaders: list[Loader] = []
        self._counts = [0] * len(files)
        self._formats: list[RecordingFormat] = []
        self._units: list[int] = []
        sizes: dict[str, tuple[str, str]] = {}
        for file in files:
            form = file.format or detect_format(file)
            self._formats.append(form)
            try:
                loader = open_recording(form, file.path, tuple(filter(None, file.symbol.split(","))), day=file.day)
            except ExchangeError as error:
                raise ConfigurationError(str(error)) from error
            self._loaders.append(loader)
            self._units.append(_units(file.tick, form))
            scale = (file.tick or SCALES[form][0], SCALES[form][1])
            for symbol in loader.symbols:
                if sizes.setdefault(symbol, scale) != scale:
                    raise ConfigurationError(f"expected one scale of {symbol} in all files, was that of {form} too")
        self.instruments = tuple(Instrument(symbol, *sizes[symbol]) for symbol in sizes)
        """What is traded."""
        self.outlier_factor = _OUTLIER_FACTOR if "bitstamp" in self._formats else 0
        """As `exchange_server.matching.MarketRules` has it."""

    def __iter__(self) -> Iterator[Record]:
        """All records; raises `BacktestError` for a file that cannot be read."""
        days: dict[tuple[str, ...], list[int]] = {}
        for number, loader in enumerate(self._loaders):
            days.setdefault(loader.symbols, []).append(number)
        streams = [self._days(numbers) for numbers in days.values()]
        records: Iterable[Record] = streams[0] if len(streams) == 1 else merge(*streams, key=attrgetter("time_ns"))
        return iter(islice(records, self._limit) if self._limit else records)

    def _days(self, numbers: Sequence[int]) -> Iterator[Record]:
        latest_ns = 0
        for number in numbers:
            loader, first, units = self._loaders[number], number << _FILE_SHIFT, self._units[number]
            count = 0
            try:
                for record in loader.records():
                    count += 1
                    self._counts[number] = count
                    if first or record.time_ns < latest_ns:
                        record = _moved(record, first, latest_ns)  # noqa: PLW2901
                    if units > 1:
                        record = _coarser(record, units, loader)  # noqa: PLW2901
                    latest_ns = record.time_ns
                    yield record
            except ExchangeError as error:
                raise ConfigurationError(str(error)) from error

    def sources(self) -> list[SourceFigures]:
        """What was played."""
        return [
            SourceFigures(loader.path.name, form, loader.symbols, _digest(loader), count, loader.errors, loader.skipped)
            for loader, form, count in zip(self._loaders, self._formats, self._counts, strict=True)
        ]


def _moved(record: Record, first: int, latest_ns: int) -> Record:
    return msgspec.structs.replace(
        record,
        time_ns=max(record.time_ns, latest_ns),
        order_id=record.order_id + first,
        new_id=record.new_id + first if record.new_id else 0,
    )


def _units(tick: str, form: RecordingFormat) -> int:
    """Ticks of the format in one of the instrument; raises `ConfigurationError`."""
    smallest = SCALES[form][0]
    try:
        units = Decimal(tick or smallest) / Decimal(smallest)
    except InvalidOperation:
        units = Decimal(0)
    if not units.is_finite() or units < 1 or units != int(units):
        raise ConfigurationError(f"expected a tick of whole {smallest} for a file of {form}, was {tick!r}")
    return int(units)


def _coarser(record: Record, units: int, loader: Loader) -> Record:
    """With its price in ticks of so many of the format's; a trade's is rounded up, which makes none of it 0."""
    price_ticks = -(-record.price_ticks // units)
    if record.action in _ORDERED and price_ticks * units != record.price_ticks:
        raise ConfigurationError(
            f"expected orders at whole ticks, was a price of {record.price_ticks}/{units} ticks at {loader.unit} "
            f"{record.position} of {loader.path.name}; a smaller tick fits"
        )
    return msgspec.structs.replace(record, price_ticks=price_ticks)


def _digest(loader: Loader) -> str:
    with loader.path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def detect_format(file: DataFile) -> RecordingFormat:
    """The form of a file, by its name and its first line; raises `ConfigurationError` where neither says."""
    name = file.path.name.lower()
    if "itch" in name or name.endswith(("-v50.txt.gz", "-v50.txt")):
        return "itch"
    if "_message_" in name:
        return "lobster"
    try:
        start = _first_line(file)
    except OSError as error:
        raise ConfigurationError(f"expected a readable file, was {error}") from error
    if start == HEADER:
        return "bitstamp"
    fields = start.split(",")
    if len(fields) == 5 and fields[2] in {"B", "S", "E", "F", "D", "X", "T"}:
        return "dbtoaster"
    raise ConfigurationError(f"expected a format to be named for {file.path}, whose first line is {start[:80]!r}")


def _first_line(file: DataFile) -> str:
    import gzip

    opened = gzip.open if file.path.suffix == ".gz" else open
    with opened(file.path, "rb") as lines:
        return str(lines.readline(1000).decode("ascii", "replace").rstrip("\r\n"))
