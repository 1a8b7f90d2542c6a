"""Descriptions of recorded files, as lines of text and as figures, and the conversion of a file to Parquet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import msgspec

from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.flow import Flow, SourceFigures, detect_format, time_text
from exchange_server.errors import ExchangeError
from exchange_server.replay import PRICE_FORMATS, open_recording, scale_of, source_format

__all__ = ["book_lines", "convert_file", "dropped_line", "inspect_file", "source_lines"]


def source_lines(source: SourceFigures) -> Iterator[str]:
    """Yield lines about one file: its records and their times, then the problems of its book."""
    times = f"{time_text(source.begin_ns)} to {time_text(source.end_ns)}" if source.records else "none"
    yield (
        f"{source.name}: {source.format}, {', '.join(source.symbols)}, {source.records:,} records ({times}), "
        f"{source.errors:,} bad, {source.skipped:,} left out"
    )
    for line in book_lines(source):
        yield f"  {line}"


def book_lines(source: SourceFigures) -> Iterator[str]:
    """Yield lines about the limits of a file: records that are out of order, differences from its order book file,
    orders that are filled without a recorded book, and crossed prices in the book of the records.
    """
    if source.earlier:
        yield f"{source.earlier:,} records were earlier than the one before them, and are played at its time"
    book = source.orderbook
    if book is not None and book.rows:
        yield (
            f"order book file: the touch agrees on {book.agreed:,} of {book.rows:,} rows "
            f"({100 * book.agreed / book.rows:.1f} %) and is corrected on the others: {book.stale:,} with stale "
            f"orders, {book.unannounced:,} with volume that no message announced"
        )
        yield (
            f"order book file: {book.purged_orders:,} stale orders purged, {book.added_orders:,} synthetic orders "
            f"added, {book.contradictions:,} contradictions"
        )
    if source.format in PRICE_FORMATS:
        yield "this data has no book: orders are filled at the next price, by quotes of as many lots as traded there"
    elif source.format == "depth":
        yield "the book has synthetic orders: the place of an own order in a queue is computed by a model (--queue)"
    if source.crossed:
        share = f"{source.crossed:,} of them ({source.crossed_percent:.1f} %)"
        yield f"the book of its records alone is crossed after {share}"
    if source.stale_orders:
        yield f"{source.stale_orders:,} orders stayed crossed for over a second: the recording has lost their ends"


def dropped_line(dropped: Mapping[str, int]) -> str:
    """Return how many records had no effect in the market, and why."""
    reasons = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in dropped.items())
    return f"records without effect: {sum(dropped.values()):,}" + (f" ({reasons})" if reasons else "")


class SymbolInspection(msgspec.Struct, frozen=True):
    """Records of one symbol."""

    symbol: str
    """Symbol of the instrument."""
    records: int
    """Number of records."""
    actions: dict[str, int]
    """Number of records, by action."""
    lowest_price: str
    """Lowest price of an order or a trade; empty if there is none."""
    highest_price: str
    """Highest price of an order or a trade; empty if there is none."""


class FileInspection(msgspec.Struct, frozen=True):
    """Figures of one file that was read to its end."""

    source: SourceFigures
    """Figures of the file as a backtest's result has them."""
    tick_size: str
    """Value of a tick."""
    lot_size: str
    """Value of a lot."""
    symbols: list[SymbolInspection]
    """Figures of each symbol."""


class Conversion(msgspec.Struct, frozen=True):
    """Figures of a file that was written as Parquet."""

    records: int
    """Number of records written."""
    symbols: tuple[str, ...]
    """Symbols of the records."""
    errors: int
    """Number of records that could not be used."""
    skipped: int
    """Number of records that are known not to be events of a book."""


def inspect_file(file: DataFile) -> FileInspection:
    """Read a file to its end and return its figures; raise `ConfigurationError` if it cannot be read."""
    flow = Flow([file])
    actions: dict[str, Counter[str]] = {}
    prices: dict[str, tuple[int, int]] = {}
    for record in flow:
        actions.setdefault(record.symbol, Counter())[record.action] += 1
        if record.action in "BSUT" and record.price_ticks:
            low, high = prices.get(record.symbol, (record.price_ticks, record.price_ticks))
            prices[record.symbol] = min(low, record.price_ticks), max(high, record.price_ticks)
    scales = {instrument.symbol: instrument for instrument in flow.instruments}
    symbols = []
    for symbol, counts in sorted(actions.items()):
        tick = Decimal(scales[symbol].tick_size)
        low_high = [f"{(ticks * tick).normalize():f}" for ticks in prices.get(symbol, ())]
        symbols.append(SymbolInspection(symbol, counts.total(), dict(sorted(counts.items())), *(low_high or ("", ""))))
    first = flow.instruments[0]
    return FileInspection(flow.sources()[0], first.tick_size, first.lot_size, symbols)


def convert_file(file: DataFile, out: Path) -> Conversion:
    """Write a file's records as Parquet, one file or a folder.

    Raise `ConfigurationError` if the file has no book, or cannot be read or written.
    """
    from exchange_server.replay.parquet import RecordingInfo, write_parquet

    form = file.format or detect_format(file)
    if form in PRICE_FORMATS:
        raise ConfigurationError(f"expected a recording with a book to convert, was one of {form}")
    try:
        symbols = tuple(filter(None, file.symbol.split(",")))
        loader = open_recording(
            form, file.path, symbols, day=file.day, orderbook=file.orderbook, trades=file.trades, queue=file.queue
        )
        tick_size, lot_size = scale_of(form, file.path)
        info = RecordingInfo(source_format(form, file.path), tick_size, lot_size, loader.symbols)
        records = write_parquet(out, loader, info)
    except (ExchangeError, OSError) as error:
        raise ConfigurationError(str(error)) from error
    return Conversion(records, loader.symbols, loader.errors, loader.skipped)
