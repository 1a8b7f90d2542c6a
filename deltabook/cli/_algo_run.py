"""`deltabook algo run`: run strategies on the views of a runtime, trading at an exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from deltabook.cli._addresses import address

__all__ = ["run"]


@click.command("run")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@click.option("--results", required=True, metavar="HOST:PORT", help="The runtime's HTTP service.")
@click.option("--orders", required=True, metavar="HOST:PORT", help="The exchange's text port.")
@click.option(
    "--dir",
    "directory",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Journals and trades; the same directory continues the same orders.",
)
@click.option("--param", "parameters", multiple=True, metavar="STRATEGY.KEY=VALUE", help="Set a parameter; repeatable.")
@click.option(
    "--on-restart",
    type=click.Choice(["cancel", "adopt"]),
    default="cancel",
    help="Orders that an earlier run left in the market.",
)
@click.option("--broker", "first_broker_id", type=click.IntRange(1), default=9001, help="Of the first strategy.")
@click.option("--status-interval", type=click.FloatRange(0), default=1.0, help="Seconds between status lines; 0: none.")
@click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends.")
def run(  # noqa: PLR0917 - click passes every option by name
    strategies: tuple[str, ...],
    results: str,
    orders: str,
    directory: Path,
    parameters: tuple[str, ...],
    on_restart: Literal["cancel", "adopt"],
    first_broker_id: int,
    status_interval: float,
    exit_with_stdin: bool,
) -> None:
    """Run strategies: built-in ones (sobi, market_maker) or .py files, each as a broker of its own.

    --param NAME.KEY=VALUE sets a strategy's parameter, --param NAME.risk.KEY=VALUE one of its limits. SIGTERM and
    SIGINT cancel all resting orders and end; SIGUSR1 is the kill switch: orders are cancelled, new ones refused.
    """
    address(results, "--results")
    address(orders, "--orders")
    from algo_engine.app import AlgoConfig, run_process

    run_process(
        AlgoConfig(
            strategies=strategies,
            results=results,
            orders=orders,
            directory=directory,
            parameters=parameters,
            first_broker_id=first_broker_id,
            on_restart=on_restart,
            status_interval_s=status_interval,
            exit_with_stdin=exit_with_stdin,
        )
    )
