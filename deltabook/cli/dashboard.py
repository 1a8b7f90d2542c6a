"""`deltabook dashboard`: the market, the views and the strategies in a browser."""

from __future__ import annotations

import click

from deltabook.cli._options import (
    OptionError,
    access_options,
    address,
    given_run_id,
    security_options,
    status_interval_options,
)

__all__ = ["command"]


@click.command()
@click.option("--results", default="", metavar="HOST:PORT", help="The runtime's results service.")
@access_options("the runtime", prefix="results-")
@click.option("--algo", default="", metavar="HOST:PORT", help="Status port of the strategies.")
@access_options("the strategies", prefix="algo-")
@click.option(
    "--exchange", default="", metavar="HOST:PORT", help="Admin port of the exchange, for phases, ticks and lots."
)
@access_options("the exchange's admin port", prefix="exchange-")
@click.option(
    "--peers",
    default="",
    metavar="FILE",
    help='JSON file {"results": "HOST:PORT", "algo": …, "exchange": …} instead of --results, --algo and --exchange; '
    "it is read again whenever it changes, and need not exist yet.",
)
@click.option(
    "--scale",
    "scales",
    multiple=True,
    metavar="SYMBOL=TICK,LOT",
    help="Tick and lot size of a symbol, * for all others; repeatable.  [default: those of the exchange]",
)
@click.option(
    "--http-port", type=click.IntRange(0, 65535), default=0, help="Port of the dashboard; 0 picks a free port."
)
@click.option(
    "--interface", default="127.0.0.1", help="Address of the page; one other than loopback requires a token and TLS."
)
@click.option(
    "--private-name",
    "private_names",
    multiple=True,
    metavar="NAME",
    help="Serve without token and TLS to a private network, in which the page has this host name; repeatable.",
)
@security_options("the page")
@status_interval_options()
def command(
    results: str,
    results_token_file: str,
    results_ca_file: str,
    algo: str,
    algo_token_file: str,
    algo_ca_file: str,
    exchange: str,
    exchange_token_file: str,
    exchange_ca_file: str,
    peers: str,
    scales: tuple[str, ...],
    http_port: int,
    interface: str,
    private_names: tuple[str, ...],
    token_file: str,
    tls_cert: str,
    tls_key: str,
    status_interval: float,
    exit_with_stdin: bool,
) -> None:
    """Show a running system on a page: books, prices, trades, views, strategies and the engine.

    The page is read-only. It is available before its peers are, shows which of them it waits for, and reconnects to
    them after a restart.
    """
    from deltabook.dashboard import DashboardConfig, Peer, parse_scales, run
    from deltabook.wire.access import PortSecurity

    for given, option in ((results, "--results"), (algo, "--algo"), (exchange, "--exchange")):
        if given:
            address(given, option)
    if bool(results) == bool(peers):
        raise OptionError(f"expected either --results or --peers, was {'both' if peers else 'none'}")

    def peer(where: str, name: str, token: str, ca: str = "") -> Peer:
        return Peer(where, token, ca, "" if where else peers, name)

    run(
        DashboardConfig(
            results=peer(results, "results", results_token_file, results_ca_file),
            algo=peer(algo, "algo", algo_token_file, algo_ca_file) if algo or peers else None,
            exchange=peer(exchange, "exchange", exchange_token_file, exchange_ca_file) if exchange or peers else None,
            scales=parse_scales(scales),
            interface=interface,
            http_port=http_port,
            security=PortSecurity(token_file, tls_cert, tls_key, private_names=private_names),
            run_id=given_run_id(),
        ),
        status_interval_s=status_interval,
        exit_with_stdin=exit_with_stdin,
    )
