"""Output of `query show`, `query watch` and `query ask`: rows of a running runtime as tables, JSON or Arrow."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any, Final, Literal

import click
import msgspec
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from algo_engine.views.contents import ViewChange
from algo_engine.views.mirror import ViewMirror, column_scales
from deltabook.cli._options import ConfigFileError
from deltabook.cli._ports import ResultsPort
from deltabook.cli._terminal import print_table
from deltabook.wire.advice import did_you_mean
from deltabook.wire.results import Frame, FrameDecoder
from deltabook.wire.service import ASK_PATH, CURSORS_PATH, VIEWS_PATH, AnsweredColumn, Cursor, NewCursor, Question
from runtime.plan import Column

__all__ = [
    "TABLE_ROWS",
    "WatchScreen",
    "ask_question",
    "print_rows",
    "running_views",
    "show_view",
    "shown",
    "watch_views",
]

_FRESH_S: Final = 1.0
"""Seconds for which a new row is marked."""
_SILENT_S: Final = 3.0
"""Seconds without a message after which the screen warns; the service sends a heartbeat every second."""
_MOST_FRESH: Final = 10_000
"""Maximum number of marked rows of a view."""
_RATE_SPAN_S: Final = 5.0
"""Seconds over which changes per second are averaged."""
_LEAST_ROWS: Final = 3
"""Least number of rows that are shown of each view, however many views there are."""
_LINES_AROUND: Final = 5
"""Lines of a table besides its rows: title, heading with a rule, number of omitted rows, and a blank line."""


def shown(value: Any, scale: int = 0) -> str:
    """Return a value of a row as text; an integer with a scale becomes an exact decimal."""
    if value is None:
        return "NULL"
    if scale and isinstance(value, int):
        digits = tuple(int(digit) for digit in str(abs(value)))
        return f"{Decimal((int(value < 0), digits, -scale)):f}"  # scaleb would round at 28 digits
    return str(value)


class _Watched:
    """Description and recent changes of a view on the screen; the view's rows are in the screen's mirror."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.state = "waiting for its rows"
        self.time_ns = 0
        self.changes: deque[float] = deque(maxlen=10_000)
        """Times of the view's newest changes."""
        self.last = ""
        """Text of the newest change, such as ``+3 −1``."""
        self.fresh: dict[tuple[Any, ...], float] = {}
        """Time at which each new row arrived."""
        self.order: list[tuple[Any, ...]] | None = None
        """Rows of the view, sorted for display; None if they have changed since they were sorted."""


class WatchScreen:
    """Screen of `query watch`, which rich redraws on a thread of its own while another thread enters frames."""

    def __init__(
        self,
        views: Sequence[dict[str, Any]],
        clock: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Make a screen; ``views`` are the descriptions that the results service returns."""
        self._clock = clock
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._mirror = ViewMirror()
        self._watched = {view["name"]: _Watched(view) for view in views}
        self._received_s = clock()

    def enter(self, frame: Frame) -> None:
        """Apply a frame of the change stream."""
        with self._lock:
            self._received_s = self._clock()
            watched = self._watched.get(frame.header.view)
            if watched is None:
                return
            if frame.header.kind == "error":
                watched.state = frame.header.reason
                return
            change = self._mirror.apply(frame)
            if change is not None:
                self._note(watched, change)

    def _note(self, watched: _Watched, change: ViewChange) -> None:
        now, columns = self._clock(), self._mirror.contents(change.view).columns
        watched.state = ""
        watched.time_ns = change.time_ns
        watched.order = None
        if change.is_snapshot:
            watched.last = "snapshot"
            watched.fresh.clear()
            return
        watched.changes.append(now)
        watched.last = f"+{len(change.added)} −{len(change.removed)}"
        for row in change.removed:
            watched.fresh.pop(tuple(row[name] for name in columns), None)
        for row in change.added[:_MOST_FRESH]:
            watched.fresh[tuple(row[name] for name in columns)] = now
        if len(watched.fresh) > _MOST_FRESH:
            watched.fresh.clear()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            height = options.height or console.size.height
            lines = max(_LEAST_ROWS, (height - 1) // max(1, len(self._watched)) - _LINES_AROUND)
            silent_s = self._clock() - self._received_s
            parts = [part for name, watched in self._watched.items() for part in self._view(name, watched, lines)]
            if silent_s > _SILENT_S:
                parts.append(Text(f"no message for {silent_s:.0f} s: the rows may be stale", style="bold"))
        yield Group(*parts)

    def _view(self, name: str, watched: _Watched, lines: int) -> Iterator[Text | Table]:
        """Yield a view's title, its table, and the number of rows that are omitted."""
        about = watched.about
        title, kind = Text(name, style="bold"), f"{about['class']}, lane {about['lane']}"
        if name not in self._mirror:
            yield Text.assemble(title, f"  {kind}  {watched.state}")
            return
        contents, now = self._mirror.contents(name), self._clock()
        while watched.changes and watched.changes[0] <= now - _RATE_SPAN_S:
            watched.changes.popleft()
        step = f" step {contents.step}" if contents.step else ""
        rows = len(contents)
        age = watched.state or f"{max(0, self._now_ns() - watched.time_ns) / 1e6:,.0f} ms ago"
        rate = f"{len(watched.changes) / _RATE_SPAN_S:.1f} changes/s  {watched.last}"
        version = f"epoch {contents.epoch}{step}  {rows:,} row{'s' * (rows != 1)}"
        # The title is cut to one line: a second line would push the last table off the screen.
        details = f"  {version}  {age}" + ("" if watched.state else f"  {rate}  {kind}")
        yield Text.assemble(title, details, no_wrap=not watched.state, overflow="fold" if watched.state else "ellipsis")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.add_column("", width=1)
        texts = {column["name"] for column in about["columns"] if column["type"] == "string"}
        for column in contents.columns:
            table.add_column(Text(column), justify="left" if column in texts else "right", no_wrap=True)
        if watched.order is None:
            watched.order = sorted((tuple(row.values()) for row in contents.rows()), key=_order)
        watched.fresh = {row: since for row, since in watched.fresh.items() if since > now - _FRESH_S}
        scales = [contents.scales.get(column, 0) for column in contents.columns]
        for row in watched.order[:lines]:
            cells = [Text(shown(value, scale)) for value, scale in zip(row, scales, strict=True)]
            is_fresh = row in watched.fresh
            table.add_row("+" if is_fresh else "", *cells, style="bold green" if is_fresh else None)
        yield table
        if rows > lines:
            yield Text(f"… and {rows - lines:,} more", style="dim")


def _order(row: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    """Return a sort key: by the columns from the left, NULL first."""
    return tuple((value is not None, value if value is not None else 0) for value in row)


_JSON: Final = msgspec.json.Encoder(decimal_format="number")
TABLE_ROWS: Final = 1_000
"""Default number of rows of a table."""
_FLOW_BYTES: Final = 64 * 1024
"""Largest piece of the change stream that is read at once, in bytes."""
_PAGE_ROWS: Final = 10_000
"""Largest number of rows in a page of a view."""
_REDRAWN_PER_S: Final = 4
"""Number of times a second that the screen is drawn."""
_WITHOUT_ROWS: Final = frozenset({"heartbeat", "progress"})
"""Kinds of frames that do not contain a version of a view."""


class _Page(msgspec.Struct, frozen=True):
    """One page of a cursor's rows."""

    rows: msgspec.Raw
    """Undecoded JSON: its numbers may exceed every integer type of msgspec."""


def print_rows(
    name: str, columns: Sequence[Column], rows: list[list[Any]], epoch: int, view_class: str, *, as_json: bool
) -> None:
    """Print a result as a table or as one JSON object."""
    names = [c.name for c in columns]
    if as_json:
        line = {"query": name, "columns": names, "rows": rows, "epoch": epoch, "class": view_class}
        sys.stdout.write(_JSON.encode(line).decode() + "\n")
        sys.stdout.flush()
        return
    _print_table(f"{name} ({view_class}, epoch {epoch})", columns, rows)


def _print_table(title: str, columns: Sequence[Column], rows: list[list[Any]]) -> None:
    names = [column.name for column in columns]
    cells = (["NULL" if value is None else value for value in row] for row in rows)
    print_table(title, names, cells, left=[column.name for column in columns if column.type == "string"])


def running_views(results: ResultsPort) -> list[dict[str, Any]]:
    """Return the descriptions of a runtime's views, as its results service returns them."""
    views: list[dict[str, Any]] = msgspec.json.decode(results.ask("GET", VIEWS_PATH))
    return views


def _known(results: ResultsPort, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the descriptions of the named views; raise `ConfigFileError` for an unknown name."""
    views = {view["name"]: view for view in running_views(results)}
    for name in names:
        if name.lower() not in views:
            known = ", ".join(sorted(views)) or "none, as there is no view"
            raise ConfigFileError(
                f"expected one of the views of the runtime at {results.where} ({known}), was {name!r}"
                f"{did_you_mean(name.lower(), views)}"
            )
    return [views[name.lower()] for name in names]


def show_view(results: ResultsPort, name: str, as_json: bool, most: int) -> None:
    """Print the rows of a view once, at its newest version: the first ``most`` of them, 0 for all.

    The rows are fetched page by page, and are all of one version even if others are published meanwhile.
    """
    (view,) = _known(results, [name])
    wanted = msgspec.json.encode(NewCursor(min(most, _PAGE_ROWS) or _PAGE_ROWS))
    path = f"{VIEWS_PATH}/{urllib.parse.quote(view['name'], safe='')}/cursor"
    cursor = msgspec.json.decode(results.ask("POST", path, wanted), type=Cursor)
    where = f"{CURSORS_PATH}/{urllib.parse.quote(cursor.id, safe='')}"
    rows: list[list[Any]] = []
    try:
        pages = _pages(results, where, cursor, most or cursor.rows)
        if as_json:
            _write_json(view, cursor, pages)
        else:
            rows = [row for page in pages for row in json.loads(page, parse_float=Decimal)]
    finally:
        # The runtime has closed the cursor itself if the reader of the output was slow; no row is missing then.
        with suppress(ConfigFileError):
            results.ask("DELETE", where)
    if not as_json:
        _write_table(view, cursor, rows)


def _pages(results: ResultsPort, where: str, cursor: Cursor, most: int) -> Iterator[bytes]:
    """Yield pages of rows, each a JSON list, with at most ``most`` rows in total."""
    for number in range(min(cursor.pages, -(-most // cursor.page_rows))):
        page = msgspec.json.decode(results.ask("GET", f"{where}?page={number}"), type=_Page)
        left = most - number * cursor.page_rows
        if left < cursor.page_rows:
            rows = msgspec.json.decode(bytes(page.rows), type=list[msgspec.Raw])
            yield msgspec.json.encode(rows[:left])
        else:
            yield bytes(page.rows)


def _write_json(view: dict[str, Any], cursor: Cursor, pages: Iterator[bytes]) -> None:
    """Write one JSON object page by page, so that a large view is never in memory as a whole."""
    before = {"query": view["name"], "columns": [column.name for column in cursor.columns]}
    after = {"epoch": cursor.epoch, "step": cursor.step, "class": view["class"], "lane": view["lane"]}
    write = sys.stdout.write
    write(_JSON.encode(before).decode()[:-1] + ',"rows":[')
    comma = ""
    for page in pages:
        inner = page.decode().strip()[1:-1]
        if inner:
            write(comma + inner)
            comma = ","
    write("]," + _JSON.encode(after).decode()[1:] + "\n")
    sys.stdout.flush()


def _write_table(view: dict[str, Any], cursor: Cursor, rows: list[list[Any]]) -> None:
    step = f" step {cursor.step}" if cursor.step else ""
    columns = msgspec.convert(view["columns"], tuple[Column, ...])
    _print_table(f"{view['name']} ({view['class']}, epoch {cursor.epoch}{step})", columns, rows)
    if len(rows) < cursor.rows:
        click.echo(f"the first {len(rows):,} of {cursor.rows:,} rows; --rows 0 prints all")


def watch_views(results: ResultsPort, names: Sequence[str], as_json: bool, versions: int) -> None:
    """Show views as they change; stop after this number of ``versions``, 0 for no end.

    On a terminal their rows are redrawn in place; elsewhere, and with ``as_json``, each change is printed.
    """
    views = _known(results, names)
    wanted = ",".join(urllib.parse.quote(view["name"], safe="") for view in views)
    frames = _frames(results, f"/v1/changes?views={wanted}")
    frames = _until_all_end(frames, [view["name"] for view in views], results.where)
    console = Console()
    if as_json or not console.is_terminal:
        _follow(frames, versions, partial(_print_frame, as_json=as_json))
        return
    screen = WatchScreen(views)
    with Live(screen, console=console, refresh_per_second=_REDRAWN_PER_S):
        _follow(frames, versions, screen.enter)


def _follow(frames: Iterator[Frame], versions: int, take: Callable[[Frame], None]) -> None:
    """Read frames until they contain this many versions."""
    seen = 0
    for frame in frames:
        take(frame)
        seen += frame.header.kind not in _WITHOUT_ROWS
        if versions and seen >= versions:
            return


def _until_all_end(frames: Iterator[Frame], names: Sequence[str], where: str) -> Iterator[Frame]:
    """Yield frames until every view has ended; raise `ConfigFileError` if the runtime ends before that."""
    left = set(names)
    for frame in frames:
        yield frame
        if frame.header.kind == "error":
            left.discard(frame.header.view)
            if not left:
                return
    raise ConfigFileError(
        f"expected changes of {', '.join(sorted(left))}, was the end: the runtime at {where} has ended"
    )


def _frames(results: ResultsPort, path: str) -> Iterator[Frame]:
    decoder = FrameDecoder()
    with results.open(path, timeout=None) as response:
        while data := _more(response, results.where):
            yield from decoder.feed(data)


def _more(response: http.client.HTTPResponse, where: str) -> bytes:
    try:
        return response.read1(_FLOW_BYTES)
    except (http.client.HTTPException, OSError) as error:
        raise ConfigFileError(f"the runtime at {where} has closed the connection or has ended") from error


def _print_frame(frame: Frame, as_json: bool) -> None:
    header = frame.header
    if header.kind in _WITHOUT_ROWS:
        return
    rows = frame.rows.to_pylist() if frame.rows is not None else []
    if as_json:
        line = {
            "query": header.view,
            "kind": header.kind,
            "from": header.from_epoch,
            "to": header.to_epoch,
            "step": header.step,
            "rows": rows,
        }
        click.echo(_JSON.encode(line).decode())
        return
    step = f" step {header.step}" if header.step else ""
    click.echo(f"{header.view}: {header.kind} ({header.from_epoch}, {header.to_epoch}]{step} {header.reason}".rstrip())
    scales = {} if frame.rows is None else column_scales(frame.rows.schema)
    for row in rows:
        weight = row.pop("weight")
        cells = (f"{name}={shown(value, scales.get(name, 0))}" for name, value in row.items())
        click.echo(f"  {weight:+d}  " + "  ".join(cells))


_ARROW: Final = "application/vnd.apache.arrow.stream"
_PIECE_BYTES: Final = 256 * 1024
_TEXTS: Final = ("VARCHAR", "DATE", "TIMESTAMP", "BLOB", "UUID")
_SECONDS: Final = 600.0
"""Timeout of a question in seconds: the longest limit that a runtime can have, so that the runtime's own message comes
first.
"""


class _Answer(msgspec.Struct, frozen=True):
    epoch: int
    columns: tuple[AnsweredColumn, ...]
    rows: msgspec.Raw
    """Undecoded JSON: its numbers may exceed every integer type of msgspec."""


def ask_question(
    results: ResultsPort, sql: str, epoch: int | None, form: Literal["table", "json", "arrow"], most: int
) -> None:
    """Run an ad-hoc SELECT and print the answer; a table shows its first ``most`` rows."""
    body = msgspec.json.encode(Question(sql, epoch))
    accept = _ARROW if form == "arrow" else "application/json"
    with results.open(ASK_PATH, _SECONDS, method="POST", body=body, accept=accept) as response:
        if form == "arrow":
            while piece := response.read(_PIECE_BYTES):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        answer = msgspec.json.decode(response.read(), type=_Answer)
    if form == "json":
        columns = msgspec.json.encode([column.name for column in answer.columns]).decode()
        types = msgspec.json.encode([column.type for column in answer.columns]).decode()
        rows = bytes(answer.rows).decode()
        click.echo(f'{{"epoch":{answer.epoch},"columns":{columns},"types":{types},"rows":{rows}}}')
        return
    _print_answer(answer, most)


def _print_answer(answer: _Answer, most: int) -> None:
    rows: list[list[Any]] = json.loads(bytes(answer.rows), parse_float=Decimal)
    cells = [["NULL" if value is None else value for value in row] for row in rows[:most]]
    names = [column.name for column in answer.columns]
    left = [column.name for column in answer.columns if column.type.startswith(_TEXTS)]
    print_table(f"epoch {answer.epoch}", names, cells, left=left)
    if len(rows) > most:
        click.echo(f"the first {most:,} of {len(rows):,} rows; --rows prints more")
