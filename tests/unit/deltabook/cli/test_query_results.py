"""``deltabook query run``: results are printed as they are, and declarations of one stream agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltabook.cli._options import ConfigFileError
from deltabook.cli._views import print_rows
from deltabook.cli.query import _read
from runtime.plan import Column

COLUMNS = (Column("at", "timestamp"), Column("note", "string"))


def test_nothing_of_a_value_is_left_out_or_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """However long it is, whatever the width of the terminal that there is not."""
    rows: list[list[Any]] = [["2026-01-31T09:30:00.123456", "x" * 200], [None, "[red]y[/red] :smile: [/b]"]]
    print_rows("v", COLUMNS, rows, 3, "linear", as_json=False)
    out = capsys.readouterr().out
    for said in ("v (linear, epoch 3)", "2026-01-31T09:30:00.123456", "x" * 200, "NULL", "[red]y[/red] :smile: [/b]"):
        assert said in out


@pytest.mark.parametrize(
    ("other", "agrees"),
    [
        ("(a INT) FROM FILE 'x' LINE DELIMITED csv", True),
        ("(a INT) FROM FILE 'y' LINE DELIMITED csv", False),
        ("(a INT) FROM FILE 'x' LINE DELIMITED json", False),
        ("(a INT) FROM FILE 'x' ';' DELIMITED csv", False),
        ("(a INT) FROM FILE 'x' LINE DELIMITED csv (header := 'yes')", False),
    ],
)
def test_scripts_that_share_a_stream_declare_it_alike(tmp_path: Path, other: str, agrees: bool) -> None:
    """Also from folders of their own, where its file is looked for as well."""
    (tmp_path / "sub").mkdir()
    files = [tmp_path / "one.sql", tmp_path / "sub" / "two.sql"]
    files[0].write_text("CREATE STREAM r(a INT) FROM FILE 'x' LINE DELIMITED csv; SELECT a FROM r")
    files[1].write_text(f"CREATE STREAM r{other}; SELECT a FROM r")
    if agrees:
        assert list(_read(files, None)[1]) == ["r"]
        return
    with pytest.raises(ConfigFileError, match=r"expected one declaration of r, was another in .*two\.sql"):
        _read(files, None)
