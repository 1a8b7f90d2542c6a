"""``deltabook reader``: add, list and drop sources that a running runtime reads in addition to its feed."""

from __future__ import annotations

import re
import urllib.parse
from typing import Final, Literal, get_args, get_type_hints

import click
import msgspec

from deltabook.cli._options import FloatRange, OptionError, address, json_option
from deltabook.cli._ports import LazyResults, results_options
from deltabook.cli._terminal import print_table
from deltabook.wire.catalogue import TIMEOUT_SECONDS
from deltabook.wire.readers import (
    ChangedReader,
    Connection,
    FileConnection,
    NewColumn,
    NewReader,
    Readers,
    ReaderStatus,
    RowsKept,
    SocketConnection,
)

__all__ = ["command"]

_COLUMN: Final = re.compile(r"(\w+)\s+(\w+)(?:\((\d+)\))?(\s+null)?")
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_TYPES: Final = {
    **dict.fromkeys(("bigint", "int", "integer", "smallint"), "int64"),
    "hugeint": "int128",
    **dict.fromkeys(("double", "float", "real"), "float64"),
    **dict.fromkeys(("varchar", "text"), "string"),
    "boolean": "bool",
}
"""The runtime's name of each SQL type."""
_COLUMNS: Final = ("name", "adaptor", "state", "source", "relations", "rows", "bytes", "malformed", "delivery", "since")
_LEFT: Final = ("name", "adaptor", "state", "source", "relations", "delivery")


@click.group()
def command() -> None:
    """Add, list and drop the files, streams and feeds that a running runtime reads in addition to its own feed."""


@command.command("add")
@click.argument("name")
@click.option("--file", "path", help="File to read, in a --reader-dir of the runtime.")
@click.option("--connect", metavar="HOST:PORT", help="Server to read from.")
@click.option(
    "--adaptor",
    default="rows",
    help="Adaptor: rows, orderbook for the feed of a market, or the name of an installed one.",
)
@click.option(
    "--format", "format_", default="", help="Format, as in CREATE STREAM; text or itch for a feed.  [default: csv]"
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="'NAME TYPE[(SCALE)] [null]'",
    help="Column, in order; repeatable. Types: int64, int128, float64, string, bool, date, timestamp, or SQL's.",
)
@click.option("--option", "options", multiple=True, metavar="NAME=TEXT", help="Option of CREATE STREAM; repeatable.")
@click.option("--relation", default="", help="Name of the relation in SQL.  [default: the reader's name]")
@click.option("--keep-rows", type=click.IntRange(1), help="Number of rows to keep.  [default: all]")
@click.option(
    "--keep-time", metavar="COLUMN=SPAN", help="Keep the rows of this span before the newest one, by an int64 column."
)
@click.option(
    "--at-most-once", is_flag=True, help="Accept the loss of data that is sent while the runtime is not connected."
)
@results_options()
@json_option
def add(  # noqa: PLR0917 - click passes every option by name
    name: str,
    path: str | None,
    connect: str | None,
    adaptor: str,
    format_: str,
    columns: tuple[str, ...],
    options: tuple[str, ...],
    relation: str,
    keep_rows: int | None,
    keep_time: str | None,
    at_most_once: bool,
    results: LazyResults,
    as_json: bool,
) -> None:
    """Add a reader; its relations can be used at once, in both lanes.

    For example: deltabook reader add limits --file limits.csv --option header=true --column 'symbol string' --column
    'lots int64' --results 127.0.0.1:8080
    """
    if not _NAME.fullmatch(name):
        raise OptionError(f"expected a name of small letters, digits and _ for the reader, was {name!r}")
    wanted = NewReader(
        name,
        _connection(path, connect, at_most_once=at_most_once),
        adaptor,
        format_,
        dict(_pair(text, "--option") for text in options),
        relation,
        tuple(map(_column, columns)),
        _kept(keep_rows, keep_time),
    )
    if adaptor == "rows" and not columns:
        raise OptionError("expected --column for each column of the rows, was none")
    body = msgspec.json.encode(wanted)
    _print_change("added", results().ask("POST", "/v1/readers", body), as_json)


@command.command("list", short_help="List what the runtime reads: its own feed first, then readers.")
@results_options()
@json_option
def list_readers(results: LazyResults, as_json: bool) -> None:
    """List the feeds, files and streams that the runtime reads, its own feed first."""
    answer = results().ask("GET", "/v1/readers")
    readers = msgspec.json.decode(answer, type=Readers).readers
    if as_json:
        for reader in readers:
            click.echo(msgspec.json.encode(reader))
        return
    print_table("readers", _COLUMNS, map(_line, readers), left=_LEFT)
    for reader in readers:
        if reader.reason:
            click.echo(f"{reader.name} failed: {reader.reason}")


@command.command("drop")
@click.argument("name")
@click.option(
    "--existing-rows",
    "rows",
    type=click.Choice(["leave", "stay"]),
    default="leave",
    help="Remove the rows that the reader has read (leave), or keep them (stay).",
)
@click.option(
    "--timeout",
    type=FloatRange(0, 3600),
    default=TIMEOUT_SECONDS,
    help="Seconds to wait until the change is published.",
)
@results_options()
@json_option
def drop(name: str, rows: Literal["leave", "stay"], timeout: float, results: LazyResults, as_json: bool) -> None:
    """Drop a reader whose relations no view reads."""
    query = urllib.parse.urlencode({"rows": rows, "timeout_s": timeout})
    path = f"/v1/readers/{urllib.parse.quote(name, safe='')}?{query}"
    _print_change("dropped", results().ask("DELETE", path, timeout=timeout), as_json)


def _connection(path: str | None, connect: str | None, *, at_most_once: bool) -> Connection:
    if (path is None) == (connect is None):
        raise OptionError("expected either --file or --connect, was " + ("none" if path is None else "both"))
    if path is not None:
        if at_most_once:
            raise OptionError("expected --at-most-once of a stream only, was --file")
        return FileConnection(path)
    host, port = address(connect or "", "--connect")
    return SocketConnection(host, port, "at-most-once" if at_most_once else "")


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise OptionError(f"expected {option} NAME=TEXT, was {text!r}")
    return name, value


def _column(text: str) -> NewColumn:
    match = _COLUMN.fullmatch(text.strip())
    if match is None:
        raise OptionError(
            f"expected --column 'NAME TYPE[(SCALE)] [null]', such as 'price bigint(2)' for DECIMAL(18,2), was {text!r}"
        )
    name, type_, scale, null = match.groups()
    try:
        return msgspec.convert(
            {
                "name": name,
                "type": _TYPES.get(type_.lower(), type_.lower()),
                "nullable": null is not None,
                "scale": int(scale or 0),
            },
            NewColumn,
        )
    except msgspec.ValidationError as error:
        if not error.args[0].endswith("`$.type`"):
            raise OptionError(f"--column {text!r}: {error}") from None
        types = ", ".join(get_args(get_type_hints(NewColumn)["type"]))
        hint = (
            f"; int128 with --option type.{name}=uint64 is unsigned" if type_.lower() in ("ubigint", "uint64") else ""
        )
        raise OptionError(f"expected a type out of {types} for --column {name}, was {type_!r}{hint}") from None


def _kept(rows: int | None, time: str | None) -> RowsKept | None:
    if rows is None:
        if time is not None:
            raise OptionError("expected --keep-rows with --keep-time, was none: rows without a limit")
        return None
    if time is None:
        return RowsKept(rows)
    column, span = _pair(time, "--keep-time")
    if not span.isdecimal():
        raise OptionError(f"expected --keep-time COLUMN=SPAN with a whole number, was {time!r}")
    return RowsKept(rows, column, int(span))


def _line(reader: ReaderStatus) -> tuple[object, ...]:
    return (
        reader.name,
        reader.adaptor,
        reader.state,
        reader.source,
        ", ".join(reader.relations),
        reader.sequence,
        reader.offset,
        reader.malformed,
        reader.delivery,
        reader.since,
    )


def _print_change(what: str, answer: bytes, as_json: bool) -> None:
    if as_json:
        click.echo(answer)
        return
    changed = msgspec.json.decode(answer, type=ChangedReader)
    relations = ", ".join(changed.reader.relations)
    click.echo(f"reader {changed.reader.name} {what} at epoch {changed.epoch}: {relations}")
