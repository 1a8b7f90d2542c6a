"""`deltabook algo trades` and `verify`: what strategies have written down."""

from __future__ import annotations

from pathlib import Path

import click

from deltabook.cli._errors import ConfigurationError, OptionError
from deltabook.cli._ports import print_json
from deltabook.cli._progress import progress
from deltabook.cli._tables import print_table

__all__ = ["trades", "verify"]

_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command()
@click.option("--dir", "directory", required=True, type=_FOLDER, help="Directory of the strategies.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="A .csv or .parquet file.")
@click.option("--strategy", "names", multiple=True, help="Write the trades of this strategy only; repeatable.")
def trades(directory: Path, out: Path, names: tuple[str, ...]) -> None:
    """Write the strategies' trades as CSV or Parquet; the strategies may be running."""
    from algo_engine.trades import SPOOL, read_trades, write_trades

    if out.suffix not in {".csv", ".parquet"}:
        raise OptionError(f"expected a .csv or .parquet file for --out, was {out}")
    spools = {path.parent.name: path for path in sorted(directory.glob(f"*/{SPOOL}"))}
    if not spools:
        raise ConfigurationError(f"expected the --dir of `deltabook algo run`, was {directory}, which has no strategy")
    unknown = [name for name in names if name not in spools]
    if unknown:
        raise ConfigurationError(f"expected strategies out of {', '.join(spools)}, was {', '.join(unknown)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    count = write_trades(out, read_trades([path for name, path in spools.items() if not names or name in names]))
    click.echo(f"{count} trades in {out}")


@click.command()
@click.option("--dir", "directory", required=True, type=_FOLDER, help="Directory of the strategies.")
@click.option("--exchange-dir", "exchange", required=True, type=_FOLDER, help="Directory of the exchange's journal.")
@click.option("--fees", default="", help="Fee schedule to check, as given to `algo run`.")
@click.option("--while-running", is_flag=True, help="Ignore messages that running strategies have not received yet.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(directory: Path, exchange: Path, fees: str, while_running: bool, as_json: bool) -> None:
    """Compare the strategies' orders, fills, positions and money with the exchange's journal.

    All requests of the exchange are applied again, every resulting message is compared with the strategies' journals,
    and profit is computed again from the list of trades. The exit code is 1 if anything differs.
    """
    from algo_engine.fees import read_fees
    from deltabook.audit import audit

    schedule = read_fees(fees) if fees else None
    with progress("applying the exchange's requests"):
        report = audit(directory, exchange, schedule, is_running=while_running)
    if as_json:
        print_json(report)
    else:
        columns = ("strategy", "broker", "messages", "unheard", "orders", "fills", "open", "symbols", "problems")
        rows = [
            (
                line.name, line.broker_id, line.messages, line.unheard, line.orders, line.fills, line.open_orders,
                len(line.accounts), len(line.problems),
            )
            for line in report.strategies
        ]  # fmt: skip
        print_table(f"strategies in {directory}, exchange in {exchange}", columns, rows, left=("strategy",))
        for strategy in report.strategies:
            for problem in strategy.problems:
                click.echo(f"{strategy.name}: {problem}", err=True)
    if not report.agrees:
        raise click.exceptions.Exit(1)
