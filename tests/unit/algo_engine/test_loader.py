"""Strategies are found and their parameters typed; what is wrong is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from algo_engine.errors import ParameterError, StrategyNotFound
from algo_engine.loader import load_strategies
from algo_engine.strategies import MarketMaker, SobiParameters

MINE = """
import msgspec
from algo_engine import Strategy

class Parameters(msgspec.Struct, frozen=True):
    level: int = 3

class Mine(Strategy[Parameters]):
    views = ("book_depth",)
    parameters_type = Parameters
"""


def test_parameters_are_converted_to_their_types() -> None:
    loaded = load_strategies(
        ["sobi", "market_maker"],
        ["sobi.symbols=ACME,BTCUSD", "sobi.factor=2.5", "sobi.size_lots=ACME:5,BTCUSD:1000", "sobi.risk.max_loss=9"],
    )
    assert loaded[0].strategy.parameters == SobiParameters(
        symbols=("ACME", "BTCUSD"), factor=2.5, size_lots={"ACME": 5, "BTCUSD": 1000}
    )
    assert loaded[0].limits.max_loss == 9
    assert isinstance(loaded[1].strategy, MarketMaker)
    assert load_strategies(["sobi"], ["sobi.size_lots=10"])[0].strategy.parameters.size_lots == {"*": 10}


def test_a_file_is_a_strategy_under_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "my-own.py"
    path.write_text(MINE)
    loaded = load_strategies([str(path)], ["my_own.level=4"])[0]
    assert (loaded.name, loaded.strategy.views, loaded.strategy.parameters.level) == ("my_own", ("book_depth",), 4)


def test_a_file_may_name_its_types_in_texts(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    own = MINE.replace("level: int = 3", "level: int = 3\n    sizes: Sizes = {}").replace(
        "\nclass P", "\nSizes = dict[str, int]\n\nclass P", 1
    )
    memo = "\nimport dataclasses\n\n@dataclasses.dataclass\nclass Memo:\n    seen: int = 0\n"
    path.write_text(f"from __future__ import annotations\n{own}{memo}")
    loaded = load_strategies([str(path)], ["level=4", "sizes=ACME:5"])[0]
    assert loaded.strategy.parameters.sizes == {"ACME": 5}


def test_one_strategy_needs_no_prefix() -> None:
    assert load_strategies(["sobi"], ["cooldown_ms=7"])[0].strategy.parameters.cooldown_ms == 7
    assert load_strategies(["sobi"], ["risk.max_loss=9"])[0].limits.max_loss == 9
    with pytest.raises(ParameterError, match=r"expected a parameter \[STRATEGY\.\]field=value, was cooldown_ms=7"):
        load_strategies(["sobi", "market_maker"], ["cooldown_ms=7"])


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("sobi.size=10", "expected a parameter of sobi out of symbols, size_lots, .* was size"),
        ("sobi.risk.size=10", "expected a parameter of sobi.risk out of max_order_lots.* was size"),
        ("other.size=10", "expected a parameter of sobi, was other.size=10"),
        ("cooldown_ms", r"expected a parameter \[STRATEGY\.\]field=value"),
        ("sobi.cooldown_ms", r"expected a parameter \[STRATEGY\.\]field=value"),
        ("sobi.cooldown_ms=soon", "Expected `int`, got `str`"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(parameter: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        load_strategies(["sobi"], [parameter])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "expected a strategy file, was nothing at"),
        ("x = 1", "expected one subclass of Strategy in .*, was none"),
        ("from algo_engine import Strategy\nclass A(Strategy): ...\nclass B(A): ...", "was A, B"),
        ("import nothing_of_this_name", "was ModuleNotFoundError"),
    ],
)
def test_files_that_cannot_be_used_are_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(StrategyNotFound, match=message):
        load_strategies([str(path)])


def test_names_must_be_known_and_given_once() -> None:
    with pytest.raises(StrategyNotFound, match=r"expected one of market_maker, .*sobi.* or a path"):
        load_strategies(["sobbi"])
    with pytest.raises(StrategyNotFound, match="was sobi twice"):
        load_strategies(["sobi", "sobi"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("async def on_timer(self, name): ...", "without async and yield in mine, was one whose call does nothing"),
        ("def on_start(self, context): yield", "a method on_start without async and yield"),
        ("async def on_stop(self): yield", "a method on_stop without async and yield"),
        ('views = "book_depth"', "expected a tuple of names as views of mine, was 'book_depth'"),
        ("views = (5,)", "expected a tuple of names as views of mine"),
        ("queries = ['SELECT 1']", "expected SQL by name as queries of mine"),
        ("queries = {'one': 1}", "expected SQL by name as queries of mine"),
        ("parameters_type = dict", "expected a subclass of msgspec.Struct as parameters_type of mine"),
        ("def __init__(self, parameters): pass", r"__init__ of mine to call super\(\).__init__\(parameters\)"),
        ("def __init__(self, parameters): 1 / 0", "expected mine to be created, was ZeroDivisionError"),
        ("raise SystemExit(0)", "expected a strategy in .*, was SystemExit: 0"),
    ],
)
def test_a_class_that_could_not_run_is_refused(tmp_path: Path, body: str, message: str) -> None:
    """Python accepts each of these classes; without the refusal some would never trade, and say nothing."""
    path = tmp_path / "mine.py"
    path.write_text(f"from algo_engine import Strategy\n\nclass Mine(Strategy):\n    {body}\n")
    with pytest.raises(StrategyNotFound, match=message):
        load_strategies([str(path)])
