"""Prometheus metrics of an exchange, made for each request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final, get_args

import msgspec
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from deltabook.wire.durations import Durations
from deltabook.wire.metrics import Exposition, histogram, histograms, volume
from exchange_server.admin.reports import Reports
from exchange_server.matching.inputs import PhaseName
from exchange_server.readers import farthest_behind_bytes

__all__ = ["MOST_MEASURED", "ExchangeMetrics", "JournalFigures"]

MOST_MEASURED: Final = 200
"""Largest number of symbols that have metrics of their own: the symbols with the lowest numbers. The limit keeps a
monitor's request from delaying the market.
"""
_PREFIX: Final = "deltabook_exchange"


class JournalFigures(msgspec.Struct, frozen=True):
    """Figures of the journal at one moment."""

    bytes: int
    """Number of bytes of requests written to the journal, including those in removed segments."""
    snapshot_age_s: float | None
    """Time since this process wrote its latest snapshot, in seconds; None if it has written none."""


class ExchangeMetrics:
    """Collects the metrics of ``/metrics``.

    The metrics are collected on the reactor's thread, so that the market does not change meanwhile.
    """

    def __init__(
        self,
        reports: Reports,
        journal: Callable[[], JournalFigures],
        fsyncs: Durations,
        streams: Callable[[], Mapping[str, int]],
        *,
        run_id: str = "",
    ) -> None:
        """Create the metrics; ``streams`` returns the number of messages of each feed so far, by the feed's name."""
        self._reports, self._journal, self._fsyncs, self._streams = reports, journal, fsyncs, streams
        self.answer = Exposition("exchange", run_id, self._collect).answer
        """Function that returns the body of ``/metrics`` and its content type, given the types that a monitor accepts.
        """

    def _collect(self) -> Iterator[Metric]:
        yield from self._of_market()
        yield from self._of_symbols()
        yield from self._of_faces()
        yield from self._of_journal()

    def _of_market(self) -> Iterator[Metric]:
        market = self._reports.exchange.market
        yield CounterMetricFamily(f"{_PREFIX}_inputs", "Requests in the journal.", market.inputs)
        yield CounterMetricFamily(f"{_PREFIX}_orders", "Orders that were accepted.", market.orders)
        yield CounterMetricFamily(f"{_PREFIX}_trades", "Executions.", market.trades)
        yield GaugeMetricFamily(f"{_PREFIX}_live_orders", "Orders in the books, or waiting.", market.live_orders)
        yield GaugeMetricFamily(f"{_PREFIX}_accounts", "Accounts.", len(market.accounts) - 1)
        refused = CounterMetricFamily(f"{_PREFIX}_refused", "Requests that were refused.", labels=("reason",))
        for reason, count in self._reports.refused().items():
            refused.add_metric((reason,), count)
        yield refused
        messages = CounterMetricFamily(f"{_PREFIX}_messages", "Messages of a feed.", labels=("feed",))
        for feed, count in self._streams().items():
            messages.add_metric((feed,), count)
        yield messages

    def _of_symbols(self) -> Iterator[Metric]:
        books = self._reports.exchange.market.books
        counts = Counter(book.phase for book in books.values())
        in_phase = GaugeMetricFamily(f"{_PREFIX}_symbols", "Symbols that are in a phase.", labels=("phase",))
        for phase in get_args(PhaseName):
            in_phase.add_metric((phase,), counts[phase])
        yield in_phase
        phases = GaugeMetricFamily(f"{_PREFIX}_phase", "1 for the phase of a symbol.", labels=("symbol", "phase"))
        orders = GaugeMetricFamily(f"{_PREFIX}_book_orders", "Orders in the book of a symbol.", labels=("symbol",))
        for symbol, book in islice(books.items(), MOST_MEASURED):
            for phase in get_args(PhaseName):
                phases.add_metric((symbol, phase), float(book.phase == phase))
            orders.add_metric((symbol,), len(book.orders))
        yield phases
        yield orders

    def _of_faces(self) -> Iterator[Metric]:
        sessions = GaugeMetricFamily(f"{_PREFIX}_sessions", "Connections.", labels=("face",))
        following = GaugeMetricFamily(f"{_PREFIX}_listeners", "Connections that follow a stream.", labels=("face",))
        lag = GaugeMetricFamily(f"{_PREFIX}_lag_bytes", "Bytes that the slowest listener is behind.", labels=("face",))
        for name, face in self._reports.faces.items():
            connections = face.readers.connections
            sessions.add_metric((name,), len(connections))
            following.add_metric((name,), sum(c.reader.tail is not None for c in connections))
            lag.add_metric((name,), farthest_behind_bytes(connections))
        yield sessions
        yield following
        yield lag
        faces = {name: face.readers for name, face in self._reports.faces.items()}
        what = "Time from reading the first request of a batch until the market has carried out the batch."
        requests = [((name,), readers.requests) for name, readers in faces.items()]
        yield histograms(f"{_PREFIX}_request_seconds", what, ("face",), requests)
        what = "Time from the market's first message of a burst until the burst is written to all connections."
        deliveries = [((name,), readers.deliveries) for name, readers in faces.items()]
        yield histograms(f"{_PREFIX}_delivery_seconds", what, ("face",), deliveries)

    def _of_journal(self) -> Iterator[Metric]:
        figures = self._journal()
        what = "Bytes of requests written to the journal, those in removed segments included."
        yield GaugeMetricFamily(f"{_PREFIX}_journal_bytes", what, figures.bytes)
        if figures.snapshot_age_s is not None:
            what = "Time since this process wrote its newest snapshot."
            yield GaugeMetricFamily(f"{_PREFIX}_snapshot_age_seconds", what, figures.snapshot_age_s)
        what = "Duration of each fsync of the journal."
        yield histogram(f"{_PREFIX}_fsync_seconds", what, self._fsyncs)
        yield from volume(_PREFIX, Path(self._reports.directory))
