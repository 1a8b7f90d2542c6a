"""Parts of reports, pictures and terminal output of a result: elements of a page, charts as plain lists, lines of text.

A page contains everything that it needs and is built of escaped pieces.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Container, Iterable, Sequence
from decimal import Decimal
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import msgspec

from deltabook.backtest.statistics import falls
from deltabook.vendored import UPLOT
from deltabook.wire import SHARED_STYLE
from deltabook.wire.symbols import Instrument

if TYPE_CHECKING:
    from deltabook.backtest.result import Result
    from deltabook.backtest.statistics import Measures, Statistics

__all__ = [
    "STATISTICS_HEAD",
    "Money",
    "chart_data",
    "document",
    "escaped",
    "figure",
    "section",
    "statistics_note",
    "statistics_rows",
    "table",
    "tiles",
]

_PAGE: Final = files(__name__.rpartition(".")[0]) / "page"
"""Folder with the scripts and the style of pages."""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Content security policy of a page: nothing is loaded from elsewhere, and inline content is the page's own."""


def escaped(value: object) -> str:
    """Return a value as escaped text of a page; None becomes a dash."""
    return html.escape("–" if value is None else str(value))


def tiles(pairs: Iterable[tuple[str, object, str]]) -> str:
    """Return figures with their names and units as HTML."""
    cells = (f"<div><dt>{escaped(n)}</dt><dd>{escaped(v)} <small>{escaped(u)}</small></dd></div>" for n, v, u in pairs)
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, name: str, kind: str = "", text: Container[str] = ()
) -> str:
    """Return rows under their heads as an HTML table. ``name`` is the accessible name; ``kind`` is ``words`` for a
    table of words rather than figures; columns in ``text`` are aligned like words.
    """
    marks = [' class="text"' if column in text else "" for column in head]
    heads = "".join(f'<th scope="col"{mark}>{escaped(column)}</th>' for column, mark in zip(head, marks, strict=True))
    lines = ("".join(f"<td{mark}>{escaped(cell)}</td>" for cell, mark in zip(row, marks, strict=True)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    chosen = f' class="{kind}"' if kind else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(name)}"><table{chosen}>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def section(title: str, body: str, *, kind: str = "", beside: str = "") -> str:
    """Return a card as HTML; ``beside`` is put to the right of its title."""
    head = f'<div class="head"><h2>{escaped(title)}</h2>{beside}</div>'
    return f'<section class="{kind}">{head}{body}</section>'


def figure(name: str, words: str) -> str:
    """Return the place of a chart as HTML, with a description for readers who do not see it."""
    return f'<figure aria-label="{escaped(words)}"><div class="chart" id="{name}"></div></figure>'


def document(title: str, lead: str, body: str, data: Any, script: str, *, has_charts: bool) -> str:
    """Return the whole page."""
    encoded = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    style = SHARED_STYLE.read_text("utf-8") + (_PAGE / "report.css").read_text("utf-8")
    code = (_PAGE / script).read_text("utf-8")
    if has_charts:
        style = (UPLOT / "uPlot.min.css").read_text("utf-8") + style
        code = (UPLOT / "uPlot.iife.min.js").read_text("utf-8") + "\n" + code
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escaped(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<header><h1>{escaped(title)}</h1><p>{escaped(lead)}</p></header>\n"
        f"<main>\n{body}\n</main>\n"
        f'<script type="application/json" id="data">{encoded}</script>\n<script>\n{code}</script>\n</body>\n</html>\n'
    )


_NS: Final = 1_000_000_000
_FILLS: Final = 5_000
"""Largest number of fills of a symbol that are drawn, evenly chosen."""


class Money:
    """Formats sums of ticks × lots for readers: as money if all instruments have one scale."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        scales = {(each.tick_size, each.lot_size) for each in instruments}
        self.unit = "" if len(scales) == 1 else "ticks × lots"
        """Unit of the sums; empty if they are money."""
        self._unit = instruments[0].notional(1) if len(scales) == 1 else Decimal(1)

    def text(self, value: int) -> str:
        """Return a sum exactly, with separated thousands.

        >>> Money([Instrument("ACME", "0.01", "1")]).text(-1234567)
        '-12,345.67'
        """
        money = value * self._unit
        return f"{money:,f}".rstrip("0").rstrip(".") if money != int(money) else f"{int(money):,}"

    def column(self, values: Sequence[int]) -> list[str]:
        """Return several sums for one column: all with as many decimals as one of them needs.

        >>> Money([Instrument("ACME", "0.01", "1")]).column([150, -1234567, 0])
        ['1.50', '-12,345.67', '0.00']
        """
        texts = [self.text(value) for value in values]
        digits = max((len(text.partition(".")[2]) for text in texts), default=0)
        return [f"{value * self._unit:,.{digits}f}" for value in values]

    def number(self, value: int) -> float:
        """Return a sum as a float for a chart."""
        return float(value * self._unit)


def chart_data(result: Result) -> dict[str, Any]:
    """Return the data of all charts, by chart."""
    money = Money(result.instruments)
    samples = result.curve
    profits = [
        [sum(r + u - f for r, u, f in sample.profits[place]) for sample in samples]
        for place in range(len(result.strategies))
    ]
    totals = [sum(each) for each in zip(*profits, strict=True)] if profits else [0] * len(samples)
    if len(profits) > 1:
        profits.append(totals)
    symbols = {}
    for number, instrument in enumerate(result.instruments):
        tick, lot = Decimal(instrument.tick_size), Decimal(instrument.lot_size)
        touch = [sample.quotes[number] for sample in samples]
        symbols[instrument.symbol] = {
            "bid": [None if bid is None else float(bid * tick) for bid, _ in touch],
            "ask": [None if ask is None else float(ask * tick) for _, ask in touch],
            "position": [
                [float(sample.positions[place][number] * lot) for sample in samples]
                for place in range(len(result.strategies))
            ],
        }
    return {
        "time": [sample.time_ns / _NS for sample in samples],
        "strategies": [strategy.name for strategy in result.strategies],
        "profit": [[money.number(value) for value in line] for line in profits],
        "drawdown": [money.number(value) for value in falls(totals)],
        "symbols": symbols,
        "fills": {instrument.symbol: _fills(result, instrument) for instrument in result.instruments},
    }


def _fills(result: Result, instrument: Instrument) -> list[tuple[float, float, str, str]]:
    tick = Decimal(instrument.tick_size)
    fills = [trade for trade in result.fills if trade.symbol == instrument.symbol]
    step = max(1, -(-len(fills) // _FILLS))
    return [(t.time_ns / _NS, float(t.price_ticks * tick), t.side, t.strategy) for t in fills[::step]]


def _money(value: Decimal | float) -> str:
    return f"{value:,f}" if isinstance(value, Decimal) else f"{value:,.2f}"


def _percent(value: float) -> str:
    """Return a share as a percentage with three digits, however small."""
    return f"{100 * value:.3g} %" if abs(value) < 10 else f"{100 * value:,.0f} %"


def _seconds(value: float) -> str:
    return f"{value:,.1f} s"


_COLUMNS: Final[tuple[tuple[str, str, Callable[[Any], str]], ...]] = (
    ("profit", "profit", _money),
    ("return", "total_return", _percent),
    ("volatility", "volatility", _percent),
    ("Sharpe", "sharpe", "{:,.2f}".format),
    ("Sortino", "sortino", "{:,.2f}".format),
    ("drawdown", "max_drawdown", _money),
    ("longest", "longest_drawdown_s", _seconds),
    ("fills", "fills", "{:,}".format),
    ("maker", "maker_share", _percent),
    ("hit rate", "hit_rate", _percent),
    ("turnover", "turnover", _money),
    ("mean exposure", "mean_exposure", _money),
)
"""Head, field of `Measures`, and function that formats its value."""
STATISTICS_HEAD: Final = ("of", *(head for head, _, _ in _COLUMNS))


def statistics_rows(statistics: Statistics) -> list[list[str]]:
    """Return a row for the total and each part; a kind that has only one part, equal to the total, is left out."""
    scopes = {
        "strategy": statistics.by_strategy,
        "symbol": statistics.by_symbol,
        "day": statistics.by_day,
    }
    return [
        [name or scope, *_cells(measures)]
        for scope, name, measures in statistics.lines()
        if scope == "total" or len(scopes[scope]) > 1
    ]


def _cells(measures: Measures) -> list[str]:
    values = [getattr(measures, field) for _, field, _ in _COLUMNS]
    return ["–" if value is None else write(value) for value, (_, _, write) in zip(values, _COLUMNS, strict=True)]


def statistics_note(statistics: Statistics) -> str:
    """Return the note on the basis of the ratios."""
    return (
        f"capital {_money(statistics.capital)}, {statistics.intervals:,} intervals of {statistics.interval_s:g} s, "
        f"{statistics.periods_a_year:,.0f} a year"
    )
