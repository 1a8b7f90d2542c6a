"""Views at an epoch: their published rows, minus their changes since then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from twisted.internet.defer import Deferred

from runtime.epochs import EpochLogError, EpochLogReader
from runtime.epochs.consolidating import consolidate
from runtime.plan import View, decode_program, stream_views
from runtime.service.asking.relations import GoneError
from runtime.service.results.hub import Hub
from runtime.service.sandbox import AskError, Cancel
from runtime.service.subscriptions import History, Listener, Message, Start

__all__ = ["PublishedView", "ViewsAtEpochs", "published_views"]


class PublishedView(msgspec.Struct, frozen=True, eq=False):
    """Full result of a view at the end of a committed epoch."""

    view: View
    since: int
    """First epoch of the view in the hub."""
    epoch: int
    rows: pa.Table
    """Columns and ``weight``."""


def published_views(hub: Hub, names: Sequence[str], reactor: Any) -> Deferred[dict[str, PublishedView]]:
    """Return a Deferred of the newest committed results of these views; on the reactor's thread.

    A view of the express lane that is ahead of its last epoch is available once the next epoch is committed. The
    Deferred fails with `AskError` for a view that has failed, or is dropped meanwhile, and may be cancelled.
    """
    views = {view.name: view for view in hub.views if view.name in names}
    collected = _Collected({name: (view, hub.since[name]) for name, view in views.items()})
    subscription = hub.subscribe(list(views), collected, Start())
    if subscription is None:
        collected.done.errback(
            AskError("expected fewer subscribers at once, as a question about views is one for a moment")
        )
        return collected.done

    def ended(result: Any) -> Any:
        # Deferred: the hub may be iterating over its subscribers.
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
    """Results of views at earlier epochs. May be called from any thread."""

    def __init__(self, log: Callable[[], EpochLogReader], history: History) -> None:
        """Create a reader; ``log`` returns a reader of the log for one question."""
        self._log = log
        self._history = history

    def at(self, published: PublishedView, epoch: int, cancel: Cancel) -> pa.Table:
        """Return the view's rows at the end of an epoch, with their weights in the last column.

        Raises `GoneError` if they are not available, `CostlyError` if the question is cancelled.
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
                raise GoneError(f"view {view.name} is not available at epoch {epoch}: {past.gone}")
            if past.rows is not None:
                place = past.rows.num_columns - 1
                tables.append(past.rows.set_column(place, past.rows.field(place), pc.negate(past.rows.column(place))))
            at = past.reached
        return consolidate(pa.concat_tables(tables), published.rows.schema) if len(tables) > 1 else published.rows

    def _check_known(self, published: PublishedView, epoch: int) -> None:
        """Raise `GoneError` if the view did not exist at an epoch before the hub's start."""
        view = published.view
        gone = f"view {view.name} begins at epoch {published.since}, was asked for at epoch {epoch}"
        if view.lane == "spark":
            raise GoneError(gone)
        try:
            control = self._log().control_before(epoch)
        except EpochLogError as error:
            raise GoneError(f"{gone}: {error}") from None
        program = decode_program(control) if control else None
        views = (*program.views, *stream_views(program).views) if program is not None else ()
        known = next((known for known in views if known.name == view.name), None)
        if known is None or (known.home, known.lane) != (view.home, view.lane):
            raise GoneError(f"expected an epoch at which view {view.name} exists, was {epoch}")
