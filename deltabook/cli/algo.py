"""`deltabook algo`: run, monitor, stop and verify strategies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import click
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deltabook.cli._groups import LazyGroup
from deltabook.cli._options import (
    ConfigFileError,
    FloatRange,
    OptionError,
    access_options,
    address,
    first_broker_option,
    given_run_id,
    json_option,
    parameters_option,
    security_options,
    status_interval_options,
)
from deltabook.cli._ports import StatusPort, print_json, status_options
from deltabook.cli._terminal import WIDEST, fit, print_table, progress
from deltabook.wire import strategies
from deltabook.wire.access import PortSecurity
from deltabook.wire.strategies import Strategies

__all__ = ["command"]


@click.group("algo", cls=LazyGroup)
def command() -> None:
    """Run strategies on the views of a runtime; monitor, stop and verify them."""


@command.command("run", short_help="Run strategies on the views of a runtime, trading at an exchange.")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@click.option("--results", required=True, metavar="HOST:PORT", help="Results service of the runtime.")
@click.option("--orders", required=True, metavar="HOST:PORT", help="Text port of the exchange.")
@click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of journals and trades; a restart with the same directory continues its orders.",
)
@parameters_option
@click.option("--fees", default="", help="Fees of trades: maker=-20,taker=50;SYMBOL:taker=0 or a .toml file.")
@click.option(
    "--on-restart",
    type=click.Choice(["cancel", "adopt"]),
    default="cancel",
    help="What to do with live orders of an earlier run.",
)
@click.option(
    "--order-fsync",
    type=click.Choice(["before", "behind"]),
    default="behind",
    show_default=True,
    help="Force requests to the disk before or after they are sent.",
)
@first_broker_option
@click.option("--keep-views", is_flag=True, help="Leave the views that strategies added in the runtime at the end.")
@click.option("--http-port", type=click.IntRange(0, 65535), help="Status port; 0 picks a free port.  [default: closed]")
@click.option(
    "--interface",
    "http_interface",
    default="127.0.0.1",
    help="Address of the status port; one other than loopback requires a token and TLS.",
)
@security_options("the status port")
@access_options("the runtime", prefix="results-")
@status_interval_options()
def run(  # noqa: PLR0917 - click passes every option by name
    strategies: tuple[str, ...],
    results: str,
    orders: str,
    directory: Path,
    parameters: tuple[str, ...],
    fees: str,
    on_restart: Literal["cancel", "adopt"],
    order_fsync: Literal["before", "behind"],
    first_broker_id: int,
    keep_views: bool,
    http_port: int | None,
    http_interface: str,
    token_file: str,
    tls_cert: str,
    tls_key: str,
    results_token_file: str,
    results_ca_file: str,
    status_interval: float,
    exit_with_stdin: bool,
) -> None:
    """Run strategies on the views of a runtime, trading at an exchange, each as a separate broker.

    STRATEGY is a .py file or a built-in name: sobi, volatile_sobi, timed_sobi, market_players, market_maker.

    --param KEY=VALUE sets a parameter, --param risk.KEY=VALUE a limit; with several strategies, prefix the
    name: --param sobi.KEY=VALUE. Ctrl-C, SIGTERM and SIGHUP cancel all resting orders and end the process;
    SIGUSR1 is the kill switch, which cancels orders and refuses new ones.
    """
    address(results, "--results")
    address(orders, "--orders")
    from algo_engine.app import run_process
    from algo_engine.config import AlgoConfig, ResultsAccess
    from algo_engine.desk.fees import read_fees

    run_process(
        AlgoConfig(
            strategies=strategies,
            results=results,
            orders=orders,
            directory=directory,
            parameters=parameters,
            fees=read_fees(fees),
            first_broker_id=first_broker_id,
            on_restart=on_restart,
            order_fsync=order_fsync,
            keep_views=keep_views,
            http_port=http_port,
            http_interface=http_interface,
            security=PortSecurity(token_file, tls_cert, tls_key),
            results_access=ResultsAccess(results_token_file, results_ca_file),
            status_interval_s=status_interval,
            run_id=given_run_id(),
            exit_with_stdin=exit_with_stdin,
        )
    )


_STRATEGIES: Final = (
    "strategy", "broker", "state", "sent", "open", "rejected", "refused", "fills", "void", "profit", "fees",
)  # fmt: skip
_POSITIONS: Final = ("strategy", "symbol", "lots", "mark", "realised", "unrealised", "fees")
_LEFT: Final = frozenset({"strategy", "state", "symbol"})
_RARE: Final = frozenset({"rejected", "refused", "void"})
"""Columns that are shown only if one of their rows is not empty."""


@command.command("status", short_help="Show running strategies: state, orders, positions, profit.")
@status_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --watch, one object per line.")
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option("--interval", type=FloatRange(0.1), default=1.0, help="Seconds between outputs of --watch.")
def status(port: Callable[[], StatusPort], as_json: bool, watch: bool, interval: float) -> None:
    """Show the strategies of a running process: state, orders, positions, profit and fees."""
    asked, console = port(), Console()
    if not console.is_terminal:
        console.width = WIDEST

    def strategies_now() -> Strategies:
        return asked.get(strategies.STATUS_PATH, Strategies)

    if as_json or not watch or not console.is_terminal:
        while True:
            print_json(strategies_now()) if as_json else console.print(show(strategies_now(), asked.where))
            if not watch:
                return
            time.sleep(interval)
    with Live(show(strategies_now(), asked.where), console=console, auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(interval)
            live.update(show(strategies_now(), asked.where), refresh=True)


def show(report: Strategies, where: str) -> Group:
    """Return two tables, of the strategies and of their positions, without columns that are empty."""
    lines = [
        (
            line.name, str(line.broker_id), line.state if line.is_connected else f"{line.state}, not connected",
            f"{line.orders_sent:,}", f"{line.orders_open:,}", _some(line.orders_rejected), _some(line.orders_refused),
            f"{line.fills:,}", _some(line.void_trades), f"{line.profit:,}", f"{line.fees:,}",
        )
        for line in report.strategies
    ]  # fmt: skip
    positions = [
        (
            line.name, position.symbol, f"{position.position_lots:,}",
            "–" if position.mark_ticks is None else f"{position.mark_ticks:,}", f"{position.realised:,}",
            f"{position.unrealised:,}", f"{position.fees:,}",
        )
        for line in report.strategies
        for position in line.positions
    ]  # fmt: skip
    views = "" if report.views_connected else ", without views"
    parts: list[Text | _Fitting] = [
        Text(f"strategies at {where}, up {report.up_s:,.0f} s{views}; prices in ticks, money in ticks × lots")
    ]
    parts.append(_Fitting(_STRATEGIES, lines))
    parts += [Text(f"{line.name} is {line.state}: {line.reason}") for line in report.strategies if line.reason]
    if positions:
        parts.append(_Fitting(_POSITIONS, positions))
    return Group(*parts)


def _some(count: int) -> str:
    return f"{count:,}" if count else ""


class _Fitting:
    """A table whose frame is left out if there is no room for it."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        seen = [place for place, name in enumerate(columns) if name not in _RARE or any(row[place] for row in rows)]
        self._columns = [columns[place] for place in seen]
        self._rows = [[row[place] for place in seen] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table()
        for name in self._columns:
            table.add_column(Text(name), justify="left" if name in _LEFT else "right", overflow="fold")
        for row in self._rows:
            table.add_row(*map(Text, row))
        fit(table, console, options)
        yield table


@command.command("kill", short_help="Cancel resting orders and refuse new orders.")
@click.argument("names", metavar="[STRATEGY]...", nargs=-1)
@status_options
@click.option("--reason", default="by hand", help="Reason, shown in the status and in the log.")
@json_option
def kill(port: Callable[[], StatusPort], names: tuple[str, ...], reason: str, as_json: bool) -> None:
    """Cancel all resting orders and refuse new ones until the process is restarted (kill switch).

    Without a STRATEGY, this applies to all strategies of the process.
    """
    done = port().kill(strategies.Kill(names, reason))
    if as_json:
        print_json(done)
        return
    click.echo(f"killed {', '.join(done.strategies)}; {done.orders_open} open orders are being cancelled")


_FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)


@command.command("trades", short_help="Write the strategies' trades as CSV or Parquet.")
@click.option("--dir", "directory", required=True, type=_FOLDER, help="Directory of the strategies.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="A .csv or .parquet file.")
@click.option("--strategy", "names", multiple=True, help="Write the trades of this strategy only; repeatable.")
def trades(directory: Path, out: Path, names: tuple[str, ...]) -> None:
    """Write the strategies' trades as CSV or Parquet; the strategies may be running."""
    from algo_engine.desk.trades import SPOOL, read_trades, write_trades
    from deltabook.wire.directories import refuse_special_files

    refuse_special_files(directory)
    if out.suffix not in {".csv", ".parquet"}:
        raise OptionError(f"expected a .csv or .parquet file for --out, was {out}")
    spools = {path.parent.name: path for path in sorted(directory.glob(f"*/{SPOOL}"))}
    if not spools:
        raise ConfigFileError(f"expected the --dir of `deltabook algo run`, was {directory}, which has no strategy")
    unknown = [name for name in names if name not in spools]
    if unknown:
        raise ConfigFileError(f"expected strategies out of {', '.join(spools)}, was {', '.join(unknown)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    count = write_trades(out, read_trades([path for name, path in spools.items() if not names or name in names]))
    click.echo(f"{count} trades in {out}")


@command.command("verify", short_help="Compare orders, fills and money with the exchange's journal.")
@click.option("--dir", "directory", required=True, type=_FOLDER, help="Directory of the strategies.")
@click.option("--exchange-dir", "exchange", required=True, type=_FOLDER, help="Directory of the exchange's journal.")
@click.option("--fees", default="", help="Fee schedule to check, as given to `algo run`.")
@click.option("--while-running", is_flag=True, help="Ignore messages that running strategies have not received yet.")
@json_option
def verify(directory: Path, exchange: Path, fees: str, while_running: bool, as_json: bool) -> None:
    """Compare the strategies' orders, fills, positions and money with the exchange's journal.

    All requests of the exchange are applied again, every resulting message is compared with the strategies' journals,
    and profit is computed again from the list of trades. The exit code is 1 if anything differs.
    """
    from algo_engine.desk.fees import read_fees
    from deltabook.audit import audit

    schedule = read_fees(fees) if fees else None
    with progress("applying the exchange's requests"):
        report = audit(directory, exchange, schedule, is_running=while_running)
    if as_json:
        print_json(report)
    else:
        columns = ("strategy", "broker", "messages", "unreceived", "orders", "fills", "open", "symbols", "problems")
        rows = [
            (
                line.name, line.broker_id, line.messages, line.unreceived, line.orders, line.fills, line.open_orders,
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
