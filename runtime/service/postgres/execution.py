"""Execution of a session's questions: answers, rows, COPY of answers and subscriptions, and cancellation.

```
Question ─▶ rewriting ─▶ Asker.ask, at the block's epoch ─▶ ShownRows ─▶ send ─chunks─▶ encoding ─▶ Outlet
COPY (SUBSCRIBE view) ─▶ Hub.subscribe ─Message─▶ CopyingListener ─▶ Outlet          (paused while the Outlet is full)
```

Rows are encoded a chunk at a time; a chunk is encoded only once the client has taken the chunks before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
from twisted.internet.defer import Deferred

from runtime.compiler import SqlError
from runtime.service.postgres import messages
from runtime.service.postgres import statements as st
from runtime.service.postgres.encoding import BINARY_TRAILER
from runtime.service.postgres.errors import PostgresError, explained
from runtime.service.postgres.parts import HeldBytes, PostgresCounts, PostgresParts, SharedCatalogue
from runtime.service.postgres.portals import Prepared, ShownRows
from runtime.service.postgres.rewriting import (
    Rewritten,
    SessionFacts,
    inferred_types,
    is_slow,
    rewritten,
    session_macros,
)
from runtime.service.postgres.settings import Settings
from runtime.service.postgres.statements import CopyOptions, Question, question_of
from runtime.service.postgres.subscribing import CopyingListener, copy_begin, encoded_rows, with_header
from runtime.service.postgres.transactions import TransactionBlock
from runtime.service.postgres.types import result_type
from runtime.service.sandbox import AskError, Beside
from runtime.service.subscriptions import Start, Subscription

__all__ = ["ANY_ROWS", "Execution", "Outlet", "SharedParts"]

ANY_ROWS: Final = 2**62
"""Limit of rows of an answer that is limited by its bytes alone."""
_ROWS_AT_ONCE: Final = 1_000
"""Greatest number of rows that are encoded on the reactor's thread; above it, waking a worker is cheaper."""


class Outlet(Protocol):
    """Connection of a session."""

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes; never blocks."""

    def drained(self) -> Deferred[None]:
        """Return a Deferred that fires when the send buffer has room, and fails when the connection is lost."""

    def follow(self, subscription: Subscription | None) -> None:
        """Pause and resume this subscription together with the connection, instead of the previous subscription; None
        for no subscription."""

    def close(self) -> None:
        """Close the connection once everything written has been sent."""


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts that the sessions of a port share."""

    parts: PostgresParts
    """Parts of the runtime."""
    catalogue: SharedCatalogue
    """Cache of the tables of ``pg_catalog`` and ``information_schema``."""
    held_bytes: HeldBytes
    """Size of the answers of all sessions."""
    counts: PostgresCounts
    """Counters of the port."""
    clock: Any
    """Twisted's clock, for timeouts."""


class Execution:
    """Executor of the questions of one session, one at a time. Belongs to the reactor's thread."""

    def __init__(
        self,
        shared: SharedParts,
        outlet: Outlet,
        settings: Settings,
        block: TransactionBlock,
        facts: tuple[str, int],
    ) -> None:
        """Start idle; ``facts`` are the user's name and the session's number."""
        self._shared, self._outlet, self._settings, self._block, self._facts = shared, outlet, settings, block, facts
        self._is_running = False
        self._cancelled = ""
        self._gone: Deferred[None] | None = None
        """Deferred that fires when the client no longer waits for the current question."""
        self._ended: Deferred[None] | None = None
        """Deferred of the subscription that is being copied, which fails when the subscription ends."""

    # Cancellation

    def begin(self) -> None:
        """Begin to execute a message of the client."""
        self._is_running, self._cancelled = True, ""

    def end(self) -> None:
        """End the execution of a message."""
        self._is_running = False

    def cancel(self, reason: str) -> None:
        """Cancel the statement that is executed, if there is one."""
        if not self._is_running or self._cancelled:
            return
        self._cancelled = reason
        self._shared.counts.cancelled += 1
        if self._gone is not None and not self._gone.called:
            self._gone.callback(None)
        if self._ended is not None and not self._ended.called:
            self._ended.errback(PostgresError("57014", reason))

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise PostgresError("57014", self._cancelled)

    # Questions

    async def ask(
        self, question: Question, values: Sequence[str], *, most_rows: int | None = None, describes: bool = False
    ) -> ShownRows:
        """Return the answer; raises `PostgresError` with the position in the client's text.

        ``values`` are the SQL of the question's parameters. With ``describes`` the answer has columns and no rows.
        """
        shared, epoch = self._shared, question.epoch
        if len(values) < question.parameters:
            raise PostgresError("42P02", f"expected a value of ${question.parameters}, was none",
                                position=question.begin + question.places[0].begin + 1)  # fmt: skip
        is_pinning = not describes and self._block.is_pinned
        if is_pinning and self._block.epoch is not None and epoch not in (None, self._block.epoch):
            raise PostgresError("55000", f"expected epoch {self._block.epoch} in this transaction, was {epoch}")
        if is_pinning and epoch is None:
            epoch = self._block.epoch if self._block.epoch is not None else shared.parts.asker.newest()
        written, beside = await self._rewritten(question, values)
        gone: Deferred[None] = Deferred()
        self._gone = gone
        timer, seconds = None, self._settings.statement_seconds
        if seconds is not None:
            timer = shared.clock.callLater(seconds, self.cancel, "the statement takes longer than statement_timeout")
        shared.counts.questions += 1
        try:
            self._check_cancelled()
            at, rows = await shared.parts.asker.ask(
                written.sql, epoch, gone, beside=beside, most_rows=most_rows, waits=True, describes=describes,
                explains=question.explains,
            )  # fmt: skip
            self._check_cancelled()
        except (AskError, SqlError) as error:
            self._check_cancelled()
            failure = explained(error, written.sql)
            if question.call is not None:
                failure.position = question.call + 1
            else:
                place = written.place(failure.position)
                failure.position = place + question.begin if place else 0
            raise failure from None
        finally:
            self._gone = None
            if timer is not None and timer.active():
                timer.cancel()
        if not describes:
            self._settings.epoch = str(at)
            self._block.epoch = at if is_pinning else None
        return ShownRows(rows)

    async def _rewritten(self, question: Question, values: Sequence[str]) -> tuple[Rewritten, Beside | None]:
        catalogue = self._shared.catalogue.now()
        user, number = self._facts
        facts = SessionFacts(user, number, self._settings.all())

        def write() -> tuple[Rewritten, Beside | None]:
            written = rewritten(question, values, facts, catalogue.columns)
            if written.is_moved:
                return written, catalogue.beside(written.sql)
            macros = session_macros(question, facts)
            return written, Beside(macros=macros) if macros else None

        if not is_slow(question):
            return write()
        result: tuple[Rewritten, Beside | None] = await self._shared.parts.in_thread(write)
        return result

    async def infer(self, prepared: Prepared) -> None:
        """Infer the types of the parameters for which the client gave none."""
        question = question_of(prepared.statement)
        if 0 not in prepared.oids or prepared.is_inferred or question is None:
            return
        columns = self._shared.catalogue.now().columns
        types = await self._shared.parts.in_thread(lambda: inferred_types(question, columns))
        for number, kind in types.items():
            if number <= len(prepared.oids) and not prepared.oids[number - 1]:
                prepared.oids[number - 1] = result_type(kind).oid
        prepared.is_inferred = True

    # Rows

    async def send(self, rows: ShownRows, ranges: Sequence[range], formats: Sequence[int]) -> None:
        """Send rows, each column in its format, as fast as the client takes them."""
        for part in ranges:
            for at in range(part.start, part.stop, rows.chunk_rows):
                end = min(at + rows.chunk_rows, part.stop)
                await self._write(partial(rows.encoded, at, end, formats), end - at)

    async def _write(self, encode: Callable[[], bytes | memoryview], count: int) -> None:
        """Send rows once the client has taken the previous rows."""
        await self._outlet.drained()
        self._check_cancelled()
        data = encode() if count <= _ROWS_AT_ONCE else await self._shared.parts.in_thread(encode)
        self._check_cancelled()
        self._outlet.write(data)

    # COPY

    async def copy(self, statement: st.CopyQuestion, values: Sequence[str]) -> None:
        """Execute COPY (question) TO STDOUT."""
        rows = await self.ask(statement.question, values, most_rows=ANY_ROWS)
        self._shared.held_bytes.take(rows.nbytes)
        options, total = statement.options, len(rows)
        try:
            for piece in copy_begin([field.name for field in rows.fields], options):
                self._outlet.write(piece)
            for at in range(0, total, rows.chunk_rows):
                part = rows.table.slice(at, rows.chunk_rows)
                await self._write(partial(_copied, part, rows, options, is_first=not at), part.num_rows)
                self._shared.counts.copied_rows += part.num_rows
        finally:
            self._shared.held_bytes.give(rows.nbytes)
        self._end_copy(options, total)

    async def subscribe(self, statement: st.CopySubscription) -> None:
        """Execute COPY (SUBSCRIBE view) TO STDOUT, until the view ends or the client cancels it.

        Raises `PostgresError` when the subscription ends, and for an unknown view, a runtime without epochs, and too
        many subscribers.
        """
        hub, counts = self._shared.parts.hub, self._shared.counts
        known = {view.name for view in hub.views}
        if statement.view not in known:
            raise PostgresError("42P01", f"expected a view out of {', '.join(sorted(known)) or 'none'}, was "
                                f"{statement.view[:80]!r}", position=statement.begin + 1)  # fmt: skip
        if hub.committed is None:
            raise PostgresError("55000", "expected a runtime that commits epochs, was one without")
        columns = tuple(hub.result(statement.view).columns)
        listener = CopyingListener(columns, statement.options, statement.epoch, self._outlet.write)
        start = Start({} if statement.epoch is None else {statement.view: statement.epoch})
        subscription = hub.subscribe([statement.view], listener, start)
        if subscription is None:
            raise PostgresError("53300", f"expected at most {hub.most_subscribers} subscribers, was one more")
        counts.subscribers += 1
        self._ended = listener.ended
        try:
            for piece in copy_begin(["epoch", "weight", *(column.name for column in columns)], statement.options):
                self._outlet.write(piece)
            self._outlet.follow(subscription)
            subscription.catch_up()
            await listener.ended
        finally:
            counts.subscribers -= 1
            counts.copied_rows += listener.rows
            self._ended = None
            self._outlet.follow(None)
            # Called in the reactor's next turn, because the hub may be iterating over its subscribers now.
            self._shared.clock.callLater(0, hub.unsubscribe, subscription)

    def _end_copy(self, options: CopyOptions, total: int) -> None:
        if options.format == "binary":
            self._outlet.write(messages.copy_data(BINARY_TRAILER) if total else with_header(b""))
        self._outlet.write(messages.COPY_DONE)
        self._outlet.write(messages.command_complete(f"COPY {total}"))


def _copied(part: pa.Table, rows: ShownRows, options: CopyOptions, *, is_first: bool) -> bytes | memoryview:
    data = encoded_rows(part, rows.kinds, options.format)
    return with_header(data) if is_first and options.format == "binary" else data
