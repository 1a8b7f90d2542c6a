"""What the pages of the strategies say is so: their parameters, their SQL, their commands, their runs."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from algo_engine.loader import BUILT_IN, load_strategies
from bench.strategies.cases import CASES, LATENCY, SNAPSHOT_RECORDS
from bench.strategies.tables import COLUMNS, placed
from deltabook.backtest import Backtest, BacktestConfig
from deltabook.cli import main
from deltabook.wire.symbols import Instrument
from exchange_server.replay import Record
from queries import query_text

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "strategies.md").read_text(encoding="utf-8")
PAGES = {name: (DOCS / "strategies" / f"{name}.md").read_text(encoding="utf-8") for name in BUILT_IN}


def test_every_strategy_has_a_page_and_a_row() -> None:
    linked = re.findall(r"^\| \[`(\w+)`\]\(strategies/(\w+)\.md\)", PAGE, re.MULTILINE)
    assert sorted(linked) == sorted((name, name) for name in BUILT_IN)
    assert sorted(path.stem for path in (DOCS / "strategies").glob("*.md")) == sorted(BUILT_IN)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_page_has_every_parameter_with_its_default(name: str) -> None:
    section = PAGES[name].partition("## Parameters\n")[2].partition("\n## ")[0]
    written = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))
    (loaded,) = load_strategies([name])
    known = {
        key: {"symbols": "all", "size_lots": "–"}.get(key, f"{value:g}" if isinstance(value, float) else str(value))
        for key, value in msgspec.structs.asdict(loaded.strategy.parameters).items()
    }
    assert list(written.items()) == list(known.items())


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_page_has_the_sql_of_the_views(name: str) -> None:
    views = re.findall(r"^```sql\n-- (\w+)\n(.*?)\n```$", PAGES[name], re.MULTILINE | re.DOTALL)
    assert views
    for view, sql in views:
        assert sql == query_text(view)
    (loaded,) = load_strategies([name])
    assert set(loaded.strategy.queries) <= {view for view, _ in views}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_page_has_its_parts_and_names_its_file(name: str) -> None:
    heads = re.findall(r"^## (.+)$", PAGES[name], re.MULTILINE)
    assert heads == ["Views", "Parameters", "What it does", "When it fails"]
    assert f"`{BUILT_IN[name].replace('.', '/')}.py`" in PAGES[name]
    assert import_module(BUILT_IN[name]).__doc__


@pytest.mark.parametrize("place", ["capture", "trace"])
def test_the_tables_have_a_row_for_each_case(place: str) -> None:
    table = PAGE.partition(f"<!-- {place} -->\n")[2].partition(f"\n<!-- end of {place} -->")[0].splitlines()
    assert table[0] == f"| {' | '.join(COLUMNS)} |"
    assert [line.split(" | ")[0].removeprefix("| ") for line in table[2:]] == [case.title for case in CASES]
    assert len({line.count(" | ") for line in (table[0], *table[2:])}) == 1


def test_pictures_are_those_of_cases_and_not_large() -> None:
    shown = re.findall(r"!\[[^]]+\]\(strategies/([^)]+)\)", PAGE)
    assert sorted(shown) == sorted(path.name for path in (DOCS / "strategies").glob("*.png"))
    assert {name.removesuffix(".png") for name in shown} <= {case.name for case in CASES}
    for name in shown:
        assert (DOCS / "strategies" / name).stat().st_size < 150_000


def test_the_strategy_that_it_shows_trades_as_it_says(tmp_path: Path) -> None:
    """One tick inside a spread that is wide enough, again each second; not in a narrow one."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "buys_wide_spreads.py"
    path.write_text(code)
    second = 1_000_000_000
    for ask, tried in ((104, []), (105, [101] * 4)):
        lines = [(0, "B", 100), (0, "S", ask), (1, "B", 50), (3, "B", 49), (4, "B", 48)]
        flow = [
            Record(n, second * (10 + at), n, 1, side, 5, price, "ACME")
            for n, (at, side, price) in enumerate(lines, start=1)
        ]
        config = BacktestConfig((str(path),))
        result = Backtest(config, records=flow, instruments=(Instrument("ACME"),)).run()
        assert not result.strategies[0].failure
        assert [order.price_ticks for order in result.order_lives] == tried


@pytest.mark.parametrize("command", ["algo run", "backtest"])
def test_commands_have_the_options_that_it_shows(command: str) -> None:
    (block,) = re.findall(rf"^```\n(deltabook {command} .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    said = CliRunner().invoke(main, [*command.split(), "--help"]).output
    for option in re.findall(r"--[\w-]+", block):
        assert re.search(rf"{option}\b", said), option


def test_the_command_of_a_row_says_what_was_played(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```sh\n(deltabook backtest .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    words = shlex.split(block.replace("\\\n", ""))[1:]
    assert words[words.index("--latency") + 1] == LATENCY
    assert int(words[words.index("--warm-up") + 1]) == SNAPSHOT_RECORDS
    data = tmp_path / "orders.csv"
    lines = (
        f"{n},{1_000 + n},{1_000 + n},{100 + n % 2}.0,0.5,created,{('bid', 'ask')[n % 2]}\n" for n in range(1, 7_000)
    )
    data.write_text("id,timestamp,exchange_timestamp,price,volume,action,direction\n" + "".join(lines))
    words[words.index("--data") + 1] = f"BTCUSD={data}"
    words[words.index("--out") + 1] = str(tmp_path / "out")
    ran = CliRunner().invoke(main, words)
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "out" / "result.json").is_file()


def test_a_table_is_put_between_its_marks_alone() -> None:
    page = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n"
    assert placed(page, "x", "new") == "a\n<!-- x -->\nnew\n<!-- end of x -->\nb\n"
    with pytest.raises(ValueError, match="expected a place for y between two marks, was none"):
        placed(page, "y", "new")
