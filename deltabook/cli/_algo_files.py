"""`deltabook algo trades`: what strategies have written down."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._errors import ConfigurationError

__all__ = ["trades"]

_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command()
@click.option("--dir", "directory", required=True, type=_FOLDER, help="Directory of the strategies.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="A .csv or .parquet file.")
@click.option("--strategy", "names", multiple=True, help="Only of this one; repeatable.")
def trades(directory: Path, out: Path, names: tuple[str, ...]) -> None:
    """Write the list of own trades as CSV or Parquet, whether the strategies run or not."""
    from algo_engine.trades import SPOOL, read_trades, write_trades

    if out.suffix not in {".csv", ".parquet"}:
        raise ConfigurationError(f"expected a .csv or .parquet file for --out, was {out}")
    found = {path.parent.name: path for path in sorted(directory.glob(f"*/{SPOOL}"))}
    unknown = [name for name in names if name not in found]
    if unknown or not found:
        there, asked = ", ".join(found) or "none", ", ".join(unknown) or "all"
        raise ConfigurationError(f"expected strategies in {directory} out of {there}, was {asked}")
    out.parent.mkdir(parents=True, exist_ok=True)
    count = write_trades(out, read_trades([path for name, path in found.items() if not names or name in names]))
    click.echo(f"{count} trades in {out}")
