"""Commands that look at a running exchange, over its admin port."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import click
import msgspec

from deltabook.cli._admin import LazyPort, admin_options
from deltabook.cli._ports import print_json
from deltabook.cli._tables import print_table
from deltabook.wire import admin

__all__ = ["book", "show_hash", "statistics", "status"]


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC") if time_ns else "never"


def _price(ticks: int | None, tick_size: str) -> Decimal | None:
    return None if ticks is None else ticks * Decimal(tick_size)


@click.command()
@admin_options
def status(port: LazyPort, as_json: bool) -> None:
    """Show the configuration and the state of a running exchange."""
    report = port().get(admin.STATUS_PATH, admin.Status)
    if as_json:
        print_json(report)
        return
    rows = [
        ("session", report.session),
        ("market time", _time(report.time_ns)),
        ("process", f"{report.pid}, up {report.up_s:,.0f} s"),
        ("directory", report.directory),
        ("ports", ", ".join(f"{purpose} {number}" for purpose, number in report.ports.items())),
        ("phases", ", ".join(f"{count} {phase}" for phase, count in report.phases.items())),
        *((name.replace("_", " "), value) for name, value in report.figures.items() if name != "session"),
    ]
    print_table(f"exchange at {port().where}", ("", "value"), rows, left=("", "value"))


@click.command()
@admin_options
def statistics(port: LazyPort, as_json: bool) -> None:
    """Show the totals of the session and a line for each symbol."""
    asked = port()
    report = asked.get(admin.STATISTICS_PATH, admin.Statistics)
    symbols = list(report.symbols)
    while len(symbols) < report.total_symbols:
        path = f"{admin.STATISTICS_PATH}?after={quote(symbols[-1].symbol, safe='')}"
        more = asked.get(path, admin.Statistics).symbols
        if not more:
            break
        symbols += more
    if as_json:
        print_json(msgspec.structs.replace(report, symbols=tuple(symbols)))
        return
    counts = (
        f"{report.inputs} requests, {report.orders} orders, {report.trades} trades, {report.live_orders} live orders"
    )
    refused = ", ".join(f"{count} {reason}" for reason, count in report.refused.items())
    columns = ("symbol", "phase", "bid", "bid lots", "ask", "ask lots", "last", "live orders")
    rows = [
        (
            line.symbol,
            line.phase,
            _price(line.bid_ticks, line.tick_size),
            line.bid_volume,
            _price(line.ask_ticks, line.tick_size),
            line.ask_volume,
            _price(line.last_ticks, line.tick_size),
            line.live_orders,
        )
        for line in symbols
    ]
    title = f"{counts}; refused: {refused or 'none'}; {_time(report.time_ns)}"
    print_table(title, columns, rows, left=("symbol", "phase"))


@click.command()
@click.argument("symbol", metavar="SYMBOL")
@click.option("--depth", type=click.IntRange(1, admin.MOST_DEPTH), default=10, help="Levels of each side.")
@admin_options
def book(port: LazyPort, as_json: bool, symbol: str, depth: int) -> None:
    """Show the displayed book of SYMBOL."""
    report = port().get(f"{admin.BOOK_PATH}{quote(symbol, safe='')}?depth={depth}", admin.Book)
    if as_json:
        print_json(report)
        return
    rows = []
    for at in range(max(len(report.bids), len(report.asks))):
        bid = report.bids[at] if at < len(report.bids) else None
        ask = report.asks[at] if at < len(report.asks) else None
        rows.append(
            (
                bid.orders if bid else None,
                bid.volume if bid else None,
                _price(bid.price_ticks, report.tick_size) if bid else None,
                _price(ask.price_ticks, report.tick_size) if ask else None,
                ask.volume if ask else None,
                ask.orders if ask else None,
            )
        )
    last = _price(report.last_ticks, report.tick_size)
    title = f"{report.symbol}: {report.phase}, last {last if last is not None else 'none'}, {_time(report.time_ns)}"
    print_table(title, ("orders", "lots", "bid", "ask", "lots ", "orders "), rows, left=("ask",))


@click.command("hash")
@click.argument(
    "journal", metavar="[DIR]", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@click.option(
    "--at-request", "at", type=click.IntRange(0), help="With DIR: number of requests to apply.  [default: all]"
)
@click.option("--at-message", type=click.IntRange(1), help="With DIR: message of the feed to stop after.")
@click.option(
    "--feed-protocol", "feed", type=click.Choice(["text", "itch"]), default="text", help="Feed of --at-message."
)
@admin_options
def show_hash(  # noqa: PLR0917 - click passes every option by name
    port: LazyPort, as_json: bool, journal: Path | None, at: int | None, at_message: int | None, feed: str
) -> None:
    """Show the hash of the market's state: of a running exchange, or computed from the journal in DIR."""
    if journal is None:
        if at is not None or at_message is not None:
            raise click.UsageError("expected the directory of a journal with --at-request and --at-message, was none")
        report = port().get(admin.HASH_PATH, admin.StateHash)
    else:
        from deltabook.cli._exchange_files import hash_of

        if at is not None and at_message is not None:
            raise click.UsageError("expected --at-request or --at-message, was both")
        report = hash_of(journal, at, at_message, feed)
    if as_json:
        print_json(report)
    else:
        click.echo(f"{report.hash} after {report.inputs} requests, {_time(report.time_ns)}")
