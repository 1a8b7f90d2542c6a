"""What `import deltabook` offers, and that it costs nothing until it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import deltabook

HEAVY = (
    "twisted",
    "pyspark",
    "duckdb",
    "pyarrow",
    "pandas",
    "numpy",
    "matplotlib",
    "sqlglot",
    "msgspec",
    "cloudpickle",
)


def test_the_public_surface_is_pinned() -> None:
    assert deltabook.__all__ == sorted(deltabook.__all__)
    assert dir(deltabook) == deltabook.__all__
    assert set(deltabook.__all__) == {
        "AlgoError", "BacktestError", "ClientError", "Context", "DataFile", "Epoch", "EventKind", "Measures",
        "NoParameters", "OrderEvent", "OrderOptions", "Replay", "Result", "Side", "Statistics", "Strategy",
        "SweepResult", "ViewChange", "ViewDelta", "__version__", "connect", "replay", "run_backtest",
        "simulate", "sweep", "sweep_simulations",
    }  # fmt: skip


def test_every_name_has_one_origin() -> None:
    names = [name for names in deltabook._ORIGINS.values() for name in names]
    assert sorted([*names, "__version__"]) == deltabook.__all__


def test_a_name_that_there_is_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"expected one of AlgoError, .* in deltabook, was emulate"):
        deltabook.emulate  # noqa: B018 - the look-up is the test
    assert not hasattr(deltabook, "__path__x")


@pytest.mark.process
def test_importing_it_imports_nothing_else() -> None:
    code = f"import deltabook, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.process
def test_a_backtest_starts_no_reactor_and_no_spark() -> None:
    code = (
        "import deltabook, sys\nfrom queries import QUERIES_DIR\n"
        "deltabook.run_backtest('market_maker', QUERIES_DIR / 'trace-5000.csv', limit=100)\n"
        "print([n for n in ('twisted.internet.reactor', 'pyspark', 'matplotlib') if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
