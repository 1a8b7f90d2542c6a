"""What is told of the port that speaks PostgreSQL's protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from deltabook.wire.metrics import counter, gauge, labelled
from deltabook.wire.service import PostgresLine

__all__ = ["postgres_metrics"]

_PREFIX: Final = "deltabook_runtime_postgres"


def postgres_metrics(line: PostgresLine) -> Iterator[Metric]:
    """Of its connections and of what they ask."""
    yield gauge(f"{_PREFIX}_connections", "Connections of clients of PostgreSQL.", line.connections)
    yield gauge(f"{_PREFIX}_subscribers", "Subscribers of changes among them.", line.subscribers)
    yield gauge(f"{_PREFIX}_answer_bytes", "Of their answers, those of open cursors among them.", line.held_bytes)
    yield counter(f"{_PREFIX}_sessions", "Sessions that were let in, since the start.", line.sessions)
    yield counter(f"{_PREFIX}_questions", "Questions that were asked, since the start.", line.questions)
    yield counter(f"{_PREFIX}_copied_rows", "Rows that COPY has sent, since the start.", line.copied_rows)
    refused = (
        (("connection",), float(line.refused_connections)),
        (("statement",), float(line.failed_statements)),
        (("cancelled",), float(line.cancelled_statements)),
    )
    what = "Connections that were refused, statements that failed, and statements that were cancelled, since the start."
    yield labelled(CounterMetricFamily, f"{_PREFIX}_refused", what, ("what",), refused)
