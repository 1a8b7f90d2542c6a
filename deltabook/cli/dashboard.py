"""`deltabook dashboard`: the market, the views and the strategies in a browser."""

from __future__ import annotations

import click

from deltabook.cli._addresses import address
from deltabook.cli._errors import OptionError
from deltabook.cli._run_id import given_run_id

__all__ = ["command"]


@click.command()
@click.option("--results", default="", metavar="HOST:PORT", help="The runtime's results service.")
@click.option("--results-token-file", default="", metavar="FILE", help="File with the token that the runtime asks for.")
@click.option(
    "--results-ca-file", default="", metavar="FILE", help="PEM file with the authority of a runtime that speaks TLS."
)
@click.option("--algo", default="", metavar="HOST:PORT", help="The status port of strategies.")
@click.option("--algo-token-file", default="", metavar="FILE", help="File with the token that the strategies ask for.")
@click.option(
    "--algo-ca-file", default="", metavar="FILE", help="PEM file with the authority of strategies that speak TLS."
)
@click.option("--exchange", default="", metavar="HOST:PORT", help="The exchange's admin port: phases, ticks and lots.")
@click.option(
    "--exchange-token-file", default="", metavar="FILE", help="File with the token that the admin port asks for."
)
@click.option(
    "--exchange-ca-file", default="", metavar="FILE", help="PEM file with the authority of an exchange that speaks TLS."
)
@click.option(
    "--peers",
    default="",
    metavar="FILE",
    help='JSON file {"results": "HOST:PORT", "algo": …, "exchange": …} in place of --results, --algo and --exchange; '
    "need not be there yet, and is read again and again.",
)
@click.option(
    "--scale",
    "scales",
    multiple=True,
    metavar="SYMBOL=TICK,LOT",
    help="What a tick and a lot of a symbol are worth, * for all others; repeatable. Else as the exchange says.",
)
@click.option("--http-port", type=click.IntRange(0, 65535), default=0, help="Port of the page, 0 for any.")
@click.option("--interface", default="127.0.0.1", help="Where; beyond loopback with token and TLS alone.")
@click.option(
    "--private-name",
    "private_names",
    multiple=True,
    metavar="NAME",
    help="Or with neither, since nobody but those who may look can reach it: by NAME, or as localhost; repeatable.",
)
@click.option("--token-file", default="", metavar="FILE", help="The token that the page asks for.")
@click.option("--tls-cert", default="", metavar="FILE", help="PEM file of the port's certificate.")
@click.option("--tls-key", default="", metavar="FILE", help="PEM file of its key.")
@click.option("--status-interval", type=click.FloatRange(0), default=1.0, help="Seconds between figures, 0 for none.")
@click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends.")
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

    The page is read-only. It is there before its peers are, says which of them it waits for, and finds them again
    when they were restarted.
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
