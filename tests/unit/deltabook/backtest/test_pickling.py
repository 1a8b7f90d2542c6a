"""Strategies that are in no module come out of a pickle as they went in, with their parameters."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from algo_engine.loader import load_strategies
from algo_engine.strategies.market_maker import MarketMaker
from algo_engine.strategy import Strategy
from deltabook.backtest import SweepError
from deltabook.backtest.pickling import pickled_classes, unpickled_classes


def local_classes(lock: object = None) -> tuple[type[msgspec.Struct], type[Strategy[msgspec.Struct]]]:
    """Classes as a notebook's cell makes them: nobody can import them."""

    class Base(msgspec.Struct, frozen=True):
        lots: int = 1

    class Given(Base, frozen=True, forbid_unknown_fields=True, rename={"half_spread": "spread"}):
        """Doc."""

        half_spread: float = 0.5
        symbols: tuple[str, ...] = ("A",)
        limits: dict[str, int] = msgspec.field(default_factory=lambda: {"*": 7})

        def __post_init__(self) -> None:
            if self.lots < 0:
                raise ValueError(f"expected lots of 0 or more, was {self.lots}")

        @property
        def double(self) -> int:
            return 2 * self.lots

    class Mine(Strategy[Given]):
        parameters_type = Given
        views = ("tape",)

        def on_start(self, context: object) -> None:
            assert lock is None

    return Given, Mine  # type: ignore[return-value]


def test_parameters_keep_fields_defaults_and_rules() -> None:
    before, strategy = local_classes()
    found = unpickled_classes(pickled_classes({"Mine": strategy}))["Mine"]
    after = found.parameters_type
    assert after is not before
    assert after() == after(lots=1, half_spread=0.5, symbols=("A",), limits={"*": 7})
    assert after.__struct_config__.frozen
    assert after.__struct_config__.forbid_unknown_fields
    assert after.__doc__ == "Doc."
    assert msgspec.convert({"lots": 3, "spread": 2}, after).double == 6  # type: ignore[attr-defined]
    with pytest.raises(msgspec.ValidationError, match="lots of 0 or more"):
        msgspec.convert({"lots": -1}, after)
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"half_spread": 2}, after)
    (loaded,) = load_strategies([found], ["lots=4", "symbols=A,B"])
    assert loaded.strategy.parameters.symbols == ("A", "B")
    assert loaded.strategy.views == ("tape",)
    assert loaded.strategy.parameters.limits is not after().limits  # type: ignore[attr-defined]


def test_a_class_of_a_module_goes_by_its_name() -> None:
    assert unpickled_classes(pickled_classes({"maker": MarketMaker}))["maker"] is MarketMaker


def test_what_cannot_be_sent_is_named() -> None:
    _, strategy = local_classes(threading.Lock())
    with pytest.raises(SweepError, match=r"expected strategies that can be sent .*lock.* in a file can"):
        pickled_classes({"Mine": strategy})


def test_no_class_is_no_byte() -> None:
    assert pickled_classes({}) == b""
    assert unpickled_classes(b"") == {}


@pytest.mark.process
def test_another_process_reads_classes_of_a_script(tmp_path: Path) -> None:
    """The script's module is ``__main__``, of which the other process has another one."""
    (tmp_path / "script.py").write_text(
        "import msgspec, sys\n"
        "from algo_engine import Strategy\n"
        "from deltabook.backtest.pickling import pickled_classes\n"
        "class Parameters(msgspec.Struct, frozen=True):\n    lots: int = 1\n"
        "class Mine(Strategy[Parameters]):\n    parameters_type = Parameters\n"
        "sys.stdout.buffer.write(pickled_classes({'Mine': Mine}))\n"
    )
    data = subprocess.run([sys.executable, tmp_path / "script.py"], check=True, capture_output=True).stdout
    (loaded,) = load_strategies([unpickled_classes(data)["Mine"]], ["lots=9"])
    assert (loaded.name, loaded.strategy.parameters.lots) == ("Mine", 9)
