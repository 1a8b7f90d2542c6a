"""`deltabook market-report`: figures of a market beside those of half an hour of BTC/USD."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from deltabook.cli._options import FORMATS, day_option
from deltabook.cli._terminal import print_table, progress

if TYPE_CHECKING:
    from deltabook.facts import Fact, Observation

__all__ = ["command"]


@click.command("market-report")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory of an exchange, live or simulated.",
)
@click.option(
    "--data",
    multiple=True,
    metavar="[SYMBOL=]FILE",
    help="Recorded file, in place of --dir; repeatable: files of one symbol are concatenated.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format of the files.  [default: detected]")
@day_option
@click.option("--tick", default="", metavar="SIZE", help="Price of one tick of the files.")
@click.option("--symbol", default="", help="Symbol to measure.  [default: the first]")
@click.option(
    "--step",
    "step_ticks",
    type=click.IntRange(0),
    default=0,
    metavar="TICKS",
    help="Unit of distances, in ticks; 0 is 0.02 % of the reference price.",
)
@click.option(
    "--out",
    "out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the figures as JSON and a picture.",
)
@click.option("--capture", "with_capture", is_flag=True, help="Also draw BTC/USD; downloads 3 MB the first time.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(  # noqa: PLR0917 - click passes every option by name
    directory: Path | None,
    data: tuple[str, ...],
    form: str | None,
    day: str,
    tick: str,
    symbol: str,
    step_ticks: int,
    out: Path | None,
    with_capture: bool,
    as_json: bool,
) -> None:
    """Measure a market: spread, depth, sizes, cancellations, bursts, tails, autocorrelation of moves, impact.

    Each figure is printed with that of half an hour of BTC/USD on Bitstamp, and with the band in which it counts as
    similar.
    """
    if (directory is None) == (not data):
        raise click.UsageError(f"expected --dir or --data, was {'both' if data else 'neither'}")
    from deltabook.backtest import DataFile
    from deltabook.facts import facts_of, watch_files, watch_journal

    with progress("watching the market"):
        if directory is not None:
            observation = watch_journal(directory, symbol, step_ticks)
        else:
            files = []
            for given in data:
                name, equals, path = given.rpartition("=")
                place = Path(path if equals else given)
                files.append(DataFile(place, form or "", name or symbol or "REPLAY", day, tick))  # type: ignore[arg-type]
            observation = watch_files(files, symbol, step_ticks)
    facts = facts_of(observation)
    written = _write(out, facts, observation, with_capture=with_capture) if out is not None else []
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n")
        sys.stdout.buffer.flush()
        return
    rows = [[f.name, f"{f.value:,.3g}", f"{f.recorded:,.3g}", f.band, "yes" if f.is_within else "no"] for f in facts]
    columns = [observation.name, "value", "BTC/USD", "band", "within"]
    print_table(
        f"{observation.seconds:,} seconds of {observation.name}",
        columns,
        rows,
        left=[observation.name, "band", "within"],
    )
    click.echo(f"{sum(fact.is_within for fact in facts)} of {len(facts)} figures are within their bands")
    for file in written:
        click.echo(str(file))


def _write(out: Path, facts: list[Fact], observation: Observation, *, with_capture: bool) -> list[Path]:
    from deltabook.facts import draw, watch_capture

    markets = [observation]
    if with_capture:
        from deltabook.demo.captures import capture_file

        markets.append(watch_capture(capture_file(os.environ)))
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "facts.json", out / "facts.png"]
    paths[0].write_bytes(msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n")
    draw(markets, paths[1])
    return paths
