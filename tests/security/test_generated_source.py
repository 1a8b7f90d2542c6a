"""Names and constants of a query are data of the source that is made of it, whatever is in them."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

from runtime.compiler import Column, NamedSelect, Relation
from runtime.compiler.script import is_view_name
from tests.generators.express_lab import ExpressLab

HOSTILE = (
    'x"); import builtins; builtins.pwned = 1 #',
    "x'); import builtins; builtins.pwned = 1 #",
    "x\nimport builtins\nbuiltins.pwned = 1\n",
    "__import__('builtins').__dict__.__setitem__('pwned', 1)",
    "{__import__('builtins')}",
    '"""',
    "x\\",
    "x\\'",
    "%s%n",
    "class",
    "row",
)
"""Texts that would end a string, a line or a statement if they were put into source as they are."""


@pytest.mark.parametrize("text", HOSTILE)
def test_names_and_constants_are_not_executed(tmp_path: Path, text: str) -> None:
    name, constant = '"' + text.replace('"', '""') + '"', "'" + text.replace("'", "''") + "'"
    relation = Relation("bids", (Column("symbol", "string"), Column(text, "int64"), Column("volume", "int64")))
    views = (
        f"SELECT symbol AS {name}, SUM(volume) AS n FROM bids GROUP BY symbol",
        f"SELECT {name}, SUM(volume) AS n FROM bids WHERE symbol <> {constant} GROUP BY {name}",
        f"SELECT symbol, {constant} AS {name} FROM bids",
        f"SELECT symbol, MODE({name}) AS {name} FROM bids GROUP BY symbol",
        f"SELECT a.symbol, a.{name} FROM bids a JOIN bids b ON a.{name} = b.volume AND a.symbol LIKE {constant}",
        f"SELECT symbol, ROW_NUMBER() OVER (PARTITION BY symbol ORDER BY {name}) AS {name} FROM bids",
        f"WITH {name} AS (SELECT symbol, volume FROM bids) SELECT symbol, MAX(volume) AS n FROM {name} GROUP BY symbol",
        f"SELECT symbol FROM bids AS {name} WHERE {name}.symbol IN ({constant}, 'A')",
    )
    selects = [NamedSelect(f"v{number}", sql, lane="express") for number, sql in enumerate(views)]
    lab = ExpressLab(tmp_path, [relation], selects)
    lab.change([("bids", ("A", 3, 5), 1), ("bids", (text, 2, 2), 1), ("bids", ("B", 5, 5), 1)], [1, 2], [1])
    assert lab.failed == {}
    assert lab.checked >= len(views)  # against DuckDB
    assert not hasattr(builtins, "pwned")


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a/b", "a\\b", "a b", "a\nb", 'a"b', "a'b", "a%2fb", "a?b", "", "x" * 101]
)
def test_a_view_has_no_name_that_is_a_path_or_ends_a_string(name: str) -> None:
    assert not is_view_name(name)
