"""Session of one client: the handling of each message of the protocol, and the commands of SQL.

```
Parse ─▶ PreparedTable ─Bind─▶ PortalTable ─Describe, Execute─▶ Execution.ask ─▶ rows
Query ─▶ statements ─▶ questions ─▶ Execution.ask           error: messages are skipped up to Sync
                    └▶ commands: BEGIN, SET, PREPARE, DECLARE, FETCH, COPY …
```

All questions of a transaction block read one version: the newest version at which every relation and view can be read
when the first of these questions is asked. Outside of a block each question reads the newest version of the relations
and views that it names. The statements of one simple query also read one version. After an error, messages are skipped
up to Sync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from twisted.logger import Logger

from runtime.compiler import SqlError
from runtime.service.postgres import messages
from runtime.service.postgres import statements as st
from runtime.service.postgres.errors import FatalError, PostgresError, explained
from runtime.service.postgres.execution import ANY_ROWS, Execution, Outlet, SharedParts
from runtime.service.postgres.messages import Fields
from runtime.service.postgres.parsing import parsed, read_write
from runtime.service.postgres.portals import Cursor, Portal, PortalTable, Prepared, PreparedTable, ShownRows
from runtime.service.postgres.rewriting import with_values
from runtime.service.postgres.settings import Settings
from runtime.service.postgres.statements import Question, Statement
from runtime.service.postgres.transactions import FAILED, IDLE, IN_BLOCK, SavedState, TransactionBlock
from runtime.service.postgres.types import TEXT, literal, typed_expression
from runtime.service.sandbox import AskError

__all__ = ["Session"]

_LONG_TEXT: Final = 8_192
"""Length in characters above which a text is parsed on another thread."""


class Session:
    """Session of one authenticated client, which handles one message at a time. Belongs to the reactor's thread."""

    _log = Logger()

    def __init__(self, shared: SharedParts, outlet: Outlet, settings: Settings, facts: tuple[str, int]) -> None:
        """Start idle; ``facts`` are the user's name and the session's number."""
        self._shared, self._outlet, self._settings = shared, outlet, settings
        self._skips = False
        """True after an error, until Sync: messages are skipped."""
        self._block = TransactionBlock()
        self._prepared = PreparedTable()
        self._portals = PortalTable(shared.held_bytes)
        self._execution = Execution(shared, outlet, settings, self._block, facts)
        self._handlers: dict[bytes, Callable[[bytes], Any]] = {
            b"Q": self._query, b"P": self._parse, b"B": self._bind, b"D": self._describe, b"E": self._execute,
            b"C": self._close, b"F": self._call,
        }  # fmt: skip

    async def handle(self, code: bytes, content: bytes) -> None:
        """Execute one message and write its answer; raises `FatalError` for a message of an unknown kind."""
        if code == b"X":
            self._outlet.close()
        elif code == b"S":
            self._sync()
        elif code in b"Hdcf" or self._skips:
            pass  # answers are not buffered, so Flush has no effect; no COPY reads data
        elif code not in self._handlers:
            raise FatalError("08P01", f"expected a message of a session, was {code!r}")
        else:
            await self._handled(code, content)

    def begin(self) -> None:
        """Report that the session is ready."""
        self._outlet.write(messages.ready_for_query(self._block.status))

    def cancel(self, reason: str) -> None:
        """Cancel the statement that is executed, if there is one."""
        self._execution.cancel(reason)

    def lost(self) -> None:
        """Cancel the statement and release everything, because the connection is lost."""
        self.cancel("the client has disconnected")
        self._portals.clear(keeps_held_cursors=False)
        self._prepared.deallocate(None)

    async def _handled(self, code: bytes, content: bytes) -> None:
        self._execution.begin()
        try:
            await self._handlers[code](content)
        except FatalError:
            raise
        except PostgresError as error:
            self._failed(error)
        except (AskError, SqlError) as error:
            self._failed(explained(error))
        except Exception as error:  # noqa: BLE001 - every failure is answered
            self._log.failure("a statement of a PostgreSQL client failed")
            self._failed(
                PostgresError("XX000", f"expected an answer, was {type(error).__name__}: see the runtime's log")
            )
        finally:
            self._execution.end()
        if code in b"QF":
            self._sync()

    def _failed(self, error: PostgresError) -> None:
        self._shared.counts.failed_statements += 1
        self._outlet.write(messages.error_response(error))
        self._skips = True
        self._block.fail()

    def _sync(self) -> None:
        has_failed, self._skips = self._skips, False
        if self._block.status == IDLE:
            self._end_changes(commits=not has_failed)  # of an implicit block
            self._end_block()
        self._outlet.write(messages.ready_for_query(self._block.status))

    def _end_block(self) -> None:
        self._block.end()
        self._portals.clear(keeps_held_cursors=True)

    # Messages

    async def _query(self, content: bytes) -> None:
        fields = Fields(content, "Query")
        text = fields.text()
        fields.end()
        statements = await self._parsed(text)
        if not statements:
            self._outlet.write(messages.EMPTY_QUERY)
        for statement in statements:
            self._block.is_implicit = len(statements) > 1  # set each time, because a COMMIT ends the implicit block
            if self._block.is_implicit:
                self._begin_changes()
            try:
                await self._simple(self._resolved(statement))
            except (AskError, SqlError) as error:
                raise explained(error) from None

    async def _simple(self, statement: Statement) -> None:
        if not isinstance(statement, Question):
            await self._command(statement, describes=True)
            return
        self._block.check(statement)
        rows = await self._execution.ask(statement, ())
        self._shared.held_bytes.take(rows.nbytes)
        try:
            formats = [0] * len(rows.fields)
            self._outlet.write(messages.row_description(rows.fields, formats))
            await self._execution.send(rows, [range(len(rows))], formats)
        finally:
            self._shared.held_bytes.give(rows.nbytes)
        self._complete(_tag(statement, len(rows)))

    async def _parse(self, content: bytes) -> None:
        fields = Fields(content, "Parse")
        name, text = fields.text(), fields.text()
        oids = [fields.int32() for _ in range(fields.count(4))]
        fields.end()
        statements = await self._parsed(text)
        if len(statements) > 1:
            raise PostgresError("42601", f"expected one statement to prepare, was {len(statements)}")
        statement = self._resolved(statements[0]) if statements else None
        self._prepared.add(name, Prepared(statement, oids, len(text)))
        self._outlet.write(messages.PARSE_COMPLETE)

    async def _bind(self, content: bytes) -> None:
        fields = Fields(content, "Bind")
        portal_name, name = fields.text(), fields.text()
        forms = [_format(fields.int16()) for _ in range(fields.count(2))]
        given = [fields.value() for _ in range(fields.count(4))]
        wanted = [_format(fields.int16()) for _ in range(fields.count(2))]
        fields.end()
        prepared = self._prepared.find(name)
        self._portals.check_new(portal_name, "portal")
        if len(given) != len(prepared.oids):
            raise PostgresError("08P01", f"expected {len(prepared.oids)} parameters, was {len(given)}")
        if len(forms) not in (0, 1, len(given)):
            raise PostgresError("08P01", f"expected formats of {len(given)} parameters, was {len(forms)}")
        await self._execution.infer(prepared)
        forms = forms * len(given) if len(forms) == 1 else forms or [0] * len(given)
        values = [
            literal(value, oid, is_binary=bool(form))
            for value, oid, form in zip(given, prepared.oids, forms, strict=True)
        ]
        self._portals.add(portal_name, Portal(prepared, values, wanted))
        self._outlet.write(messages.BIND_COMPLETE)

    async def _describe(self, content: bytes) -> None:
        fields = Fields(content, "Describe")
        kind, name = fields.byte(), fields.text()
        fields.end()
        if kind == b"S":
            await self._describe_statement(self._prepared.find(name))
        elif kind == b"P":
            await self._describe_portal(self._portals.find(name))
        else:
            raise FatalError("08P01", f"expected S or P in Describe, was {kind!r}")

    async def _describe_statement(self, prepared: Prepared) -> None:
        statement = prepared.statement
        await self._execution.infer(prepared)
        self._outlet.write(messages.parameter_description([oid or TEXT.oid for oid in prepared.oids]))
        if isinstance(statement, Question):
            values = [literal(None, oid or TEXT.oid, is_binary=False) for oid in prepared.oids]
            rows = await self._execution.ask(statement, values, describes=True)
            prepared.described = _described(statement, rows)
            self._outlet.write(messages.row_description(rows.fields, [0] * len(rows.fields)))
            return
        known = self._known_rows(statement)
        self._outlet.write(
            messages.NO_DATA if known is None else messages.row_description(known.fields, [0] * len(known.fields))
        )

    async def _describe_portal(self, portal: Portal) -> None:
        if portal.question is not None or portal.cursor is not None:
            cursor = await self._run(portal)
            self._outlet.write(messages.row_description(cursor.rows.fields, cursor.formats))
            return
        known = self._known_rows(portal.prepared.statement)
        formats = _formats(portal.formats, len(known.fields)) if known is not None else []
        self._outlet.write(messages.NO_DATA if known is None else messages.row_description(known.fields, formats))

    async def _execute(self, content: bytes) -> None:
        fields = Fields(content, "Execute")
        name, most = fields.text(), fields.int32()
        fields.end()
        portal = self._portals.find(name)
        statement = portal.prepared.statement
        if statement is None:
            self._outlet.write(messages.EMPTY_QUERY)
        elif isinstance(statement, Question) or portal.cursor is not None:
            cursor = await self._run(portal)
            begin, total = cursor.at, len(cursor.rows)
            end = min(total, begin + most) if most > 0 else total
            await self._execution.send(cursor.rows, [range(begin, end)], cursor.formats)
            cursor.at = end
            # As in PostgreSQL, a client that reads the last row at its limit has to execute the portal once more.
            if most > 0 and end - begin == most:
                self._outlet.write(messages.PORTAL_SUSPENDED)
            else:
                self._complete(_tag(statement, end - begin))
        elif portal.is_done:
            raise PostgresError("55000", "expected a portal that has not run, was one that has")
        else:
            portal.is_done = True
            self._begin_changes()
            await self._command(statement, formats=portal.formats, values=portal.values)

    async def _close(self, content: bytes) -> None:
        fields = Fields(content, "Close")
        kind, name = fields.byte(), fields.text()
        fields.end()
        if kind == b"S":
            self._prepared.close(name)
        elif kind == b"P":
            self._portals.close(name)
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
        """Execute a statement that is not a question; with ``describes`` send the description of its rows first."""
        self._block.check(statement)
        if isinstance(statement, st.Show | st.Fetch):
            await self._rows_of_command(statement, formats, describes=describes)
        elif isinstance(statement, st.Declare):
            await self._declare(statement, values)
        elif isinstance(statement, st.CopyQuestion):
            await self._execution.copy(statement, values)
        elif isinstance(statement, st.CopySubscription):
            await self._execution.subscribe(statement)
        else:
            self._complete(self._done(statement))

    def _done(self, statement: Statement) -> str:
        """Execute a synchronous command; return its tag."""
        if isinstance(statement, st.Begin):
            return self._begin(statement)
        if isinstance(statement, st.End):
            return self._end(commits=statement.commits)
        if isinstance(statement, st.Savepoint):
            self._return_to(self._block.savepoint(statement, self._settings.state(), self._portals.all()))
            return statement.kind
        if isinstance(statement, st.Set):
            return self._set(statement)
        if isinstance(statement, st.Reset):
            name = statement.name
            changed = self._settings.reset_all() if name == "all" else [self._settings.reset(name)]
            self._report(each for each in changed if each is not None)
            return "RESET"
        if isinstance(statement, st.Discard):
            return self._discard(statement.what)
        if isinstance(statement, st.Prepare):
            self._prepared.add(statement.name, Prepared(statement.question, [*statement.oids],
                                                        len(statement.question.sql)))  # fmt: skip
            return "PREPARE"
        if isinstance(statement, st.Deallocate):
            return self._prepared.deallocate(statement.name)
        if isinstance(statement, st.Close):
            return self._portals.close_cursor(statement.name)
        assert isinstance(statement, st.Ignored)
        return statement.tag

    def _begin(self, statement: st.Begin) -> str:
        if statement.writes:
            raise read_write(statement.begin)
        if self._block.status == IN_BLOCK:
            self._outlet.write(messages.notice_response("there is already a transaction in progress", "25001"))
        else:
            self._block.status = IN_BLOCK
            self._begin_changes()
        return statement.tag

    def _begin_changes(self) -> None:
        """Remember the settings and portals to which a rollback returns; has no effect inside of a transaction.

        The messages up to Sync are a transaction, as are the statements of one simple query.
        """
        self._settings.begin()
        if self._block.begun is None:
            self._block.begun = self._portals.all()

    def _end_changes(self, *, commits: bool) -> None:
        """Keep the changes of a transaction, or undo them."""
        if not commits and self._block.begun is not None:
            self._portals.close_others(self._block.begun)
        self._report(self._settings.end(commits=commits).items())

    def _return_to(self, state: SavedState | None) -> None:
        """Restore the settings of a savepoint, and remove the portals that are newer."""
        if state is not None:
            self._report(self._settings.restore(state.settings).items())
            self._portals.close_others(state.portals)

    def _end(self, *, commits: bool) -> str:
        if self._block.status == IDLE:
            self._outlet.write(messages.notice_response("there is no transaction in progress", "25P01"))
        commits = commits and self._block.status != FAILED
        self._end_changes(commits=commits)
        self._block.status = IDLE
        self._end_block()
        return "COMMIT" if commits else "ROLLBACK"

    def _set(self, statement: st.Set) -> str:
        try:
            changed = self._settings.set(statement.name, statement.value, is_local=statement.is_local)
        except PostgresError as error:
            error.position = statement.begin + 1
            raise
        if statement.is_local and not self._block.is_pinned:
            self._outlet.write(messages.notice_response("SET LOCAL has an effect in transaction blocks only", "25P01"))
        if statement.name == "timezone" and (statement.value or "UTC").upper() not in ("UTC", "GMT", "ETC/UTC"):
            self._outlet.write(messages.notice_response("times are shown in UTC, with their offset"))
        self._report([changed] if changed is not None else [])
        return "SET"

    def _discard(self, what: str) -> str:
        if what == "ALL":
            if self._block.status != IDLE:
                raise PostgresError("25001", "expected DISCARD ALL outside of a transaction block, was inside of one")
            self._portals.clear(keeps_held_cursors=False)
            self._prepared.deallocate(None)
            self._report(self._settings.reset_all())
        return f"DISCARD {what}"

    async def _declare(self, statement: st.Declare, values: Sequence[str]) -> None:
        if not self._block.is_pinned and not statement.outlives:
            raise PostgresError(
                "25P01", "expected DECLARE CURSOR in a transaction block, was outside of one",
                hint="BEGIN comes first; a cursor WITH HOLD needs none.",
            )  # fmt: skip
        self._portals.check_new(statement.name, "cursor")
        rows = await self._execution.ask(statement.question, values, most_rows=ANY_ROWS)
        portal = Portal(Prepared(statement.question, [], 0), (), [int(statement.is_binary)])
        portal.outlives = statement.outlives
        self._portals.add(statement.name, portal)
        try:
            self._portals.fill(portal, Cursor(rows, [int(statement.is_binary)] * len(rows.fields)))
        except PostgresError:
            self._portals.close(statement.name)
            raise
        self._complete("DECLARE CURSOR")

    async def _rows_of_command(self, statement: st.Show | st.Fetch, wanted: Sequence[int], *, describes: bool) -> None:
        rows = self._known_rows(statement)
        if rows is not None:
            formats = _formats(wanted, len(rows.fields))
            if isinstance(statement, st.Fetch) and not wanted:
                formats = list(self._portals.cursor(statement.cursor).formats)
            if describes:
                self._outlet.write(messages.row_description(rows.fields, formats))
        if isinstance(statement, st.Show):
            assert rows is not None
            await self._execution.send(rows, [range(len(rows))], formats)
            self._complete("SHOW")
            return
        ranges = self._portals.cursor(statement.cursor).move(statement)
        if rows is not None:
            await self._execution.send(rows, ranges, formats)
        count = sum(len(each) for each in ranges)
        self._complete(f"{'MOVE' if statement.moves else 'FETCH'} {count}")

    def _known_rows(self, statement: Statement | None) -> ShownRows | None:
        """Return all rows of a SHOW, or of the cursor of a FETCH; None for every other statement."""
        if isinstance(statement, st.Show):
            if statement.name == "all":
                lines = [(name, value, "") for name, value in self._settings.all().items()]
                return ShownRows.of_text(("name", "setting", "description"), lines)
            return ShownRows.of_text((statement.name,), [(self._settings.show(statement.name),)])
        if isinstance(statement, st.Fetch) and not statement.moves:
            return self._portals.cursor(statement.cursor).rows
        return None

    def _resolved(self, statement: Statement) -> Statement:
        """Return the statement; for EXECUTE return the prepared question with the values in place of its parameters.

        Raises `PostgresError` for an unknown name, the name of a command, or a wrong number of values.
        """
        if not isinstance(statement, st.Execute):
            return statement
        try:
            prepared = self._prepared.find(statement.name)
        except PostgresError as error:
            error.position = statement.begin + 1
            raise
        question, oids = prepared.statement, prepared.oids
        if not isinstance(question, Question):
            raise PostgresError("0A000", f"expected a prepared SELECT, was {statement.name[:80]!r}, which is a command",
                                position=statement.begin + 1)  # fmt: skip
        if len(statement.values) != len(oids):
            raise PostgresError("42601", f"expected {len(oids)} values for {statement.name[:80]!r}, was "
                                f"{len(statement.values)}", position=statement.begin + 1)  # fmt: skip
        try:
            values = [typed_expression(value, oid) for value, oid in zip(statement.values, oids, strict=True)]
        except PostgresError as error:
            error.position = statement.begin + 1
            raise
        return Question(
            with_values(question, values), question.begin, (), question.epoch, question.explains, statement.begin
        )

    async def _run(self, portal: Portal) -> Cursor:
        """Return the rows of a portal; the first call asks the portal's question."""
        if portal.cursor is None:
            question = portal.question
            assert question is not None
            self._block.check(question)
            rows = await self._execution.ask(question, portal.values)
            described = portal.prepared.described
            if described is not None and described != _described(question, rows):
                raise PostgresError("0A000", "expected the columns that were described, was others: prepare it again")
            cursor = Cursor(rows, _formats(portal.formats, len(rows.fields)))
            self._portals.fill(portal, cursor)
            return cursor
        return portal.cursor

    async def _parsed(self, text: str) -> list[Statement]:
        if len(text) <= _LONG_TEXT:
            return parsed(text)
        statements: list[Statement] = await self._shared.parts.in_thread(lambda: parsed(text))
        return statements

    def _complete(self, tag: str) -> None:
        self._outlet.write(messages.command_complete(tag))

    def _report(self, changed: Iterable[tuple[str, str]]) -> None:
        """Send the changed settings that clients track."""
        for name, value in changed:
            self._outlet.write(messages.parameter_status(name, value))


def _described(question: Question, rows: ShownRows) -> tuple[tuple[str, int], ...]:
    """Return the columns of an answer, which must be those that Describe has reported.

    If the question has parameters, names are left out, because DuckDB names a column without an alias after its
    expression, with the value of the parameter.
    """
    return tuple(("" if question.parameters else field.name, field.oid) for field in rows.fields)


def _tag(statement: Statement, count: int) -> str:
    return "EXPLAIN" if isinstance(statement, Question) and statement.explains else f"SELECT {count}"


def _format(code: int) -> int:
    if code not in (0, 1):
        raise PostgresError("08P01", f"expected the format 0 or 1, was {code}")
    return code


def _formats(wanted: Sequence[int], count: int) -> list[int]:
    """Return the format of each column: text if ``wanted`` is empty; a single entry of ``wanted`` applies to all.

    Raises `PostgresError` for a wrong number of entries.
    """
    if len(wanted) not in (0, 1, count):
        raise PostgresError("08P01", f"expected formats of {count} columns, was {len(wanted)}")
    return list(wanted) * count if len(wanted) == 1 else list(wanted) or [0] * count
