"""Ad-hoc questions: any SELECT over relations and views, as they are at one epoch.

```
POST /v1/ask ──▶ Asker ──▶ sandbox        a process checks the question, and finds the relations and views that it reads
                   │──▶ at_epochs.py      the rows of these relations and views at the epoch
                   └──▶ sandbox           the same process runs the question over these rows, in a DuckDB of its own
```

The rows are sent to the process batch by batch. Only a few questions are answered at a time, each by a process of its
own. A thread of the reactor's pool waits for the process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from twisted.internet.defer import CancelledError, Deferred

from runtime.epochs import EpochLogReader
from runtime.plan import EPOCH_TIME, Column, Relation
from runtime.service.at_epochs import PublishedView, RelationsAtEpochs, ViewsAtEpochs, published_views
from runtime.service.results.hub import Hub
from runtime.service.results.materialised import FullRows
from runtime.service.sandbox import (
    AnswerRows,
    AskError,
    AskLimits,
    Beside,
    Cancellation,
    CostlyError,
    QuestionWorkers,
    Worker,
)
from runtime.service.sandbox.messages import Checked, Given, GivenTable
from runtime.service.sandbox.question import unknown
from runtime.service.subscriptions import History
from runtime.views.rows import change_schema

__all__ = ["Asker", "TooManyError", "UnpublishedError"]


class UnpublishedError(AskError):
    """A view of the Spark lane has no version yet."""


class TooManyError(AskError):
    """Too many questions are being answered."""


_GRACE_S: Final = 0.5
"""Time in seconds after which the process of a cancelled question is killed if the question has not ended."""
_BATCH_ROWS: Final = 16 * 1024
"""Greatest number of rows of a batch that is sent to a process."""
_GONE: Final = "no client waits for the answer any more"


class Asker:
    """Answerer of questions about one runtime.

    Belongs to the reactor's thread; slow calls run on threads of the reactor's pool.
    """

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
        """Create an asker without questions.

        ``relations`` returns the current relations, ``sealed`` the newest epoch of the log in ``directory``;
        ``in_thread`` runs a call on the reactor's pool.
        """
        self.limits = limits
        self._reactor = reactor
        self._hub = hub
        self._relations = relations
        self._sealed = sealed
        self._in_thread = in_thread
        self._at_epochs = RelationsAtEpochs(directory / "epochs", directory / "snapshots", limits.kept_bytes)
        self._views = ViewsAtEpochs(lambda: EpochLogReader(directory / "epochs"), history)
        self._workers = QuestionWorkers(limits)
        self._running: set[_Question] = set()
        self._turns: OrderedDict[_Question, Deferred[None]] = OrderedDict()
        """Waiting questions in the order of arrival, each with the Deferred that fires at its turn."""

    @property
    def running(self) -> int:
        """Number of questions that are being answered."""
        return len(self._running)

    def stop(self) -> None:
        """End all questions and their processes."""
        for question in (*self._running, *self._turns):
            question.stop("the runtime stops")
        self._workers.close()

    def newest(self) -> int:
        """Return the newest epoch at which every relation and every view can be read."""
        hub, committed = self._hub, self._hub.committed
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
    ) -> tuple[int, AnswerRows]:
        """Return the epoch and the rows of an answer.

        Raises `SqlError` for SQL that is refused, and `AskError` if there is no answer for another reason. ``gone``
        fires or fails when the client no longer waits for the answer.

        While ``limits.at_once`` questions are being answered, a further question is refused. With ``waits`` it waits
        for its turn, unless too many questions wait already. The timeout counts from the arrival of the question.
        ``beside`` are further tables that the question may name; ``most_rows`` replaces the limit of rows. With
        ``describes`` the answer has columns and no rows; with ``explains`` the answer is DuckDB's plan, one line in
        each row.
        """
        limits = self.limits
        is_crowded = len(self._running) >= limits.at_once or bool(self._turns)
        if is_crowded and (not waits or len(self._turns) >= limits.waiting):
            raise TooManyError(f"expected at most {limits.at_once} questions at a time, was one more: try later")
        question = _Question()
        late = f"expected an answer within {limits.seconds:g} s, was a question that takes longer"
        timer = self._reactor.callLater(limits.seconds, self._end, question, late)
        if gone is not None:
            gone.addBoth(lambda _: self._cancel(question, _GONE))
        try:
            if is_crowded:
                await self._turn(question)
            self._running.add(question)
            return await self._answer(sql, epoch, question, _Wanted(beside, most_rows, describes, explains))
        finally:
            self._running.discard(question)
            if timer.active():
                timer.cancel()
            self._next_turn()

    async def _turn(self, question: _Question) -> None:
        """Wait until there is room for another question; raise `CostlyError` if the question is cancelled first."""
        turn = self._turns[question] = Deferred()
        try:
            await question.waits(turn)
        finally:
            self._turns.pop(question, None)

    def _next_turn(self) -> None:
        if self._turns and len(self._running) < self.limits.at_once:
            _, turn = self._turns.popitem(last=False)
            turn.callback(None)

    def _cancel(self, question: _Question, reason: str) -> None:
        """Interrupt a question, and kill its process a moment later if the interrupt has had no effect."""
        question.stop(reason)
        if question in self._running:
            self._reactor.callLater(_GRACE_S, question.kill)

    def _end(self, question: _Question, reason: str) -> None:
        """Cancel a question, and kill its process at once."""
        question.stop(reason)
        question.kill()

    async def _answer(
        self, sql: str, epoch: int | None, question: _Question, wanted: _Wanted
    ) -> tuple[int, AnswerRows]:
        worker, checked = await self._in_thread(lambda: self._checked(sql, epoch, question))
        try:
            return await self._answer_of(worker, checked, question, wanted)
        finally:
            await self._in_thread(lambda: self._workers.give(worker))

    async def _answer_of(
        self, worker: Worker, checked: Checked, question: _Question, wanted: _Wanted
    ) -> tuple[int, AnswerRows]:
        beside = wanted.beside.tables if wanted.beside is not None else {}
        names = [entry for entry in checked.question.names if entry[0] not in beside]
        relations = {relation.name: relation for relation in self._relations()}
        views = [view.name for view in self._hub.views]
        for name, place in names:
            if name not in relations and name not in views:
                raise unknown(checked.question, name, place, list(relations), views)
        read = [relations[name] for name, _ in names if name in relations]
        of_views = [name for name, _ in names if name not in relations]
        if wanted.describes:
            empty = [_Shown(name, tuple(self._hub.result(name).columns)) for name in of_views]
            empty += [_Shown(relation.name, relation.columns) for relation in read]
            described: AnswerRows = await self._in_thread(lambda: _answered(worker, question, empty, None, wanted))
            return 0, described
        published: dict[str, PublishedView] = {}
        if unpublished := [name for name in of_views if not self._hub.has_version(name)]:
            raise UnpublishedError(f"view {unpublished[0]} has no version yet: Spark is starting")
        if of_views:
            if self._hub.committed is None:
                raise AskError("expected a question about relations alone, as no epochs of views are kept")
            published = await question.waits(published_views(self._hub, of_views, self._reactor))
        newest = min([self._sealed(), *(view.epoch for view in published.values())])
        at = newest if checked.epoch is None else checked.epoch
        if at > self._sealed():
            raise AskError(f"expected an epoch up to {self._sealed()}, the newest, was {at}")

        def rows() -> AnswerRows:
            shown = self._shown(at, read, list(published.values()), question)
            time_us = self._time_us(at, question) if checked.question.reads_clock else None
            return _answered(worker, question, shown, time_us, wanted)

        return at, await self._in_thread(rows)

    # Called on a thread of the pool

    def _checked(self, sql: str, epoch: int | None, cancel: Cancellation) -> tuple[Worker, Checked]:
        """Return a process that has checked the question, and the result of the check."""
        cancel.check()
        worker = self._workers.take()
        try:
            worker.await_start(cancel.check)
            with cancel.stopping(worker):
                return worker, worker.check(sql, epoch)
        except BaseException:
            self._workers.give(worker)
            raise

    def _shown(
        self, epoch: int, relations: Sequence[Relation], views: Sequence[PublishedView], cancel: Cancellation
    ) -> list[_Shown]:
        """Return the rows of the relations and views that a question reads; raises `CostlyError` for too many bytes."""
        shown, read_bytes, most = list[_Shown](), 0, self.limits.read_bytes
        for relation in relations:
            shown.append(_Shown(relation.name, relation.columns, self._at_epochs.at(relation, epoch, cancel)))
            read_bytes += shown[-1].whole_bytes()
        for published in views:
            view = published.view
            shown.append(_Shown(view.name, tuple(view.columns), self._views.at(published, epoch, cancel)))
            read_bytes += shown[-1].whole_bytes()
        if read_bytes > most:
            raise CostlyError(f"expected to read at most {most} bytes of relations and views, was more")
        return shown

    def _time_us(self, epoch: int, cancel: Cancellation) -> int | None:
        """Return the time of an epoch in microseconds since 1970; None if the epoch has none."""
        rows = self._at_epochs.at(EPOCH_TIME, epoch, cancel)
        time: int | None = pc.max(rows.column("at").cast(pa.int64())).as_py()
        return time


def _answered(
    worker: Worker, cancel: Cancellation, shown: Sequence[_Shown], time_us: int | None, wanted: _Wanted
) -> AnswerRows:
    """Return the answer to the question that a worker has checked."""
    beside = wanted.beside or Beside()
    given = Given(
        (*(GivenTable(table.name, table.columns) for table in shown), *(GivenTable(name) for name in beside.tables)),
        time_us,
        tuple(beside.macros),
        wanted.most_rows,
        wanted.describes,
        wanted.explains,
    )
    tables = [(table.schema(), table.batches(cancel)) for table in shown]
    tables += [(table.schema, iter(table.to_batches(_BATCH_ROWS))) for table in beside.tables.values()]
    with cancel.stopping(worker):
        return worker.answer(given, tables)


class _Shown(msgspec.Struct, frozen=True, eq=False):
    """Rows of a relation or view in the form for questions: repeated by weight, with Arrow's decimals."""

    name: str
    """Name of the relation or view."""
    columns: tuple[Column, ...]
    """Columns without the weight."""
    rows: pa.Table | None = None
    """Columns, followed by the weights; None for an empty table."""

    def whole_bytes(self) -> int:
        """Return the approximate size of all rows in bytes."""
        if self.rows is None or not self.rows.num_rows:
            return 0
        *values, weights = self.rows.columns
        count = pc.sum(pc.max_element_wise(weights, 0)).as_py()
        return int(sum(column.nbytes for column in values) * (count / self.rows.num_rows))

    def schema(self) -> pa.Schema:
        """Return the schema of the batches."""
        return FullRows(self.columns, change_schema(self.columns).empty_table()).arrow(0, 0).schema

    def batches(self, cancel: Cancellation) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches, with at most one batch copied at a time; raises `CostlyError` if the question is
        cancelled."""
        if self.rows is None:
            return
        for begin in range(0, self.rows.num_rows, _BATCH_ROWS):
            part = self.rows.slice(begin, _BATCH_ROWS)
            full = FullRows(self.columns, part.filter(pc.greater(part.column(part.num_columns - 1), 0)))
            for place in range(0, len(full), _BATCH_ROWS):
                cancel.check()
                yield from full.arrow(place, place + _BATCH_ROWS).to_batches()


class _Wanted(msgspec.Struct, frozen=True):
    """Options of `Asker.ask`, whose docstring describes them."""

    beside: Beside | None
    most_rows: int | None
    describes: bool
    explains: bool


class _Question(Cancellation):
    """Question that is being answered, and the Deferred (if any) for which it waits on the reactor's thread."""

    def __init__(self) -> None:
        super().__init__()
        self._deferred: Deferred[Any] | None = None

    async def waits(self, deferred: Deferred[Any]) -> Any:
        """Return the result of a Deferred; raises `CostlyError` if the question is cancelled first."""
        self._deferred = deferred
        if self:  # cancelled already
            deferred.cancel()
        try:
            return await deferred
        except CancelledError:
            self.check()
            raise
        finally:
            self._deferred = None

    def stop(self, reason: str) -> None:
        """Cancel the question and its Deferred; see `Cancellation`. Called on the reactor's thread."""
        super().stop(reason)
        if self._deferred is not None:
            self._deferred.cancel()
