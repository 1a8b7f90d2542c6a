"""Recorded files: their formats, and the scale and the loader of each format."""

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
"""Format → size of a tick (in money) and of a lot in its files. A Parquet file has sizes of its own: see `scale_of`."""


PRICE_FORMATS: Final[frozenset[RecordingFormat]] = frozenset({"trades", "bars"})
"""Formats without a book; only backtests can play them."""
OUTLIER_FACTOR: Final = 10
"""Orders of a Bitstamp recording at more than this many times the mid price are dropped."""


def scale_of(form: RecordingFormat, path: Path) -> tuple[str, str]:
    """Return the size of a tick and of a lot in a file; raise `ReplayFileError` for a Parquet file without them."""
    if form != "parquet":
        return SCALES[form]
    from exchange_server.replay.parquet import read_info

    info = read_info(path)
    return info.tick_size, info.lot_size


def source_format(form: RecordingFormat, path: Path) -> RecordingFormat:
    """Return the format of the original file.

    Raise `ReplayFileError` for a Parquet file that names no known format.
    """
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
    """Return a counter of crossed rows for a recording of a format."""
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
    """Return the loader of a file.

    * ``symbols``: the stocks of an ITCH file, or the symbols of a Parquet file, to play. A file of any other format has
      one instrument, to which the only symbol is given.
    * ``day``: the day (such as 2012-06-21) from whose midnight the file's times count.
    * ``orderbook``: LOBSTER's order book file of the same messages; it corrects the book that the messages give.
    * ``trades``: trades of the same period as a file of depth by level.
    * ``queue``: the choice of the orders that are cancelled when the depth of a level decreases.
    * ``tick``: for trades or bars alone, the distance of the assumed ask from the assumed bid.

    Raise `ExchangeConfigurationError` for an argument that the format does not take.
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
        from exchange_server.replay.parquet import ParquetLoader  # the exchange replays other files without pyarrow

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
