"""What a view says: its rows as a table, the rows of a running runtime's view, and its changes as they come."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.parse
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import click
import msgspec

from deltabook.cli._errors import ConfigurationError
from deltabook.cli._results import get, open_results
from deltabook.cli._tables import print_table
from deltabook.wire.results import FrameDecoder, FrameHeader
from runtime.compiler.program import Column

__all__ = ["print_rows", "running_views", "show_view", "watch_views"]

_JSON: Final = msgspec.json.Encoder(decimal_format="number")
_FLOW_BYTES: Final = 64 * 1024


class _Result(msgspec.Struct, frozen=True):
    """A view's rows at a version, as the runtime says them."""

    epoch: int
    """The newest epoch that is inside as a whole."""
    rows: msgspec.Raw
    """As they came: their numbers may be longer than any type here."""
    step: int = 0
    """Of a view of the express lane."""


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


def running_views(results: str) -> list[dict[str, Any]]:
    """The views of the runtime at HOST:PORT."""
    found: list[dict[str, Any]] = msgspec.json.decode(get(results, "/v1/views"))
    return found


def _known(results: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """These views; raises `ConfigurationError` for one that is not there."""
    views = {view["name"]: view for view in running_views(results)}
    for name in names:
        if name.lower() not in views:
            known = ", ".join(sorted(views)) or "none, as there is no view"
            raise ConfigurationError(f"expected one of the views of the runtime at {results} ({known}), was {name!r}")
    return [views[name.lower()] for name in names]


def show_view(results: str, name: str, as_json: bool) -> None:
    """Print the rows of a view once, at its newest version."""
    (view,) = _known(results, [name])
    path = f"/v1/views/{urllib.parse.quote(view['name'], safe='')}"
    result = msgspec.json.decode(get(results, path), type=_Result)
    if as_json:
        names = [column["name"] for column in view["columns"]]
        line = {"query": view["name"], "columns": names, "rows": result.rows, "epoch": result.epoch,
                "step": result.step, "class": view["class"], "lane": view["lane"]}  # fmt: skip
        click.echo(_JSON.encode(line).decode())
        return
    step = f" step {result.step}" if result.step else ""
    columns = msgspec.convert(view["columns"], tuple[Column, ...])
    rows = json.loads(bytes(result.rows), parse_float=Decimal)
    _print_table(f"{view['name']} ({view['class']}, epoch {result.epoch}{step})", columns, rows)


def watch_views(results: str, names: Sequence[str], as_json: bool, versions: int) -> None:
    """Print the changes of views as they are published; stop after so many ``versions``, 0 for no end."""
    seen = 0
    decoder = FrameDecoder()
    wanted = ",".join(urllib.parse.quote(view["name"], safe="") for view in _known(results, names))
    with open_results(results, f"/v1/changes?views={wanted}", timeout=None) as response:
        while data := _more(response, results):
            for frame in decoder.feed(data):
                if frame.header.kind == "heartbeat":
                    continue
                _print_frame(frame.header, frame.rows.to_pylist() if frame.rows is not None else [], as_json)
                seen += 1
                if versions and seen >= versions:
                    return


def _more(response: http.client.HTTPResponse, results: str) -> bytes:
    try:
        return response.read1(_FLOW_BYTES)
    except (http.client.HTTPException, OSError) as error:
        raise ConfigurationError(f"the runtime at {results} has closed the connection or is gone") from error


def _print_frame(header: FrameHeader, rows: list[dict[str, Any]], as_json: bool) -> None:
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
    for row in rows:
        weight = row.pop("weight")
        click.echo(f"  {weight:+d}  " + "  ".join(f"{name}={value}" for name, value in row.items()))
