"""`deltabook algo run`: run strategies on the views of a runtime, trading at an exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from deltabook.cli._addresses import address
from deltabook.cli._run_id import given_run_id
from deltabook.wire.access import PortSecurity

__all__ = ["run"]


@click.command("run")
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
@click.option(
    "--param", "parameters", multiple=True, metavar="[STRATEGY.]KEY=VALUE", help="Parameter of a strategy; repeatable."
)
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
@click.option(
    "--broker", "first_broker_id", type=click.IntRange(1), default=9001, help="Broker number of the first strategy."
)
@click.option("--keep-views", is_flag=True, help="Keep the views that strategies added when the process stops.")
@click.option("--http-port", type=click.IntRange(0, 65535), help="Status port; 0 picks a free port.  [default: closed]")
@click.option(
    "--interface",
    "http_interface",
    default="127.0.0.1",
    help="Address of the status port; other than loopback it requires a token and TLS.",
)
@click.option("--token-file", default="", help="File with the token of the status port.")
@click.option("--tls-cert", default="", help="PEM file with the certificate of the status port.")
@click.option("--tls-key", default="", help="PEM file with the key of that certificate.")
@click.option("--results-token-file", default="", help="File with the token of the runtime.")
@click.option(
    "--results-ca-file", default="", help="PEM file with the CA of the runtime's certificate; connects with TLS."
)
@click.option(
    "--status-interval", type=click.FloatRange(0), default=1.0, help="Seconds between status lines; 0 writes none."
)
@click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends.")
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
    name: --param sobi.KEY=VALUE. Ctrl-C and SIGTERM cancel all resting orders and end the process; SIGUSR1 is the kill
    switch, which cancels orders and refuses new ones.
    """
    address(results, "--results")
    address(orders, "--orders")
    from algo_engine.app import run_process
    from algo_engine.config import AlgoConfig, ResultsAccess
    from algo_engine.fees import read_fees

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
