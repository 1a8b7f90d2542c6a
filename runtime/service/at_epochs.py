"""Rows of relations and views at an epoch, for ad-hoc questions.

The rows of a relation at the end of epoch n are those of a snapshot, taken at an epoch S ≤ n, plus the deltas of the
epochs in (S, n]. The rows of a view at the end of epoch n are the rows of its newest result, which is the result at an
epoch m ≥ n, minus the changes of the view in (n, m].
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from twisted.internet.defer import Deferred

from runtime.epochs import EpochLogError, EpochLogReader, SnapshotDirectory, add_up, rows_at
from runtime.epochs.consolidating import consolidate
from runtime.plan import Relation, View, decode_program, stream_views
from runtime.service.results.hub import Hub
from runtime.service.sandbox import AskError, Cancellation
from runtime.service.subscriptions import History, Listener, Message, Start
from runtime.views.rows import change_schema

__all__ = ["EpochGoneError", "PublishedView", "RelationsAtEpochs", "ViewsAtEpochs", "published_views"]


class EpochGoneError(AskError):
    """The epoch is retired, or a view is not available at that epoch."""


_ATTEMPTS: Final = 2
"""Number of attempts to read the log, whose first epochs may be retired during an attempt. Each attempt begins with the
newest snapshot."""


class RelationsAtEpochs:
    """Reader of the relations of one log at an epoch. May be called from any thread; calls run one at a time.

    The rows of a relation at the newest requested epoch are kept, so that the next question only reads the changes
    since then. Rows at an older epoch are computed from a snapshot, and not kept.
    """

    def __init__(self, epochs: Path, snapshots: Path, most_bytes: int) -> None:
        """Create a reader of the log and the snapshots in these directories; ``most_bytes`` bounds the kept rows."""
        self._log = EpochLogReader(epochs)
        self._snapshots = SnapshotDirectory(snapshots)
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, tuple[int, Relation, pa.Table]] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, relation: Relation, epoch: int, cancel: Cancellation) -> pa.Table:
        """Return the rows at the end of an epoch, with their weights in the last column.

        Raises `EpochGoneError` for an epoch that is no longer available, `CostlyError` if the question is cancelled.
        """
        with self._lock:
            for attempt in range(_ATTEMPTS):
                try:
                    rows = self._at(relation, epoch, cancel)
                    cancel.check()
                    return rows
                except (EpochLogError, OSError) as error:
                    cancel.check()
                    if attempt == _ATTEMPTS - 1:
                        raise EpochGoneError(self._gone(epoch, error)) from None
        raise AssertionError("the last attempt returns or raises")

    def kept(self) -> dict[str, int]:
        """Return the kept relations, each with its epoch; for tests."""
        return {name: epoch for name, (epoch, _, _) in self._kept.items()}

    def _at(self, relation: Relation, epoch: int, cancel: Cancellation) -> pa.Table:
        begin, known, rows = self._kept.get(relation.name, (-1, relation, None))
        if rows is None or begin > epoch or known != relation:
            snapshot = self._snapshots.newest(epoch)
            rows = _typed(rows_at(self._log, snapshot, relation.name, epoch, stopped=cancel.__bool__), relation)
        elif begin < epoch:
            deltas = add_up(self._log, relation.name, begin, epoch, stopped=cancel.__bool__)
            if deltas is not None:
                rows = consolidate(pa.concat_tables([rows, _typed(deltas, relation)]))
        cancel.check()
        if epoch >= self._kept.get(relation.name, (-1,))[0]:
            self._keep(relation, epoch, rows)
        return rows

    def _keep(self, relation: Relation, epoch: int, rows: pa.Table) -> None:
        self._kept.pop(relation.name, None)
        self._kept[relation.name] = (epoch, relation, rows)
        kept_bytes = sum(table.nbytes for _, _, table in self._kept.values())
        while kept_bytes > self._most_bytes:
            _, (_, _, table) = self._kept.popitem(last=False)
            kept_bytes -= table.nbytes

    def _gone(self, epoch: int, error: Exception) -> str:
        first, latest = self._log.first(), self._log.latest()
        if epoch < first:
            return f"expected an epoch from {first} on, as earlier ones are retired, was {epoch}"
        return f"expected an epoch up to {latest} that can be read, was {epoch}: {error}"


def _typed(rows: pa.Table | None, relation: Relation) -> pa.Table:
    """Return the rows in the relation's types; an empty table if ``rows`` is None."""
    schema = change_schema(relation.columns)
    if rows is None:
        return schema.empty_table()
    return rows.rename_columns(schema.names).cast(schema)


class PublishedView(msgspec.Struct, frozen=True, eq=False):
    """Full result of a view at the end of a committed epoch."""

    view: View
    """View that has the result."""
    since: int
    """First epoch of the view in the hub."""
    epoch: int
    """Epoch of the rows."""
    rows: pa.Table
    """Rows with their ``weight`` in the last column."""


def published_views(hub: Hub, names: Sequence[str], reactor: Any) -> Deferred[dict[str, PublishedView]]:
    """Return a Deferred of the newest committed results of these views. Called on the reactor's thread.

    The result of an express view that has changed since the last committed epoch is available once the open epoch is
    committed. The Deferred fails with `AskError` for a view that has failed or is dropped meanwhile. A caller may
    cancel the Deferred.
    """
    views = {view.name: view for view in hub.views if view.name in names}
    collected = _Collected({name: (view, hub.since[name]) for name, view in views.items()})
    subscription = hub.subscribe(list(views), collected, Start())
    if subscription is None:
        collected.done.errback(
            AskError("expected room for another subscriber, as a question about views is one for a moment, was none")
        )
        return collected.done

    def ended(result: Any) -> Any:
        # Called in the reactor's next turn, because the hub may be iterating over its subscribers now.
        reactor.callLater(0, hub.unsubscribe, subscription)
        return result

    collected.done.addBoth(ended)
    subscription.catch_up()
    return collected.done


class _Collected(Listener):
    """Listener that collects one snapshot of each view."""

    def __init__(self, views: Mapping[str, tuple[View, int]]) -> None:
        self._views = dict(views)
        self._published: dict[str, PublishedView] = {}
        self.done: Deferred[dict[str, PublishedView]] = Deferred()

    def write(self, message: Message) -> None:
        """Collect a snapshot or an error; see `Listener`."""
        header, name = message.header, message.header.view
        if self.done.called or name in self._published or name not in self._views:
            return
        view, since = self._views[name]
        if header.kind == "error":
            self.done.errback(AskError(f"view {name} failed: {header.reason}"))
        elif header.kind == "snapshot" and message.rows is not None:
            self._published[name] = PublishedView(view, since, header.to_epoch, message.rows)
            if len(self._published) == len(self._views):
                self.done.callback(self._published)

    def flush(self) -> None:
        """Do nothing; see `Listener`."""

    def finish(self) -> None:
        """Do nothing; see `Listener`."""


class ViewsAtEpochs:
    """Reader of the results of views at earlier epochs. May be called from any thread."""

    def __init__(self, log: Callable[[], EpochLogReader], history: History) -> None:
        """Create a reader; ``log`` returns a reader of the log for one question."""
        self._log = log
        self._history = history

    def at(self, published: PublishedView, epoch: int, cancel: Cancellation) -> pa.Table:
        """Return the view's rows at the end of an epoch, with their weights in the last column.

        Raises `EpochGoneError` if they are not available any more, `AskError` for an epoch after that of ``published``,
        and `CostlyError` if the question is cancelled.
        """
        view = published.view
        if epoch > published.epoch:
            raise AskError(
                f"expected an epoch up to {published.epoch}, the newest published of view {view.name}, was {epoch}"
            )
        if epoch < published.since:
            self._check_known(published, epoch)
        tables, at = [published.rows], epoch
        while at < published.epoch:
            cancel.check()
            past = self._history.read(view, published.since, at, published.epoch)
            if past.gone:
                raise EpochGoneError(f"view {view.name} is not available at epoch {epoch}: {past.gone}")
            if past.rows is not None:
                place = past.rows.num_columns - 1
                tables.append(past.rows.set_column(place, past.rows.field(place), pc.negate(past.rows.column(place))))
            at = past.reached
        return consolidate(pa.concat_tables(tables), published.rows.schema) if len(tables) > 1 else published.rows

    def _check_known(self, published: PublishedView, epoch: int) -> None:
        """Raise `EpochGoneError` unless the log has the view at this epoch, which is before `PublishedView.since`.

        The error is always raised for a view of the Spark lane, whose earlier results are not in the log.
        """
        view = published.view
        gone = f"view {view.name} begins at epoch {published.since}, was asked for at epoch {epoch}"
        if view.lane == "spark":
            raise EpochGoneError(gone)
        try:
            control = self._log().control_before(epoch)
        except EpochLogError as error:
            raise EpochGoneError(f"{gone}: {error}") from None
        program = decode_program(control) if control else None
        views = (*program.views, *stream_views(program).views) if program is not None else ()
        known = next((known for known in views if known.name == view.name), None)
        if known is None or (known.home, known.lane) != (view.home, view.lane):
            raise EpochGoneError(f"expected an epoch at which view {view.name} exists, was {epoch}")
