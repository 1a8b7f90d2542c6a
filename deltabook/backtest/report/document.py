"""A page with everything in it, built of escaped pieces."""

from __future__ import annotations

import html
from collections.abc import Container, Iterable, Sequence
from importlib.resources import files
from typing import Any, Final

import msgspec

from deltabook.vendored import UPLOT

__all__ = ["document", "escaped", "figure", "section", "table", "tiles"]

_PAGE: Final = files(__name__.rpartition(".")[0]) / "page"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Nothing from anywhere else; what is inside is ours."""


def escaped(value: object) -> str:
    """As text of a page; None is a dash."""
    return html.escape("–" if value is None else str(value))


def tiles(pairs: Iterable[tuple[str, object, str]]) -> str:
    """Figures with their names and units."""
    cells = (f"<div><dt>{escaped(n)}</dt><dd>{escaped(v)} <small>{escaped(u)}</small></dd></div>" for n, v, u in pairs)
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, name: str, kind: str = "", text: Container[str] = ()
) -> str:
    """Rows under their heads. ``name`` says whose they are; ``kind`` is ``words`` for those that are read and not
    compared; columns in ``text`` are aligned like words."""
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
    """A card; ``beside`` stands at the right of its title."""
    head = f'<div class="head"><h2>{escaped(title)}</h2>{beside}</div>'
    return f'<section class="{kind}">{head}{body}</section>'


def figure(name: str, words: str) -> str:
    """The place of a chart, and what it shows for those who do not see it."""
    return f'<figure aria-label="{escaped(words)}"><div class="chart" id="{name}"></div></figure>'


def document(title: str, lead: str, body: str, data: Any, script: str, *, has_charts: bool) -> str:
    """The whole page."""
    encoded = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    style = (_PAGE / "report.css").read_text("utf-8")
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
