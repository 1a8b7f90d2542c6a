"""Elements of the pages of reports, as escaped HTML, and sums of money as text."""

from __future__ import annotations

import html
from collections.abc import Container, Iterable, Sequence
from decimal import Decimal
from importlib.resources import files
from typing import Any, Final

import msgspec

from deltabook.vendored import UPLOT
from deltabook.wire import SHARED_STYLE
from deltabook.wire.symbols import Instrument

__all__ = ["Money", "digits_of", "document", "escaped", "figure", "section", "table", "tiles"]

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
    """Return the container of a chart as HTML, with a description for readers who do not see the chart."""
    return f'<figure aria-label="{escaped(words)}"><div class="chart" id="{name}"></div></figure>'


def document(title: str, lead: str, body: str, data: Any, script: str, *, has_charts: bool) -> str:
    """Return a whole page; ``data`` is embedded as JSON for ``script``, a file of the folder of scripts."""
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
        """Return several sums for one column: all with as many decimals as the most precise sum needs.

        >>> Money([Instrument("ACME", "0.01", "1")]).column([150, -1234567, 0])
        ['1.50', '-12,345.67', '0.00']
        """
        texts = [self.text(value) for value in values]
        digits = max((len(text.partition(".")[2]) for text in texts), default=0)
        return [f"{value * self._unit:,.{digits}f}" for value in values]

    def number(self, value: int) -> float:
        """Return a sum as a float for a chart."""
        return float(value * self._unit)


def digits_of(unit: Decimal) -> int:
    """Return the number of digits after the point that multiples of a unit need.

    >>> digits_of(Decimal("0.0100")), digits_of(Decimal("5")), digits_of(Decimal("50"))
    (2, 0, 0)
    """
    exponent = unit.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)
