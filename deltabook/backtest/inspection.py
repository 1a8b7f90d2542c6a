"""What is in a recorded file, and the same as Parquet."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import msgspec

from deltabook.backtest.config import DataFile
from deltabook.backtest.errors import ConfigurationError
from deltabook.backtest.flow import Flow, SourceFigures, detect_format
from exchange_server.errors import ExchangeError
from exchange_server.replay import PRICE_FORMATS, open_recording, scale_of, source_format

__all__ = ["Conversion", "FileInspection", "SymbolInspection", "convert_file", "inspect_file"]


class SymbolInspection(msgspec.Struct, frozen=True):
    """Records of one symbol."""

    symbol: str
    """Instrument."""
    records: int
    """How many there are."""
    actions: dict[str, int]
    """How many by action."""
    lowest_price: str
    """Lowest price of an order or a trade, empty without one."""
    highest_price: str
    """Highest price of an order or a trade, empty without one."""


class FileInspection(msgspec.Struct, frozen=True):
    """One file, read whole."""

    source: SourceFigures
    """As a backtest's result has it."""
    tick_size: str
    """What a tick is worth."""
    lot_size: str
    """What a lot is worth."""
    symbols: list[SymbolInspection]
    """By symbol."""


class Conversion(msgspec.Struct, frozen=True):
    """What was written."""

    records: int
    """Records written."""
    symbols: tuple[str, ...]
    """Their symbols."""
    errors: int
    """Records that could not be used."""
    skipped: int
    """Records known not to be events of a book."""


def inspect_file(file: DataFile) -> FileInspection:
    """Read a file whole; raises `ConfigurationError`."""
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
    """Write a file's records as Parquet, one file or a folder; raises `ConfigurationError`."""
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
