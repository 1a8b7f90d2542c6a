"""Recorded files by the name of their format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from exchange_server.errors import ExchangeConfigurationError, ReplayFileError
from exchange_server.replay.bitstamp import BitstampLoader
from exchange_server.replay.crossing import CrossedRows
from exchange_server.replay.dbtoaster import DbtoasterLoader
from exchange_server.replay.depth import UNIT, DepthLoader, QueueModel
from exchange_server.replay.itch import ItchLoader
from exchange_server.replay.loader import Loader, midnight_ns
from exchange_server.replay.lobster import LobsterLoader
from exchange_server.replay.prices import PriceLoader

__all__ = [
    "PRICE_FORMATS",
    "SCALES",
    "RecordingFormat",
    "crossed_rows",
    "open_recording",
    "outlier_factor",
    "scale_of",
    "source_format",
]

RecordingFormat = Literal["dbtoaster", "bitstamp", "lobster", "itch", "depth", "trades", "bars", "parquet"]

SCALES: Final[dict[RecordingFormat, tuple[str, str]]] = {
    "dbtoaster": ("0.0001", "1"),
    "bitstamp": ("0.01", "0.00000001"),
    "lobster": ("0.0001", "1"),
    "itch": ("0.0001", "1"),
    "depth": (UNIT, UNIT),
    "trades": (UNIT, UNIT),
    "bars": (UNIT, UNIT),
    "parquet": (UNIT, UNIT),
}
"""Worth of a tick and of a lot in a format's files; a Parquet file has its own, see `scale_of`."""


PRICE_FORMATS: Final[frozenset[RecordingFormat]] = frozenset({"trades", "bars"})
"""Formats without a book, which only a backtest plays."""
OUTLIER_FACTOR: Final = 10
"""Orders of a capture at more than so many times the mid price are dropped."""


def scale_of(form: RecordingFormat, path: Path) -> tuple[str, str]:
    """Return the worth of a tick and of a lot in a file; raises `ReplayFileError` for one of Parquet that does not say
    it."""
    if form != "parquet":
        return SCALES[form]
    from exchange_server.replay.parquet import read_info

    info = read_info(path)
    return info.tick_size, info.lot_size


def source_format(form: RecordingFormat, path: Path) -> RecordingFormat:
    """The format that the records had at first; raises `ReplayFileError` for one of Parquet that does not say it."""
    if form != "parquet":
        return form
    from exchange_server.replay.parquet import read_info

    name = read_info(path).format
    if name not in SCALES:
        raise ReplayFileError(f"expected a recording made of {', '.join(SCALES)}, was one of {name!r}, at {path}")
    return name


def outlier_factor(form: RecordingFormat) -> int:
    """Return the outlier factor of `exchange_server.matching.MarketRules` for recordings of a format."""
    return OUTLIER_FACTOR if form == "bitstamp" else 0


def crossed_rows(form: RecordingFormat) -> CrossedRows:
    """A counter of crossed rows for a recording of a format."""
    return CrossedRows(is_shown_first=form == "bitstamp", outlier_factor=outlier_factor(form))


def open_recording(
    form: RecordingFormat,
    path: Path,
    symbols: Sequence[str],
    *,
    day: str = "",
    orderbook: Path | None = None,
    trades: Path | None = None,
    queue: QueueModel = "back",
    tick: str = "",
) -> Loader:
    """The loader of a file; ``day`` (2012-06-21) is the one whose midnight its times count from.

    ``orderbook`` is LOBSTER's order book file of the same messages, by which their book is mended. ``trades`` are those
    of the same time as a file of depth, ``queue`` says how its levels shrink, ``tick`` is the spread of a book that is
    supposed around prices. A file of ITCH is played for any of its stocks, by their own names; the others hold one
    instrument, which gets the one symbol. Raises `ExchangeConfigurationError` for what does not fit the format.
    """
    if orderbook is not None and form != "lobster":
        raise ExchangeConfigurationError(f"expected an order book file for LOBSTER only, was {orderbook} for {form}")
    if trades is not None and form != "depth":
        raise ExchangeConfigurationError(f"expected trades beside depth only, was {trades} for {form}")
    if form == "itch":
        return ItchLoader(path, symbols, day=day)
    if form == "parquet":
        if day:
            raise ExchangeConfigurationError(f"expected no day for a recording, whose times have one, was {day}")
        from exchange_server.replay.parquet import ParquetLoader  # the exchange plays other files without pyarrow

        return ParquetLoader(path, symbols)
    if len(symbols) != 1:
        raise ExchangeConfigurationError(f"expected one symbol for a file of {form}, was {', '.join(symbols)}")
    if form == "lobster":
        return LobsterLoader(path, symbols[0], day=day, orderbook=orderbook)
    if form == "dbtoaster":
        return DbtoasterLoader(path, symbols[0], day_ns=midnight_ns(day) if day else 0)
    if day:
        raise ExchangeConfigurationError(f"expected no day for a file of {form}, whose times have one, was {day}")
    if form == "depth":
        return DepthLoader(path, symbols[0], trades=trades, queue=queue)
    if form in PRICE_FORMATS:
        return PriceLoader(path, symbols[0], is_bars=form == "bars", tick_size=tick)
    return BitstampLoader(path, symbols[0])
