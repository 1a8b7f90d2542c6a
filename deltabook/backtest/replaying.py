"""Replay of a recording through the market, with the changes of SQL views, epoch by epoch.

```
files ──Record──▶ Market ──deltas of bids, asks, trades──▶ views ──▶ Epoch: rows added and removed, full results
```

An epoch is a span of market time, so its changes do not depend on the machine. Rows are Arrow tables with the types of
a runtime's results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.config import DataFile
from deltabook.backtest.deltas import Delta, DeltaEncoder
from deltabook.backtest.errors import ConfigurationError, EpochPassedError
from deltabook.backtest.flow import Flow
from deltabook.backtest.latency import Latency
from deltabook.backtest.simulation import BacktestLoop
from deltabook.backtest.views import BacktestViews, find_views, named_sql
from deltabook.wire.symbols import Instrument
from exchange_server.matching import Market, MarketRules, Now
from runtime.native.cache import default_kernels
from runtime.plan import Column
from runtime.relations.retention import Retention
from runtime.service.results.materialised import FullRows
from runtime.state import ARROW_TYPES

__all__ = ["Epoch", "Replay", "ViewDelta"]

_MILLION: Final = 1_000_000
_SECOND_NS: Final = 1_000_000_000

Row = tuple[Any, ...]
Counts = dict[Row, int]


class ViewDelta:
    """Changes of one view in an epoch; a row appears as often as it was added or removed."""

    def __init__(self, view: str, columns: Sequence[Column], counts: Counts, result: Callable[[], pa.Table]) -> None:
        self.view = view
        """Name of the view."""
        self._columns, self._counts, self._result = columns, counts, result

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __repr__(self) -> str:
        added = sum(count for count in self._counts.values() if count > 0)
        removed = -sum(count for count in self._counts.values() if count < 0)
        return f"<ViewDelta of {self.view}: {added} rows added, {removed} removed>"

    @cached_property
    def added(self) -> pa.Table:
        """Rows that were added, sorted by their columns."""
        return _table(self._columns, {row: count for row, count in self._counts.items() if count > 0})

    @cached_property
    def removed(self) -> pa.Table:
        """Rows that were removed, sorted by their columns."""
        return _table(self._columns, {row: -count for row, count in self._counts.items() if count < 0})

    def result(self) -> pa.Table:
        """Return all rows of the view at the end of the epoch; raise `EpochPassedError` once the replay has
        advanced.
        """
        return self._result()


class Epoch(Mapping[str, ViewDelta]):
    """A span of market time: a mapping from each view, changed or not, to its changes. Names are case-insensitive."""

    def __init__(self, number: int, time_ns: int, records: int, deltas: Mapping[str, ViewDelta]) -> None:
        self.number = number
        """Number of the epoch, from 1; spans without a record are no epochs."""
        self.time_ns = time_ns
        """Market time of the last record, in nanoseconds."""
        self.records = records
        """Number of records played in this epoch."""
        self._deltas = deltas

    def __getitem__(self, view: str) -> ViewDelta:
        try:
            return self._deltas[view.lower()]
        except KeyError:
            raise KeyError(f"expected one of the views {', '.join(self._deltas)}, was {view}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._deltas)

    def __len__(self) -> int:
        return len(self._deltas)

    def __repr__(self) -> str:
        changed = ", ".join(view for view, delta in self._deltas.items() if delta) or "nothing"
        return f"<Epoch {self.number}: {self.records} records, changed {changed}>"

    @property
    def changes(self) -> dict[str, ViewDelta]:
        """Changes of the views that changed."""
        return {view: delta for view, delta in self._deltas.items() if delta}


class Replay:
    """Recorded files and views over them; each iteration plays the files from their beginning.

    ``views`` maps names to SQL, or has names of shipped views. The constructor raises `ConfigurationError` for files
    and SQL that cannot be used; playing raises it for a damaged file.
    """

    def __init__(
        self,
        data: Sequence[DataFile],
        views: Mapping[str, str] | Sequence[str],
        *,
        epoch_ms: int = 1_000,
        limit_records: int = 0,
        trades_rows: int = 20_000,
        trades_time_s: int = 300,
    ) -> None:
        if isinstance(views, str) or not views:
            raise ConfigurationError(f"expected views by name, as in {{name: sql}}, was {views!r}")
        if epoch_ms < 1:
            raise ConfigurationError(f"expected an epoch of 1 ms or more, was {epoch_ms}")
        self._data, self._limit, self._epoch_ns = tuple(data), limit_records, epoch_ms * _MILLION
        self._retention = Retention(trades_rows, trades_time_s * _SECOND_NS)
        given = named_sql(views) if isinstance(views, Mapping) else {}
        self._names = [name.lower() for name in views]
        self._selects = find_views(self._names, given)
        self.instruments: tuple[Instrument, ...] = Flow(self._data).instruments
        """Instruments of the files."""
        self.slow_views: dict[str, str] = BacktestViews(self._selects).slow
        """Views that DuckDB recomputes for each epoch, with the reason."""

    def __iter__(self) -> Iterator[Epoch]:
        return _Player(self._data, self._limit, self._retention, self._selects, self._names).epochs(self._epoch_ns)


class _Player:
    """One pass through the files."""

    def __init__(
        self,
        data: Sequence[DataFile],
        limit_records: int,
        retention: Retention,
        selects: Sequence[Any],
        names: Sequence[str],
    ) -> None:
        self._flow = Flow(data, limit_records)
        rules, now = MarketRules(self._flow.instruments, outlier_factor=self._flow.outlier_factor), Now()
        encoder = DeltaEncoder(rules, now, retention)
        self._clock = SimulatedClock()
        self._pending: list[Delta] = []
        self._simulation = BacktestLoop(
            Market(rules, (encoder,), (), now), encoder, self._clock, Latency(None), step_ns=0,
            on_deltas=self._pending.extend,
        )  # fmt: skip
        self._views = BacktestViews(selects, default_kernels())
        encoder.gives_time = self._views.reads_time
        self._names = names
        self._number = 0
        # A view may have rows before there is any record: a COUNT over no rows is 0. The first epoch adds such rows.
        self._first_rows = {name: self._rows(name) for name in names}

    def epochs(self, epoch_ns: int) -> Iterator[Epoch]:
        for _, records in groupby(self._flow, lambda record: record.time_ns // epoch_ns):
            before = self._simulation.records
            self._simulation.play(records)
            self._number += 1
            changes = self._step()
            yield Epoch(self._number, self._clock.now_ns, self._simulation.records - before, changes)

    def _step(self) -> dict[str, ViewDelta]:
        counts, self._first_rows = self._first_rows, {}
        for view, rows, numbers in self._views.step(self._pending):
            by_row = counts.setdefault(view, {})
            for row, number in zip(rows, numbers, strict=True):
                by_row[row] = by_row.get(row, 0) + number
        self._pending.clear()
        return {name: self._delta(name, counts.get(name, {})) for name in self._names}

    def _rows(self, view: str) -> Counts:
        return dict(zip(*self._views.snapshot(view), strict=True))

    def _delta(self, view: str, counts: Counts) -> ViewDelta:
        number, columns = self._number, self._views.types[view]

        def result() -> pa.Table:
            if number != self._number:
                raise EpochPassedError(
                    f"expected the full result of {view} to be requested in its epoch {number}, was {self._number}"
                )
            return _table(columns, self._rows(view))

        return ViewDelta(view, columns, {row: count for row, count in counts.items() if count}, result)


def _table(columns: Sequence[Column], counts: Counts) -> pa.Table:
    """Return a sorted Arrow table with each row as often as its count; numbers with a fraction are decimals."""
    values = list(zip(*counts, strict=True)) or [()] * len(columns)
    arrays = [pa.array(each, ARROW_TYPES[column.type]) for each, column in zip(values, columns, strict=True)]
    weights = pa.array(counts.values(), pa.int64())
    table = pa.Table.from_arrays([*arrays, weights], names=[*(column.name for column in columns), "weight"])
    rows = FullRows(columns, table).sorted()
    return rows.arrow(0, len(rows))
