"""Commands that show and change a running exchange, over its admin port."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click
import msgspec

from deltabook.cli._groups import DefaultCommand, LazyGroup
from deltabook.cli._options import parse_speed
from deltabook.cli._ports import LazyPort, admin_options, print_json
from deltabook.cli._terminal import print_table
from deltabook.wire import admin

__all__ = [
    "accounts",
    "auction",
    "book",
    "bust",
    "close",
    "halt",
    "pause",
    "replay",
    "resume",
    "sessions",
    "show_hash",
    "snapshot",
    "statistics",
    "status",
]


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
    exchange = port()
    report = exchange.get(admin.STATISTICS_PATH, admin.Statistics)
    symbols = list(report.symbols)
    while len(symbols) < report.total_symbols:
        path = f"{admin.STATISTICS_PATH}?after={quote(symbols[-1].symbol, safe='')}"
        more = exchange.get(path, admin.Statistics).symbols
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


_WITH_REASON: Final = frozenset({"halted", "paused", "auction-halt"})


def _change(port: LazyPort, change: admin.Change, as_json: bool) -> None:
    done = port().change(change)
    if as_json:
        print_json(done)
    else:
        click.echo(done.what)


def _reason(context: click.Context, option: click.Parameter, text: str) -> str:
    del context, option
    if len(text) > admin.LONGEST_REASON or not (text.isascii() and text.isprintable()):
        raise click.BadParameter(f"expected up to {admin.LONGEST_REASON} ASCII characters, was {text!r}")
    return text


def _to_phase(name: str, phase: Any, line: str) -> click.Command:
    """Return a command that changes the phase of SYMBOL, or of every symbol."""

    def to_phase(port: LazyPort, as_json: bool, symbol: str | None, every: bool, reason: str = "") -> None:
        if (symbol is None) != every:
            raise click.UsageError("expected a SYMBOL or --all, was " + ("neither" if symbol is None else "both"))
        _change(port, admin.SetPhase(symbol or "", phase, reason), as_json)

    to_phase.__doc__ = line
    decorated = admin_options(to_phase)
    if phase in _WITH_REASON:
        decorated = click.option(
            "--reason",
            default="",
            callback=_reason,
            help="Reason on the feed, up to four characters.",
        )(decorated)
    decorated = click.option("--all", "every", is_flag=True, help="Every symbol.")(decorated)
    decorated = click.argument("symbol", metavar="[SYMBOL]", required=False)(decorated)
    return click.command(name)(decorated)


halt = _to_phase("halt", "halted", "Halt trading of SYMBOL: orders are refused, cancellations accepted.")
pause = _to_phase(
    "pause", "paused", "Pause trading of SYMBOL: limit orders are accepted, and executed when trading resumes."
)
resume = _to_phase("resume", "continuous", "Continue trading of SYMBOL; a running auction is uncrossed first.")
close = _to_phase("close", "closed", "End the day of SYMBOL; a running auction is uncrossed first.")


@click.group()
def auction() -> None:
    """Start an auction; `exchange resume` uncrosses it and continues trading, `exchange close` ends the day with it."""


auction.add_command(_to_phase("open", "auction-open", "Begin an opening auction of SYMBOL."))
auction.add_command(_to_phase("close", "auction-close", "Begin a closing auction of SYMBOL."))
auction.add_command(_to_phase("halt", "auction-halt", "Begin an auction of SYMBOL after a halt."))


@click.group(cls=LazyGroup, default="list")
def sessions() -> None:
    """List the connections to a running exchange, or close one."""


@sessions.command("list", cls=DefaultCommand)
@admin_options
def list_sessions(port: LazyPort, as_json: bool) -> None:
    """List the connections."""
    answer = port().get(admin.SESSIONS_PATH, admin.Sessions)
    if as_json:
        print_json(answer)
        return
    rows = [(line.session, line.account, "yes" if line.follows else "no", line.lag_bytes) for line in answer.sessions]
    columns = ("session", "account", "is sent a stream", "bytes behind")
    print_table(f"{answer.total} sessions", columns, rows, left=("session", "account"))


@sessions.command("cut")
@click.argument("session", metavar="SESSION")
@click.option("--reason", default="by the operator", help="Reason in the log.")
@admin_options
def cut_session(port: LazyPort, as_json: bool, session: str, reason: str) -> None:
    """Close the connection that `sessions list` shows as SESSION."""
    _change(port, admin.CutSession(session, reason), as_json)


@click.group(cls=LazyGroup, default="list")
def accounts() -> None:
    """List the accounts of a running exchange; stop or resume one, or cancel its orders."""


@accounts.command("list", cls=DefaultCommand)
@admin_options
def list_accounts(port: LazyPort, as_json: bool) -> None:
    """List the accounts."""
    exchange = port()
    lines: list[admin.AccountLine] = []
    while True:
        path = f"{admin.ACCOUNTS_PATH}?after={quote(lines[-1].name, safe='')}" if lines else admin.ACCOUNTS_PATH
        answer = exchange.get(path, admin.Accounts)
        lines += answer.accounts
        if not answer.accounts or len(lines) >= answer.total:
            break
    if as_json:
        print_json(admin.Accounts(tuple(lines), answer.total))
        return
    columns = ("account", "protocol", "broker", "trades", "live orders", "open notional", "self-trade", "messages")
    rows = [
        (
            line.name,
            line.protocol,
            line.broker_id,
            "stopped" if line.killed else "yes",
            line.open_orders,
            line.open_notional,
            line.self_trade,
            line.messages,
        )
        for line in lines
    ]
    left = ("account", "protocol", "trades", "self-trade")
    print_table(f"{answer.total} accounts; notional in ticks times lots", columns, rows, left=left)


@accounts.command("kill")
@click.argument("account", metavar="ACCOUNT")
@admin_options
def kill_account(port: LazyPort, as_json: bool, account: str) -> None:
    """Stop ACCOUNT: cancel its live orders and refuse new ones."""
    _change(port, admin.KillAccount(account), as_json)


@accounts.command("revive")
@click.argument("account", metavar="ACCOUNT")
@admin_options
def revive_account(port: LazyPort, as_json: bool, account: str) -> None:
    """Allow ACCOUNT to trade again."""
    _change(port, admin.KillAccount(account, killed=False), as_json)


@accounts.command("cancel")
@click.argument("account", metavar="[ACCOUNT]", required=False)
@click.option("--all", "every", is_flag=True, help="Cancel the orders of all accounts, agents included.")
@click.option("--symbol", default="", help="Cancel only orders in this symbol.")
@admin_options
def cancel_orders(port: LazyPort, as_json: bool, account: str | None, every: bool, symbol: str) -> None:
    """Cancel the live orders of ACCOUNT, which may continue to trade."""
    if (account is None) != every:
        raise click.UsageError("expected an ACCOUNT or --all, was " + ("neither" if account is None else "both"))
    _change(port, admin.CancelOrders(account or "", symbol, every), as_json)


@click.group(cls=LazyGroup, default="show")
def replay() -> None:
    """Show, pause, resume, speed up or seek in the replay of a running exchange."""


@replay.command("show", cls=DefaultCommand)
@admin_options
def show_replay(port: LazyPort, as_json: bool) -> None:
    """Show the position of the replay."""
    replay = port().get(admin.REPLAY_PATH, admin.Replay)
    if as_json:
        print_json(replay)
        return
    pace = "as fast as possible" if replay.speed is None else f"at {replay.speed:g} times real time"
    state = "has ended" if replay.finished else f"is paused, {pace}" if replay.paused else f"is played {pace}"
    click.echo(f"{replay.file} {state}, as {replay.symbol}, last record {replay.position}")
    for name, count in sorted(replay.counts.items()):
        click.echo(f"  {count} {name.replace('_', ' ')}")


@replay.command("pause")
@admin_options
def pause_replay(port: LazyPort, as_json: bool) -> None:
    """Pause the replay."""
    _change(port, admin.PlayReplay(paused=True), as_json)


@replay.command("resume")
@admin_options
def resume_replay(port: LazyPort, as_json: bool) -> None:
    """Resume the replay."""
    _change(port, admin.PlayReplay(paused=False), as_json)


@replay.command("speed")
@click.argument("speed", metavar="TIMES", callback=parse_speed)
@admin_options
def replay_at(port: LazyPort, as_json: bool, speed: float | None) -> None:
    """Set the speed to TIMES times real time, or to `max`, as fast as possible."""
    _change(port, admin.PlayReplay(speed=speed or 0.0), as_json)


@replay.command("seek")
@click.argument("position", metavar="[RECORD]", required=False, type=click.IntRange(1))
@click.option("--time-ns", type=click.IntRange(1), help="Recorded time to skip to, instead of a record.")
@admin_options
def seek_replay(port: LazyPort, as_json: bool, position: int | None, time_ns: int | None) -> None:
    """Replay at maximum speed up to RECORD, which must be after the present one."""
    if (position is None) == (time_ns is None):
        raise click.UsageError("expected a RECORD or --time-ns, was " + ("neither" if position is None else "both"))
    _change(port, admin.PlayReplay(position=position, time_ns=time_ns), as_json)


@click.command()
@click.argument("symbol", metavar="SYMBOL")
@click.argument("match_id", metavar="MATCH", type=click.IntRange(1))
@admin_options
def bust(port: LazyPort, as_json: bool, symbol: str, match_id: int) -> None:
    """Declare the trade MATCH of SYMBOL void on the feed; the books do not change."""
    _change(port, admin.BustTrade(symbol, match_id), as_json)


@click.command()
@admin_options
def snapshot(port: LazyPort, as_json: bool) -> None:
    """Write a snapshot, so that a restart reads less of the journal."""
    _change(port, admin.TakeSnapshot(), as_json)
