"""`deltabook data`: inspect recorded files, and convert them to Parquet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from deltabook.cli._options import BACKTEST_FORMATS, FORMATS, day_option, queue_option
from deltabook.cli._terminal import print_table, progress

if TYPE_CHECKING:
    from deltabook.backtest import DataFile

__all__ = ["command"]

_PATH: Final = click.Path(path_type=Path, exists=True)
_ACTIONS: Final = {
    "B": "bids", "S": "asks", "E": "executed", "F": "filled", "D": "deleted", "X": "reduced", "U": "replaced",
    "V": "changed", "T": "trades", "C": "broken",
}  # fmt: skip
"""Heading of the column with the number of each action."""


def _options(formats: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options that describe a file."""
    options = (
        click.option("--format", "form", type=click.Choice(formats), help="Format of the file.  [default: detected]"),
        click.option(
            "--symbol", default="REPLAY", help="Symbol of a file that contains none; for ITCH, the stocks, as in A,B."
        ),
        day_option,
        click.option("--orderbook", type=_PATH, help="LOBSTER's order book file of the same messages."),
        click.option("--trades", type=_PATH, help="File with the trades of the period of a depth file."),
        queue_option,
    )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@click.group()
def command() -> None:
    """Inspect recorded files, and convert them to Parquet."""


@command.command("info")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_PATH)
@_options(BACKTEST_FORMATS)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def info(files: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Print symbols, times, actions and crossings of recorded files. The whole files are read."""
    import msgspec

    from deltabook.backtest.inspection import inspect_file, source_lines

    with progress("reading the records"):
        reports = [inspect_file(_file(path, options)) for path in files]
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(reports), indent=1) + b"\n")
        sys.stdout.buffer.flush()
        return
    for each in reports:
        for line in source_lines(each.source):
            click.echo(line)
        names = ["symbol", "tick", "lot", "records", *_ACTIONS.values(), "lowest price", "highest price"]
        rows = [
            [s.symbol, each.tick_size, each.lot_size, f"{s.records:,}",
             *(f"{s.actions.get(letter, 0):,}" for letter in _ACTIONS), s.lowest_price, s.highest_price]
            for s in each.symbols
        ]  # fmt: skip
        print_table("records by symbol", names, rows, left=["symbol"])


@command.command("convert")
@click.argument("file", metavar="IN", type=_PATH)
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@_options(FORMATS)
def convert(file: Path, out: Path, **options: Any) -> None:
    """Write a recording as Parquet, which contains its own scales.

    OUT.parquet is one file. Any other OUT is a folder with a file for each day and symbol. Both are recordings for
    `backtest`, `sweep` and `replay`.
    """
    from deltabook.backtest.inspection import convert_file

    with progress("writing the records"):
        converted = convert_file(_file(file, options), out)
    click.echo(
        f"{out}: {converted.records:,} records of {', '.join(converted.symbols)}; {converted.errors:,} bad and "
        f"{converted.skipped:,} left out of {file}"
    )


def _file(path: Path, options: dict[str, Any]) -> DataFile:
    from deltabook.backtest import DataFile

    return DataFile(
        path, options["form"] or "", options["symbol"], options["day"], "", options["orderbook"], options["trades"],
        options["queue"],
    )  # fmt: skip
