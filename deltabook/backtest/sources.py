"""What a backtest's recordings were like, in lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltabook.backtest.flow import SourceFigures, time_text
from exchange_server.replay import PRICE_FORMATS

__all__ = ["book_lines", "dropped_line", "source_lines"]


def source_lines(source: SourceFigures) -> Iterator[str]:
    """Yield lines about one file: its records and their times, then what is wrong with its book."""
    times = f"{time_text(source.begin_ns)} to {time_text(source.end_ns)}" if source.records else "none"
    yield (
        f"{source.name}: {source.format}, {', '.join(source.symbols)}, {source.records:,} records ({times}), "
        f"{source.errors:,} bad, {source.skipped:,} left out"
    )
    for line in book_lines(source):
        yield f"  {line}"


def book_lines(source: SourceFigures) -> Iterator[str]:
    """Yield lines about the book that a file's records make by themselves; none of one that is never crossed."""
    book = source.orderbook
    if book is not None and book.rows:
        yield (
            f"order book file: the touch agrees on {book.agreed:,} of {book.rows:,} rows "
            f"({100 * book.agreed / book.rows:.1f} %) and is mended on the others: {book.stale:,} with stale orders, "
            f"{book.unannounced:,} with volume that no message announced"
        )
        yield (
            f"order book file: {book.purged_orders:,} stale orders purged, {book.added_orders:,} synthetic orders "
            f"added, {book.contradictions:,} contradictions"
        )
    if source.format in PRICE_FORMATS:
        yield "there is no book in this data: orders are filled at the next price, as if as much were there as traded"
    elif source.format == "depth":
        yield "the book is levels of synthetic orders: where an own order stands in a queue is a model (--queue)"
    if source.crossed:
        share = f"{source.crossed:,} of them ({source.crossed_percent:.1f} %)"
        yield f"the book of its records alone is crossed after {share}"
    if source.stale_orders:
        yield f"{source.stale_orders:,} orders stayed crossed for over a second: the recording has lost their ends"


def dropped_line(dropped: Mapping[str, int]) -> str:
    """Return how many records had no effect in the market, and why."""
    reasons = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in dropped.items())
    return f"records without effect: {sum(dropped.values()):,}" + (f" ({reasons})" if reasons else "")
