"""`deltabook new`: write a commented strategy or view that runs unchanged, as a starting point."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import Final

import click

from deltabook.cli._groups import LazyGroup
from queries import QUERIES_DIR

__all__ = ["command"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,60}")
_TAKEN: Final = frozenset({"asks", "bids", "trades", "best_quote", "none", "true", "false"})
"""Names of the market's relations, of the view that every strategy reads, and of constants that no class can have."""
_STRATEGY: Final = Template('''\
"""$name: a strategy. This command runs it on the made-up recording that Deltabook ships:

    $next
"""

import msgspec

from algo_engine import Strategy


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters, which the command line can set: --param lots=5."""

    lots: int = 10
    lean: float = 2.0  # trade if the lots of one side are more than this many times those of the other
    rest_ms: int = 1_000  # how long an order waits to be filled


class $class_name(Strategy[Parameters]):
    """Buys if many more lots are bid than offered, and sells in the reverse case."""

    parameters_type = Parameters

    # A view of the strategy's own, in SQL over BIDS and ASKS, which have a row for each order that rests in the market.
    # It is kept exactly up to date, change by change. `views = ("tape",)` would name views that the runtime keeps
    # already; best_quote is always available.
    queries = {
        "$name": """
            SELECT symbol, SUM(bid) AS bid, SUM(ask) AS ask
            FROM (SELECT symbol, volume AS bid, 0 AS ask FROM bids
                  UNION ALL SELECT symbol, 0, volume FROM asks) AS orders
            GROUP BY symbol
        """
    }

    def on_view_change(self, change):
        """Called when rows were added or removed: `change.added` has the new ones, `self.context.view(name)` all."""
        for row in change.added if change.view == "$name" else ():
            symbol, quote = row["symbol"], self.context.quote(row["symbol"])
            if quote is None or not quote.is_two_sided or self.context.open_orders(symbol):
                continue
            # Prices are in ticks, volumes in lots; both are integers. With one order at a time, the position stays
            # between -lots and +lots.
            lots, held = self.parameters.lots, self.context.position_lots(symbol)
            if row["bid"] > self.parameters.lean * row["ask"] and held < lots:
                order = self.context.buy(symbol, lots - held, quote.ask_price_ticks)
            elif row["ask"] > self.parameters.lean * row["bid"] and held > -lots:
                order = self.context.sell(symbol, lots + held, quote.bid_price_ticks)
            else:
                continue
            self.context.set_timer(str(order), self.parameters.rest_ms)

    def on_timer(self, name):
        """Cancel an order that has rested long enough; this has no effect if the order has ended."""
        self.context.cancel(int(name))

    def on_order_event(self, event):
        """Log why an order was refused, rejected or cancelled."""
        if event.reason:
            self.context.log(f"{event.kind} {event.order.client_id}", reason=event.reason)
''')
_VIEW: Final = Template("""\
-- $name: a view. This command prints how it is kept up to date, and what a change of the book costs:
--
--     $next
--
-- BIDS and ASKS have a row for each order that rests in the market: id, broker_id, symbol, price, volume, t. TRADES has
-- a row for each execution. Prices are in ticks and volumes in lots. After every change the view is exactly the result
-- of this SELECT.
SELECT symbol, price, SUM(volume) AS volume, COUNT(*) AS orders
FROM bids
GROUP BY symbol, price
HAVING SUM(volume) >= 500;
""")

command = LazyGroup("new", help="Write a commented, working strategy or view to start from.")


@command.command("strategy")
@click.argument("name")
def strategy(name: str) -> None:
    """Write NAME.py, a strategy."""
    path = _path(name, ".py")
    data = QUERIES_DIR / "trace-5000.csv"
    place = data.relative_to(Path.cwd()) if data.is_relative_to(Path.cwd()) else data
    following = f"deltabook backtest {path} --data {place} --out {name}-report"
    class_name = "".join(word.capitalize() for word in name.split("_"))
    _write(path, _STRATEGY.substitute(name=name, class_name=class_name, next=following))
    click.echo(f"next: {following}")


@command.command("view")
@click.argument("name")
def view(name: str) -> None:
    """Write NAME.sql, a view."""
    path = _path(name, ".sql")
    following = f"deltabook query explain {path}"
    _write(path, _VIEW.substitute(name=name, next=following))
    click.echo(f"next: {following}")


def _path(name: str, suffix: str) -> Path:
    if not _NAME.fullmatch(name):
        raise click.UsageError(
            f"expected a name of small letters, digits and _ that begins with a letter, was {name!r}"
        )
    if name in _TAKEN:
        raise click.UsageError(f"expected a name other than {', '.join(sorted(_TAKEN))}, was {name!r}")
    return Path(f"{name}{suffix}")


def _write(path: Path, text: str) -> None:
    """Write a new file; raise `click.ClickException` if it exists."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.ClickException(f"expected no file {path} yet, was one: choose another name") from None
    click.echo(f"wrote {path}")
