"""One session: the state between a client's messages, and what each of them does.

A session is idle, in a transaction block, or in one that has failed. All questions of a block are about one version:
the newest that every relation and view can be had at when the first of them is asked. Outside of a block each question
is about the newest version of what it names; the statements that come in one message, or before one Sync, are a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from runtime.compiler import SqlError
from runtime.service.asking import AskError, Beside
from runtime.service.postgres import messages
from runtime.service.postgres import statements as st
from runtime.service.postgres.answers import Cursor, ShownRows
from runtime.service.postgres.encoding import BINARY_TRAILER
from runtime.service.postgres.errors import FatalError, PostgresError, explained
from runtime.service.postgres.messages import Fields
from runtime.service.postgres.parsing import parsed, read_write
from runtime.service.postgres.parts import HeldBytes, PostgresCounts, PostgresParts, SharedCatalogue
from runtime.service.postgres.rewriting import Rewritten, SessionFacts, inferred_types, is_slow, rewritten
from runtime.service.postgres.settings import Settings
from runtime.service.postgres.statements import CopyOptions, Question, Statement
from runtime.service.postgres.subscribing import CopyingListener, copy_begin, encoded_rows, with_header
from runtime.service.postgres.types import literal, result_type
from runtime.service.stream import Start, Subscription

__all__ = ["Outlet", "Session", "SharedParts"]

_IDLE: Final = b"I"
_IN_BLOCK: Final = b"T"
_FAILED: Final = b"E"
_MOST_PREPARED: Final = 1_000
_PREPARED_BYTES: Final = 4 * 1024 * 1024
_MOST_PORTALS: Final = 100
_MOST_SAVEPOINTS: Final = 100
_ROWS_AT_ONCE: Final = 1_000
"""So many are encoded on the reactor's thread: faster than another one is woken."""
_LONG_TEXT: Final = 8_192
"""Characters; a longer text is read on another thread."""
_ANY_ROWS: Final = 2**62


class Outlet(Protocol):
    """The connection of a session."""

    def write(self, data: bytes | memoryview) -> None:
        """Send; never blocks."""

    def drained(self) -> Deferred[None]:
        """Fires when the client has taken enough of what was sent; fails when it is gone."""

    def follow(self, subscription: Subscription | None) -> None:
        """Tell this subscription, and no other, when the connection is full and when it has room again."""

    def close(self) -> None:
        """End the connection behind what was sent."""


class SharedParts(msgspec.Struct, frozen=True, kw_only=True):
    """What sessions share."""

    parts: PostgresParts
    catalogue: SharedCatalogue
    held: HeldBytes
    counts: PostgresCounts
    clock: Any
    """Twisted's, for timeouts."""


class _Prepared:
    """A statement that Parse has named."""

    def __init__(self, statement: Statement | None, oids: list[int], size: int) -> None:
        self.statement, self.oids, self.size = statement, oids, size
        self.is_inferred = False
        self.described: tuple[tuple[str, str], ...] | None = None
        """Names and types of the columns that the client was told."""


class _Portal:
    """A statement with its parameters, and its rows once it has run; cursors are portals that have a name in SQL."""

    def __init__(self, prepared: _Prepared, values: Sequence[str], formats: Sequence[int]) -> None:
        self.prepared, self.values, self.wanted = prepared, values, formats
        self.cursor: Cursor | None = None
        self.outlives = False
        self.is_done = False

    @property
    def question(self) -> Question | None:
        """What it asks."""
        statement = self.prepared.statement
        return statement if isinstance(statement, Question) else None


class Session:
    """One client that was let in; on the reactor's thread. `handle` is given one message after the other."""

    _log = Logger()

    def __init__(self, shared: SharedParts, outlet: Outlet, settings: Settings, facts: tuple[str, int]) -> None:
        """``facts``: the user's name and the session's number."""
        self._shared, self._outlet, self._settings, self._facts = shared, outlet, settings, facts
        self._status = _IDLE
        self._is_block = False
        self._skips = False
        self._pinned: int | None = None
        self._savepoints: list[str] = []
        self._prepared: dict[str, _Prepared] = {}
        self._prepared_bytes = 0
        self._portals: dict[str, _Portal] = {}
        self._is_running = False
        self._cancelled = ""
        self._gone: Deferred[None] | None = None
        self._ended: Deferred[None] | None = None
        self._read: dict[bytes, Callable[[bytes], Any]] = {
            b"Q": self._query, b"P": self._parse, b"B": self._bind, b"D": self._describe, b"E": self._execute,
            b"C": self._close, b"F": self._call,
        }  # fmt: skip

    async def handle(self, code: bytes, content: bytes) -> None:
        """Do what a message asks, and answer it."""
        if code == b"X":
            self._outlet.close()
        elif code == b"S":
            self._sync()
        elif code in b"Hdcf" or self._skips:
            pass  # what is not sent at once is not kept; copied data come too late
        elif code not in self._read:
            raise FatalError("08P01", f"expected a message of a session, was {code!r}")
        else:
            await self._handled(code, content)

    def begin(self) -> None:
        """Say that the session is ready."""
        self._outlet.write(messages.ready_for_query(self._status))

    def cancel(self, reason: str) -> None:
        """Stop the statement that runs, if one does."""
        if not self._is_running or self._cancelled:
            return
        self._cancelled = reason
        self._shared.counts.cancelled += 1
        if self._gone is not None and not self._gone.called:
            self._gone.callback(None)
        if self._ended is not None and not self._ended.called:
            self._ended.errback(PostgresError("57014", reason))

    def lost(self) -> None:
        """The connection is gone: stop, and hold nothing."""
        self.cancel("the client is gone")
        for name in list(self._portals):
            self._drop_portal(name)
        self._prepared.clear()

    async def _handled(self, code: bytes, content: bytes) -> None:
        self._is_running, self._cancelled = True, ""
        try:
            await self._read[code](content)
        except FatalError:
            raise
        except PostgresError as error:
            self._failed(error)
        except (AskError, SqlError) as error:
            self._failed(explained(error))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is answered
            self._log.failure("a statement of a PostgreSQL client")
            self._failed(
                PostgresError("XX000", f"expected an answer, was {type(error).__name__}: see the runtime's log")
            )
        finally:
            self._is_running = False
        if code in b"QF":
            self._sync()
        elif self._skips:
            return

    def _failed(self, error: PostgresError) -> None:
        self._shared.counts.failed_statements += 1
        self._outlet.write(messages.error_response(error))
        self._skips = True
        if self._status == _IN_BLOCK:
            self._status = _FAILED

    def _sync(self) -> None:
        self._skips = False
        if self._status == _IDLE:
            self._end_block()
        self._outlet.write(messages.ready_for_query(self._status))

    def _end_block(self) -> None:
        self._pinned, self._is_block = None, False
        self._savepoints.clear()
        for name in [name for name, portal in self._portals.items() if not portal.outlives]:
            self._drop_portal(name)

    # Messages

    async def _query(self, content: bytes) -> None:
        fields = Fields(content, "Query")
        text = fields.text()
        fields.end()
        found = await self._parsed(text)
        if not found:
            self._outlet.write(messages.EMPTY_QUERY)
        self._is_block = len(found) > 1
        for statement in found:
            try:
                await self._simple(statement)
            except (AskError, SqlError) as error:
                raise explained(error) from None

    async def _simple(self, statement: Statement) -> None:
        if isinstance(statement, Question):
            self._check_block(statement)
            rows = await self._ask(statement, ())
            self._shared.held.take(rows.nbytes)
            try:
                await self._show(rows)
            finally:
                self._shared.held.give(rows.nbytes)
            self._complete(f"SELECT {len(rows)}")
        else:
            await self._command(statement, describes=True)

    async def _parse(self, content: bytes) -> None:
        fields = Fields(content, "Parse")
        name, text = fields.text(), fields.text()
        oids = [fields.int32() for _ in range(fields.count(4))]
        fields.end()
        if name and name in self._prepared:
            raise PostgresError("42P05", f"expected a new name for a prepared statement, was {name[:80]!r}")
        found = await self._parsed(text)
        if len(found) > 1:
            raise PostgresError("42601", f"expected one statement to prepare, was {len(found)}")
        statement = found[0] if found else None
        question = _question_of(statement)
        count = question.parameters if question is not None else 0
        oids += [0] * (count - len(oids))
        self._drop_prepared(name)
        size = len(text)
        if len(self._prepared) >= _MOST_PREPARED or self._prepared_bytes + size > _PREPARED_BYTES:
            raise PostgresError("53400", f"expected at most {_MOST_PREPARED} prepared statements of {_PREPARED_BYTES} "
                                "characters, was more: DEALLOCATE some")  # fmt: skip
        self._prepared[name] = _Prepared(statement, oids, size)
        self._prepared_bytes += size
        self._outlet.write(messages.PARSE_COMPLETE)

    async def _bind(self, content: bytes) -> None:
        fields = Fields(content, "Bind")
        portal_name, name = fields.text(), fields.text()
        forms = [_format(fields.int16()) for _ in range(fields.count(2))]
        given = [fields.value() for _ in range(fields.count(4))]
        wanted = [_format(fields.int16()) for _ in range(fields.count(2))]
        fields.end()
        prepared = self._find_prepared(name)
        if portal_name and portal_name in self._portals:
            raise PostgresError("42P03", f"expected a new name for a portal, was {portal_name[:80]!r}")
        if len(given) != len(prepared.oids):
            raise PostgresError("08P01", f"expected {len(prepared.oids)} parameters, was {len(given)}")
        if len(forms) not in (0, 1, len(given)):
            raise PostgresError("08P01", f"expected formats of {len(given)} parameters, was {len(forms)}")
        if 0 in prepared.oids:
            await self._infer(prepared)
        forms = forms * len(given) if len(forms) == 1 else forms or [0] * len(given)
        values = [
            literal(value, oid, is_binary=bool(form))
            for value, oid, form in zip(given, prepared.oids, forms, strict=True)
        ]
        self._drop_portal(portal_name)
        self._add_portal(portal_name, _Portal(prepared, values, wanted))
        self._outlet.write(messages.BIND_COMPLETE)

    async def _describe(self, content: bytes) -> None:
        fields = Fields(content, "Describe")
        kind, name = fields.byte(), fields.text()
        fields.end()
        if kind == b"S":
            await self._describe_statement(self._find_prepared(name))
        elif kind == b"P":
            await self._describe_portal(self._find_portal(name))
        else:
            raise FatalError("08P01", f"expected S or P in Describe, was {kind!r}")

    async def _describe_statement(self, prepared: _Prepared) -> None:
        statement = prepared.statement
        if 0 in prepared.oids:
            await self._infer(prepared)
        self._outlet.write(messages.parameter_description(prepared.oids))
        if isinstance(statement, Question):
            values = [literal(None, oid or 25, is_binary=False) for oid in prepared.oids]
            rows = await self._ask(statement, values, describes=True)
            prepared.described = tuple((column.name, column.type) for column in rows.columns)
            self._outlet.write(messages.row_description(rows.fields, [0] * len(rows.fields)))
            return
        known = self._known_rows(statement)
        self._outlet.write(
            messages.NO_DATA if known is None else messages.row_description(known.fields, [0] * len(known.fields))
        )

    async def _describe_portal(self, portal: _Portal) -> None:
        if portal.question is not None or portal.cursor is not None:
            cursor = await self._run(portal)
            self._outlet.write(messages.row_description(cursor.rows.fields, cursor.formats))
            return
        known = self._known_rows(portal.prepared.statement)
        formats = _formats(portal.wanted, len(known.fields)) if known is not None else []
        self._outlet.write(messages.NO_DATA if known is None else messages.row_description(known.fields, formats))

    async def _execute(self, content: bytes) -> None:
        fields = Fields(content, "Execute")
        name, most = fields.text(), fields.int32()
        fields.end()
        portal = self._find_portal(name)
        statement = portal.prepared.statement
        if statement is None:
            self._outlet.write(messages.EMPTY_QUERY)
        elif isinstance(statement, Question) or portal.cursor is not None:
            cursor = await self._run(portal)
            begin, total = cursor.at, len(cursor.rows)
            end = min(total, begin + most) if most > 0 else total
            await self._send(cursor.rows, [range(begin, end)], cursor.formats)
            cursor.at = end
            # As in PostgreSQL, who takes the last row of a portal at its limit has to ask once more.
            if most > 0 and end - begin == most:
                self._outlet.write(messages.PORTAL_SUSPENDED)
            else:
                self._complete(f"SELECT {end - begin}")
        elif portal.is_done:
            raise PostgresError("55000", "expected a portal that has not run, was one that has")
        else:
            portal.is_done = True
            await self._command(statement, formats=portal.wanted, values=portal.values)

    async def _close(self, content: bytes) -> None:
        fields = Fields(content, "Close")
        kind, name = fields.byte(), fields.text()
        fields.end()
        if kind == b"S":
            self._drop_prepared(name)
        elif kind == b"P":
            self._drop_portal(name)
        else:
            raise FatalError("08P01", f"expected S or P in Close, was {kind!r}")
        self._outlet.write(messages.CLOSE_COMPLETE)

    async def _call(self, content: bytes) -> None:
        del content
        raise PostgresError("0A000", "expected a statement, was a function call of the protocol")

    # Commands

    async def _command(
        self,
        statement: Statement,
        *,
        formats: Sequence[int] = (),
        values: Sequence[str] = (),
        describes: bool = False,
    ) -> None:
        """Do what is no question; with ``describes`` rows have their description before them."""
        self._check_block(statement)
        if isinstance(statement, st.Show | st.Fetch):
            await self._rows_of_command(statement, formats, describes=describes)
        elif isinstance(statement, st.Declare):
            await self._declare(statement, values)
        elif isinstance(statement, st.CopyQuestion):
            await self._copy(statement, values)
        elif isinstance(statement, st.CopySubscription):
            await self._subscribe(statement)
        else:
            self._complete(self._done(statement))

    def _done(self, statement: Statement) -> str:
        """Do what needs no waiting; gives the tag."""
        if isinstance(statement, st.Begin):
            return self._begin(statement)
        if isinstance(statement, st.End):
            return self._end(commits=statement.commits)
        if isinstance(statement, st.Savepoint):
            return self._savepoint(statement)
        if isinstance(statement, st.Set):
            return self._set(statement)
        if isinstance(statement, st.Reset):
            told = self._settings.reset_all() if statement.name == "all" else [self._settings.reset(statement.name)]
            self._tell(each for each in told if each is not None)
            return "RESET"
        if isinstance(statement, st.Discard):
            return self._discard(statement.what)
        if isinstance(statement, st.Deallocate):
            return self._deallocate(statement.name)
        if isinstance(statement, st.Close):
            return self._close_cursor(statement.name)
        assert isinstance(statement, st.Ignored)
        return statement.tag

    def _begin(self, statement: st.Begin) -> str:
        if statement.writes:
            raise read_write(statement.begin)
        if self._status == _IN_BLOCK:
            self._outlet.write(messages.notice_response("there is already a transaction in progress", "25001"))
        else:
            self._status = _IN_BLOCK
            self._settings.begin()
        return statement.tag

    def _end(self, *, commits: bool) -> str:
        if self._status == _IDLE:
            self._outlet.write(messages.notice_response("there is no transaction in progress", "25P01"))
        else:
            commits = commits and self._status == _IN_BLOCK
            self._tell(self._settings.end(commits=commits).items())
        self._status = _IDLE
        self._end_block()
        return "COMMIT" if commits else "ROLLBACK"

    def _savepoint(self, statement: st.Savepoint) -> str:
        names, name = self._savepoints, statement.name
        if self._status == _IDLE:
            raise PostgresError("25P01", f"expected a transaction block for {statement.kind}, was none")
        if statement.kind == "SAVEPOINT":
            if len(names) >= _MOST_SAVEPOINTS:
                raise PostgresError("54000", f"expected at most {_MOST_SAVEPOINTS} savepoints, was one more")
            names.append(name)
            return "SAVEPOINT"
        if name not in names:
            raise PostgresError("3B001", f"expected a savepoint out of {', '.join(names) or 'none'}, was {name[:80]!r}")
        place = len(names) - 1 - names[::-1].index(name)
        del names[place + (statement.kind == "ROLLBACK") :]
        if statement.kind == "ROLLBACK":
            self._status = _IN_BLOCK
        return statement.kind

    def _set(self, statement: st.Set) -> str:
        try:
            told = self._settings.set(statement.name, statement.value, is_local=statement.is_local)
        except PostgresError as error:
            error.position = statement.begin + 1
            raise
        if statement.is_local and self._status == _IDLE:
            self._outlet.write(messages.notice_response("SET LOCAL has an effect in transaction blocks only", "25P01"))
        if statement.name == "timezone" and (statement.value or "UTC").upper() not in ("UTC", "GMT", "ETC/UTC"):
            self._outlet.write(messages.notice_response("times are told in UTC, with their offset"))
        self._tell([told] if told is not None else [])
        return "SET"

    def _discard(self, what: str) -> str:
        if what == "ALL":
            if self._status != _IDLE:
                raise PostgresError("25001", "expected DISCARD ALL outside of a transaction block, was inside of one")
            for name in list(self._portals):
                self._drop_portal(name)
            self._deallocate(None)
            self._tell(self._settings.reset_all())
        return f"DISCARD {what}"

    def _deallocate(self, name: str | None) -> str:
        if name is None:
            for each in list(self._prepared):
                self._drop_prepared(each)
            return "DEALLOCATE ALL"
        self._find_prepared(name)
        self._drop_prepared(name)
        return "DEALLOCATE"

    def _close_cursor(self, name: str | None) -> str:
        if name is None:
            for each in [each for each, portal in self._portals.items() if portal.cursor is not None]:
                self._drop_portal(each)
            return "CLOSE CURSOR ALL"
        self._find_cursor(name)
        self._drop_portal(name)
        return "CLOSE CURSOR"

    async def _declare(self, statement: st.Declare, values: Sequence[str]) -> None:
        if self._status == _IDLE and not self._is_block and not statement.outlives:
            raise PostgresError(
                "25P01", "expected DECLARE CURSOR in a transaction block, was outside of one",
                hint="BEGIN comes first; a cursor WITH HOLD needs none.",
            )  # fmt: skip
        if statement.name in self._portals:
            raise PostgresError("42P03", f"expected a new name for a cursor, was {statement.name[:80]!r}")
        rows = await self._ask(statement.question, values, most_rows=_ANY_ROWS)
        portal = _Portal(_Prepared(statement.question, [], 0), (), [int(statement.is_binary)])
        portal.outlives = statement.outlives
        self._add_portal(statement.name, portal)
        self._shared.held.take(rows.nbytes)
        portal.cursor = Cursor(rows, [int(statement.is_binary)] * len(rows.fields))
        self._complete("DECLARE CURSOR")

    async def _rows_of_command(self, statement: st.Show | st.Fetch, wanted: Sequence[int], *, describes: bool) -> None:
        rows = self._known_rows(statement)
        if rows is not None:
            formats = _formats(wanted, len(rows.fields))
            if isinstance(statement, st.Fetch) and not wanted:
                formats = list(self._find_cursor(statement.cursor).formats)
            if describes:
                self._outlet.write(messages.row_description(rows.fields, formats))
        if isinstance(statement, st.Show):
            assert rows is not None
            await self._send(rows, [range(len(rows))], formats)
            self._complete("SHOW")
            return
        ranges = self._find_cursor(statement.cursor).move(statement)
        if rows is not None:
            await self._send(rows, ranges, formats)
        count = sum(len(each) for each in ranges)
        self._complete(f"{'MOVE' if statement.moves else 'FETCH'} {count}")

    def _known_rows(self, statement: Statement | None) -> ShownRows | None:
        """The rows of a command that shows some, all of them."""
        if isinstance(statement, st.Show):
            if statement.name == "all":
                lines = [(name, value, "") for name, value in self._settings.all().items()]
                return ShownRows.of_text(("name", "setting", "description"), lines)
            return ShownRows.of_text((statement.name,), [(self._settings.show(statement.name),)])
        if isinstance(statement, st.Fetch) and not statement.moves:
            return self._find_cursor(statement.cursor).rows
        return None

    # COPY

    async def _copy(self, statement: st.CopyQuestion, values: Sequence[str]) -> None:
        rows = await self._ask(statement.question, values, most_rows=_ANY_ROWS)
        self._shared.held.take(rows.nbytes)
        options, total = statement.options, len(rows)
        try:
            for piece in copy_begin([field.name for field in rows.fields], options):
                self._outlet.write(piece)
            for at in range(0, total, rows.chunk_rows):
                part = rows.table.slice(at, rows.chunk_rows)
                await self._write(partial(_copied, part, rows, options, is_first=not at), part.num_rows)
                self._shared.counts.copied_rows += part.num_rows
        finally:
            self._shared.held.give(rows.nbytes)
        self._end_copy(options, total)

    async def _subscribe(self, statement: st.CopySubscription) -> None:
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
            raise PostgresError("53300", "expected fewer subscribers at once: try later")
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
            # Not at once: the hub may be in the midst of telling its subscribers.
            self._shared.clock.callLater(0, hub.unsubscribe, subscription)

    def _end_copy(self, options: CopyOptions, total: int) -> None:
        if options.format == "binary":
            self._outlet.write(messages.copy_data(BINARY_TRAILER) if total else with_header(b""))
        self._outlet.write(messages.COPY_DONE)
        self._complete(f"COPY {total}")

    # Questions

    async def _ask(
        self, question: Question, values: Sequence[str], *, most_rows: int | None = None, describes: bool = False
    ) -> ShownRows:
        shared, epoch = self._shared, question.epoch
        if len(values) < question.parameters:
            raise PostgresError("42P02", f"expected a value of ${question.parameters}, was none",
                                position=question.begin + question.places[0].begin + 1)  # fmt: skip
        is_pinning = not describes and (self._status == _IN_BLOCK or self._is_block)
        if is_pinning and self._pinned is not None and epoch not in (None, self._pinned):
            raise PostgresError("55000", f"expected epoch {self._pinned} in this transaction, was {epoch}")
        if is_pinning and epoch is None:
            epoch = self._pinned if self._pinned is not None else shared.parts.asker.newest()
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
                written.sql, epoch, gone, beside=beside, most_rows=most_rows, waits=True, describes=describes
            )
            self._check_cancelled()
        except (AskError, SqlError) as error:
            self._check_cancelled()
            found = explained(error, written.sql)
            place = written.place(found.position)
            found.position = place + question.begin if place else 0
            raise found from None
        finally:
            self._gone = None
            if timer is not None and timer.active():
                timer.cancel()
        if not describes:
            self._settings.epoch = str(at)
            self._pinned = at if is_pinning else None
        return ShownRows(rows)

    async def _rewritten(self, question: Question, values: Sequence[str]) -> tuple[Rewritten, Beside | None]:
        catalogue = self._shared.catalogue.now()
        user, number = self._facts
        facts = SessionFacts(user, number, self._settings.all())

        def write() -> tuple[Rewritten, Beside | None]:
            written = rewritten(question, values, facts, catalogue.columns)
            return written, catalogue.beside(written.sql) if written.is_moved else None

        if not is_slow(question):
            return write()
        found: tuple[Rewritten, Beside | None] = await self._shared.parts.in_thread(write)
        return found

    async def _infer(self, prepared: _Prepared) -> None:
        """Find out the types of parameters of which the client says none."""
        question = _question_of(prepared.statement)
        if prepared.is_inferred or question is None:
            return
        columns = self._shared.catalogue.now().columns
        found = await self._shared.parts.in_thread(lambda: inferred_types(question, columns))
        for number, kind in found.items():
            if number <= len(prepared.oids) and not prepared.oids[number - 1]:
                prepared.oids[number - 1] = result_type(kind).oid
        prepared.is_inferred = True

    async def _run(self, portal: _Portal) -> Cursor:
        """The portal's rows, of which the question is asked the first time."""
        if portal.cursor is None:
            question = portal.question
            assert question is not None
            self._check_block(question)
            rows = await self._ask(question, portal.values)
            described = portal.prepared.described
            if described is not None and described != tuple((each.name, each.type) for each in rows.columns):
                raise PostgresError("0A000", "expected the columns that were described, was others: prepare it again")
            formats = _formats(portal.wanted, len(rows.fields))
            self._shared.held.take(rows.nbytes)
            portal.cursor = Cursor(rows, formats)
            if portal not in self._portals.values():  # the connection was lost meanwhile
                self._shared.held.give(rows.nbytes)
        return portal.cursor

    # Rows

    async def _show(self, rows: ShownRows) -> None:
        formats = [0] * len(rows.fields)
        self._outlet.write(messages.row_description(rows.fields, formats))
        await self._send(rows, [range(len(rows))], formats)

    async def _send(self, rows: ShownRows, ranges: Sequence[range], formats: Sequence[int]) -> None:
        for part in ranges:
            for at in range(part.start, part.stop, rows.chunk_rows):
                end = min(at + rows.chunk_rows, part.stop)
                await self._write(partial(rows.encoded, at, end, formats), end - at)

    async def _write(self, encode: Callable[[], bytes | memoryview], count: int) -> None:
        """Send rows when the client has taken those before."""
        await self._outlet.drained()
        self._check_cancelled()
        data = encode() if count <= _ROWS_AT_ONCE else await self._shared.parts.in_thread(encode)
        self._check_cancelled()
        self._outlet.write(data)

    # State

    def _complete(self, tag: str) -> None:
        self._outlet.write(messages.command_complete(tag))

    def _tell(self, told: Any) -> None:
        for name, value in told:
            self._outlet.write(messages.parameter_status(name, value))

    def _check_cancelled(self) -> None:
        if self._cancelled:
            raise PostgresError("57014", self._cancelled)

    def _check_block(self, statement: Statement) -> None:
        if self._status != _FAILED or isinstance(statement, st.End):
            return
        if isinstance(statement, st.Savepoint) and statement.kind == "ROLLBACK":
            return
        raise PostgresError(
            "25P02", "expected ROLLBACK, as the transaction has failed, was another statement",
            hint="What comes before the end of a transaction that has failed is not done.",
        )  # fmt: skip

    async def _parsed(self, text: str) -> list[Statement]:
        if len(text) <= _LONG_TEXT:
            return parsed(text)
        found: list[Statement] = await self._shared.parts.in_thread(lambda: parsed(text))
        return found

    def _find_prepared(self, name: str) -> _Prepared:
        if name not in self._prepared:
            raise PostgresError("26000", f"expected a prepared statement, was {name[:80]!r}")
        return self._prepared[name]

    def _find_portal(self, name: str) -> _Portal:
        if name not in self._portals:
            raise PostgresError("34000", f"expected a portal, was {name[:80]!r}")
        return self._portals[name]

    def _find_cursor(self, name: str) -> Cursor:
        portal = self._portals.get(name)
        if portal is None or portal.cursor is None:
            raise PostgresError("34000", f"expected a cursor, was {name[:80]!r}")
        return portal.cursor

    def _add_portal(self, name: str, portal: _Portal) -> None:
        if len(self._portals) >= _MOST_PORTALS:
            raise PostgresError("53400", f"expected at most {_MOST_PORTALS} portals and cursors, was one more")
        self._portals[name] = portal

    def _drop_portal(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None and portal.cursor is not None:
            self._shared.held.give(portal.cursor.rows.nbytes)

    def _drop_prepared(self, name: str) -> None:
        prepared = self._prepared.pop(name, None)
        if prepared is not None:
            self._prepared_bytes -= prepared.size


def _question_of(statement: Statement | None) -> Question | None:
    if isinstance(statement, Question):
        return statement
    return statement.question if isinstance(statement, st.Declare | st.CopyQuestion) else None


def _copied(part: pa.Table, rows: ShownRows, options: CopyOptions, *, is_first: bool) -> bytes | memoryview:
    data = encoded_rows(part, rows.kinds, options.format)
    return with_header(data) if is_first and options.format == "binary" else data


def _format(code: int) -> int:
    if code not in (0, 1):
        raise PostgresError("08P01", f"expected the format 0 or 1, was {code}")
    return code


def _formats(wanted: Sequence[int], count: int) -> list[int]:
    """One for each column, of none, one or all of them; raises `PostgresError`."""
    if len(wanted) not in (0, 1, count):
        raise PostgresError("08P01", f"expected formats of {count} columns, was {len(wanted)}")
    return list(wanted) * count if len(wanted) == 1 else list(wanted) or [0] * count
