"""Rows of views: results as tables or JSON, rows of a running runtime's views, and their changes."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

import click
import msgspec
from rich.console import Console
from rich.live import Live

from algo_engine.mirror import column_scales
from deltabook.cli._errors import ConfigurationError
from deltabook.cli._results import ResultsPort
from deltabook.cli._tables import print_table
from deltabook.cli._watching import WatchScreen, shown
from deltabook.wire.advice import did_you_mean
from deltabook.wire.results import Frame, FrameDecoder
from deltabook.wire.service import CURSORS_PATH, VIEWS_PATH, Cursor, NewCursor
from runtime.plan import Column

__all__ = ["TABLE_ROWS", "print_rows", "running_views", "show_view", "watch_views"]

_JSON: Final = msgspec.json.Encoder(decimal_format="number")
TABLE_ROWS: Final = 1_000
"""Default number of rows of a table."""
_FLOW_BYTES: Final = 64 * 1024
_PAGE_ROWS: Final = 10_000
_REDRAWN_PER_S: Final = 4
_WITHOUT_ROWS: Final = frozenset({"heartbeat", "progress"})


class _Page(msgspec.Struct, frozen=True):
    """Some of a cursor's rows."""

    rows: msgspec.Raw
    """As they came: their numbers may be longer than any type here."""


def print_rows(
    name: str, columns: Sequence[Column], rows: list[list[Any]], epoch: int, view_class: str, *, as_json: bool
) -> None:
    """A result, as a table or as one JSON object."""
    names = [c.name for c in columns]
    if as_json:
        line = {"query": name, "columns": names, "rows": rows, "epoch": epoch, "class": view_class}
        sys.stdout.write(_JSON.encode(line).decode() + "\n")
        sys.stdout.flush()
        return
    _print_table(f"{name} ({view_class}, epoch {epoch})", columns, rows)


def _print_table(title: str, columns: Sequence[Column], rows: list[list[Any]]) -> None:
    names = [column.name for column in columns]
    shown = (["NULL" if value is None else value for value in row] for row in rows)
    print_table(title, names, shown, left=[column.name for column in columns if column.type == "string"])


def running_views(results: ResultsPort) -> list[dict[str, Any]]:
    """The views of a runtime."""
    views: list[dict[str, Any]] = msgspec.json.decode(results.get(VIEWS_PATH))
    return views


def _known(results: ResultsPort, names: Sequence[str]) -> list[dict[str, Any]]:
    """These views; raises `ConfigurationError` for one that is not there."""
    views = {view["name"]: view for view in running_views(results)}
    for name in names:
        if name.lower() not in views:
            known = ", ".join(sorted(views)) or "none, as there is no view"
            raise ConfigurationError(
                f"expected one of the views of the runtime at {results.where} ({known}), was {name!r}"
                f"{did_you_mean(name.lower(), views)}"
            )
    return [views[name.lower()] for name in names]


def show_view(results: ResultsPort, name: str, as_json: bool, most: int) -> None:
    """Print the rows of a view once, at its newest version: the first ``most`` of them, 0 for all.

    They are fetched page by page, all of one version, whatever is published meanwhile.
    """
    (view,) = _known(results, [name])
    wanted = msgspec.json.encode(NewCursor(min(most, _PAGE_ROWS) or _PAGE_ROWS))
    path = f"{VIEWS_PATH}/{urllib.parse.quote(view['name'], safe='')}/cursor"
    cursor = msgspec.json.decode(results.ask("POST", path, wanted), type=Cursor)
    where = f"{CURSORS_PATH}/{urllib.parse.quote(cursor.id, safe='')}"
    try:
        pages = _pages(results, where, cursor, most or cursor.rows)
        if as_json:
            _write_json(view, cursor, pages)
        else:
            _write_table(view, cursor, pages)
    finally:
        results.ask("DELETE", where)


def _pages(results: ResultsPort, where: str, cursor: Cursor, most: int) -> Iterator[bytes]:
    """The rows as JSON texts of lists, until there are as many as are wanted."""
    for number in range(min(cursor.pages, -(-most // cursor.page_rows))):
        page = msgspec.json.decode(results.get(f"{where}?page={number}"), type=_Page)
        left = most - number * cursor.page_rows
        if left < cursor.page_rows:
            rows = msgspec.json.decode(bytes(page.rows), type=list[msgspec.Raw])
            yield msgspec.json.encode(rows[:left])
        else:
            yield bytes(page.rows)


def _write_json(view: dict[str, Any], cursor: Cursor, pages: Iterator[bytes]) -> None:
    """One object, written as its rows come: a view may be larger than what one would like to hold."""
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


def _write_table(view: dict[str, Any], cursor: Cursor, pages: Iterator[bytes]) -> None:
    rows = [row for page in pages for row in json.loads(page, parse_float=Decimal)]
    step = f" step {cursor.step}" if cursor.step else ""
    columns = msgspec.convert(view["columns"], tuple[Column, ...])
    _print_table(f"{view['name']} ({view['class']}, epoch {cursor.epoch}{step})", columns, rows)
    if len(rows) < cursor.rows:
        click.echo(f"the first {len(rows):,} of {cursor.rows:,} rows; --rows 0 prints all")


def watch_views(results: ResultsPort, names: Sequence[str], as_json: bool, versions: int) -> None:
    """Show views as they change; stop after this number of ``versions``, 0 for no end.

    On a terminal that is a screen with their rows; elsewhere, and as JSON, each change is printed.
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
    """The frames until every view has ended; raises `ConfigurationError` if the runtime ends before."""
    left = set(names)
    for frame in frames:
        yield frame
        if frame.header.kind == "error":
            left.discard(frame.header.view)
            if not left:
                return
    raise ConfigurationError(
        f"expected changes of {', '.join(sorted(left))}, was the end: the runtime at {where} is gone"
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
        raise ConfigurationError(f"the runtime at {where} has closed the connection or is gone") from error


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
