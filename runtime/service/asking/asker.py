"""Answers to questions: their epoch, the relations and views that they read, turns and timeouts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall

from runtime.epochs import EpochLogReader
from runtime.plan import Column, Relation
from runtime.service.asking.errors import AskError, CostlyError, TooManyError, UnpublishedError
from runtime.service.asking.limits import AskLimits
from runtime.service.asking.question import CheckedQuestion, checked, unknown, with_epoch
from runtime.service.asking.relations import RelationsAtEpochs
from runtime.service.asking.sandbox import Beside, Cancel, Rows, Sandbox
from runtime.service.asking.views import PublishedView, ViewsAtEpochs, published_views
from runtime.service.health.memory import resident_bytes
from runtime.service.results.hub import Hub
from runtime.service.results.materialised import FullRows
from runtime.service.subscriptions import History
from runtime.views.rows import change_schema

__all__ = ["Asker"]

_INTERRUPT_S: Final = 0.05
_GONE: Final = "no client waits for the answer any more"


class Asker:
    """Answers questions about one runtime. Belongs to the reactor's thread, and works on threads of its pool."""

    def __init__(
        self,
        reactor: Any,
        hub: Hub,
        directory: Path,
        history: History,
        *,
        relations: Callable[[], Sequence[Relation]],
        sealed: Callable[[], int],
        in_thread: Callable[[Callable[[], Any]], Deferred[Any]],
        limits: AskLimits = AskLimits(),  # noqa: B008 (frozen)
    ) -> None:
        """``relations`` returns the current relations, ``sealed`` the newest epoch of the log in ``directory``."""
        self.limits = limits
        self._reactor = reactor
        self._hub = hub
        self._relations = relations
        self._sealed = sealed
        self._in_thread = in_thread
        self._at_epochs = RelationsAtEpochs(directory / "epochs", directory / "snapshots", limits.kept_bytes)
        self._views = ViewsAtEpochs(lambda: EpochLogReader(directory / "epochs"), history)
        self._running: set[Cancel] = set()
        self._turns: OrderedDict[Cancel, Deferred[None]] = OrderedDict()  # waiting questions, in the order of arrival

    @property
    def running(self) -> int:
        """Number of questions that are being answered."""
        return len(self._running)

    def stop(self) -> None:
        """Interrupt all questions."""
        for cancel in (*self._running, *self._turns):
            cancel.stop("the runtime stops")

    def newest(self) -> int:
        """Return the newest epoch at which every relation and every view can be read."""
        committed = self._hub.committed
        hub = self._hub
        lanes = {view.lane for view in hub.views if view.name not in hub.failed and hub.has_version(view.name)}
        return min([self._sealed(), *(committed.epoch(lane) for lane in lanes if committed is not None)])

    async def ask(
        self,
        sql: str,
        epoch: int | None,
        gone: Deferred[Any] | None = None,
        *,
        beside: Beside | None = None,
        most_rows: int | None = None,
        waits: bool = False,
        describes: bool = False,
        explains: bool = False,
    ) -> tuple[int, Rows]:
        """Return the epoch and the rows of an answer; raises `SqlError`, `AskError`.

        ``gone`` fires or fails when the client no longer waits for the answer.

        With ``waits`` the question waits for its turn while too many are answered; its timeout runs from its arrival.
        ``beside`` are further tables that it may name, ``most_rows`` replaces the limit of rows. With ``describes`` the
        answer has columns and no rows, with ``explains`` it is DuckDB's plan, one line in each row.
        """
        limits = self.limits
        is_crowded = len(self._running) >= limits.at_once or bool(self._turns)
        if is_crowded and (not waits or len(self._turns) >= limits.waiting):
            raise TooManyError(f"expected at most {limits.at_once} questions at a time, was one more: try later")
        cancel = Cancel()
        interrupting = LoopingCall(self._interrupt, cancel, waiting := _Waiting(), resident_bytes())
        interrupting.clock = self._reactor
        late = f"expected an answer within {limits.seconds:g} s, was a question that takes longer"
        timer = self._reactor.callLater(limits.seconds, cancel.stop, late)
        if gone is not None:
            gone.addBoth(lambda _: cancel.stop(_GONE))
        interrupting.start(_INTERRUPT_S, now=False)
        try:
            if is_crowded:
                await self._turn(cancel, waiting)
            self._running.add(cancel)
            return await self._answer(sql, epoch, cancel, waiting, _Wanted(beside, most_rows, describes, explains))
        finally:
            interrupting.stop()
            self._running.discard(cancel)
            if timer.active():
                timer.cancel()
            self._next_turn()

    async def _turn(self, cancel: Cancel, waiting: _Waiting) -> None:
        """Wait until there is room for another question; raises `CostlyError` if it is cancelled first."""
        turn = self._turns[cancel] = Deferred()
        try:
            await waiting.on(turn)
        except CancelledError:
            cancel.check()
            raise
        finally:
            self._turns.pop(cancel, None)
        waiting.over()

    def _next_turn(self) -> None:
        if self._turns and len(self._running) < self.limits.at_once:
            _, turn = self._turns.popitem(last=False)
            turn.callback(None)

    def _interrupt(self, cancel: Cancel, waiting: _Waiting, before_bytes: int) -> None:
        """Cancel a question for which the process grows too much, and interrupt a cancelled one.

        Called repeatedly, as DuckDB discards an interrupt that precedes its run. ``before_bytes`` is the memory of the
        process when the question arrived.
        """
        if not cancel and resident_bytes() - before_bytes > self.limits.growth_bytes:
            most = self.limits.growth_bytes >> 20
            cancel.stop(
                f"expected a question for which the process grows by at most {most} MiB, was one that needs more"
            )
        if cancel:
            cancel.stop("")
            waiting.give_up()

    async def _answer(
        self, sql: str, epoch: int | None, cancel: Cancel, waiting: _Waiting, wanted: _Wanted
    ) -> tuple[int, Rows]:
        question, epoch = await self._in_thread(lambda: self._checked(sql, epoch))
        beside = wanted.beside.tables if wanted.beside is not None else {}
        names = [entry for entry in question.names if entry[0] not in beside]
        relations = {relation.name: relation for relation in self._relations()}
        views = [view.name for view in self._hub.views]
        for name, place in names:
            if name not in relations and name not in views:
                raise unknown(question, name, place, list(relations), views)
        read = [relations[name] for name, _ in names if name in relations]
        of_views = [name for name, _ in names if name not in relations]
        if wanted.describes:
            columns = [(name, self._hub.result(name).columns) for name in of_views]
            columns += [(relation.name, relation.columns) for relation in read]
            described: Rows = await self._in_thread(lambda: self._described(question.sql, columns, cancel, wanted))
            return 0, described
        published: dict[str, PublishedView] = {}
        if unpublished := [name for name in of_views if not self._hub.has_version(name)]:
            raise UnpublishedError(f"view {unpublished[0]} has no version yet: Spark is starting")
        if of_views:
            if self._hub.committed is None:
                raise AskError("expected a question about relations alone, as no epochs of views are kept")
            try:
                published = await waiting.on(published_views(self._hub, of_views, self._reactor))
            except CancelledError:
                cancel.check()
                raise
        newest = min([self._sealed(), *(view.epoch for view in published.values())])
        at = newest if epoch is None else epoch
        if at > self._sealed():
            raise AskError(f"expected an epoch up to {self._sealed()}, the newest, was {at}")
        rows: Rows = await self._in_thread(
            lambda: self._rows(question.sql, at, read, list(published.values()), cancel=cancel, wanted=wanted)
        )
        return at, rows

    # On a thread of the pool

    def _checked(self, sql: str, epoch: int | None) -> tuple[CheckedQuestion, int | None]:
        from runtime.compiler.describe import database  # imports DuckDB, which takes 0.3 s on the first question

        select, at = with_epoch(sql, epoch)
        with database().cursor() as connection:
            return checked(select, connection), at

    def _described(
        self, sql: str, columns: Sequence[tuple[str, Sequence[Column]]], cancel: Cancel, wanted: _Wanted
    ) -> Rows:
        tables = {name: (own, FullRows(own, change_schema(own).empty_table()).arrow(0, 0)) for name, own in columns}
        sandbox = Sandbox(self.limits)
        try:
            return sandbox.answer(sql, tables, cancel, beside=wanted.beside, describes=True, explains=wanted.explains)
        finally:
            sandbox.close()

    def _rows(
        self,
        sql: str,
        epoch: int,
        relations: Sequence[Relation],
        views: Sequence[PublishedView],
        *,
        cancel: Cancel,
        wanted: _Wanted,
    ) -> Rows:
        tables: dict[str, tuple[Sequence[Column], pa.Table]] = {}
        read_bytes = 0
        for relation in relations:
            tables[relation.name] = self._shown(
                relation.columns, self._at_epochs.at(relation, epoch, cancel), read_bytes
            )
            read_bytes += tables[relation.name][1].nbytes
        for published in views:
            columns = published.view.columns
            tables[published.view.name] = self._shown(columns, self._views.at(published, epoch, cancel), read_bytes)
            read_bytes += tables[published.view.name][1].nbytes
        cancel.check()
        sandbox = Sandbox(self.limits)
        try:
            return sandbox.answer(
                sql, tables, cancel, beside=wanted.beside, most_rows=wanted.most_rows, explains=wanted.explains
            )
        finally:
            sandbox.close()

    def _shown(self, columns: Sequence[Column], rows: pa.Table, read_bytes: int) -> tuple[Sequence[Column], pa.Table]:
        """Return rows repeated by weight; raises `CostlyError` if they exceed the limit with those read before."""
        shown = FullRows(columns, rows.filter(pc.greater(rows.column(rows.num_columns - 1), 0)))
        most = self.limits.read_bytes
        if read_bytes + shown.whole_bytes > most:
            raise CostlyError(f"expected to read at most {most} bytes of relations and views, was more")
        return columns, shown.arrow(0, len(shown))


class _Wanted(msgspec.Struct, frozen=True):
    """Options of `Asker.ask`."""

    beside: Beside | None
    most_rows: int | None
    describes: bool
    explains: bool


class _Waiting:
    """The Deferred that a question waits for on the reactor, if any."""

    def __init__(self) -> None:
        self._deferred: Deferred[Any] | None = None

    def on(self, deferred: Deferred[Any]) -> Deferred[Any]:
        """Set the Deferred, and return it."""
        self._deferred = deferred
        return deferred

    def over(self) -> None:
        """End the wait."""
        self._deferred = None

    def give_up(self) -> None:
        """Cancel the Deferred."""
        if self._deferred is not None:
            self._deferred.cancel()
