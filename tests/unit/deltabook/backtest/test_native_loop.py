"""The kernel and the pure-Python market give the same bytes, whatever records and strategies do."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from algo_engine import Strategy, ViewChange
from algo_engine.desk.risk import RiskLimits
from algo_engine.loader import LoadedStrategy
from algo_engine.strategy import NoParameters
from deltabook.backtest import Backtest, BacktestConfig
from deltabook.backtest.backtest import MarketKind
from deltabook.wire.symbols import Instrument
from deltabook.wire.text import OrderOptions
from exchange_server.matching import MarketRules
from exchange_server.replay import Record
from runtime.native.cache import KernelCache
from tests.generators.backtests import MS, adds, backtest

LIMITS = RiskLimits(
    max_order_lots={"*": 10**9},
    max_position_lots={"*": 10**9},
    price_band_bps=100_000,
    max_order_touches=10**6,
    max_open_orders=1_000,
    orders_per_s=10**6,
    burst_orders=10**6,
)
SYMBOLS = ("ACME", "BETA")
QUERIES = {
    "traded": "SELECT symbol, side, COUNT(*) AS n, SUM(volume) AS lots, MAX(price) AS high FROM trades "
    "GROUP BY symbol, side",
    "crossing": "SELECT b.symbol, COUNT(*) AS pairs FROM bids b JOIN asks a ON a.symbol = b.symbol "
    "AND a.broker_id = b.broker_id GROUP BY b.symbol",
}
RECENT = {"recent": "SELECT symbol, COUNT(*) AS n FROM trades WHERE t > 0 GROUP BY symbol"}
SPECIAL = (
    OrderOptions(post_only=True),
    OrderOptions(hidden=True),
    OrderOptions(display=2),
    OrderOptions(stop_ticks=1_000),
)


class Restless(Strategy[NoParameters]):
    """Does anything at any change, from a seed."""

    queries = QUERIES

    def __init__(
        self, parameters: NoParameters, seed: int = 0, *, is_plain: bool = True, adds_view: bool = False
    ) -> None:
        super().__init__(parameters)
        self.random, self.is_plain, self.adds_view = random.Random(seed), is_plain, adds_view
        self.calls: list[Any] = []

    def on_start(self, context: Any) -> None:
        context.set_timer("tick", 7, repeat=True)

    def on_timer(self, name: str) -> None:
        self.act()

    def on_view_change(self, change: ViewChange) -> None:
        self.calls.append((self.context.now_ns, change.view, change.added, change.removed))
        if self.random.random() < 0.1:
            self.act()

    def act(self) -> None:
        rng, context = self.random, self.context
        symbol, price = rng.choice(SYMBOLS), 1_000 + rng.randint(-6, 6)
        live = [order.client_id for order in context.open_orders()]
        send, choice = rng.choice((context.buy, context.sell)), rng.random()
        if choice < 0.45:
            send(symbol, rng.randint(1, 9), price)
        elif choice < 0.55:
            send(symbol, rng.randint(1, 9))
        elif choice < 0.65:
            send(symbol, rng.randint(1, 9), price, options=OrderOptions(immediate=True))
        elif choice < 0.68 and not self.is_plain:
            send(symbol, rng.randint(2, 9), price, options=rng.choice(SPECIAL))
        elif choice < 0.70 and self.adds_view:
            context.add_view("late", "SELECT symbol, COUNT(*) AS n FROM asks GROUP BY symbol")
        elif choice < 0.73:
            context.cancel_all(symbol)
        elif live and choice < 0.83:
            context.cancel(rng.choice(live))
        elif live and choice < 0.92:
            context.replace(rng.choice(live), rng.randint(1, 9), price)
        elif live:
            context.reduce(rng.choice(live), rng.randint(1, 3))


def flow(rng: random.Random, count: int) -> list[Record]:
    """Records of every action, some of which cannot be carried out."""
    at, known, records = 1_000, list[int](), list[Record]()
    for n in range(count):
        at += rng.choice((0, 0, 1, 1, 2, 5, 900))
        action = rng.choice("BBBBSSSSEEFDXUVTC")
        order_id = rng.choice(known) if known and (action not in "BS" or rng.random() < 0.03) else 10 * n + 1
        if rng.random() < 0.02:
            order_id += 1 << 64  # of another file
        new_id = 10 * n + 2 if action == "U" else 0
        price = 1_000 + rng.randint(-8, 8) if action in "BSU" else 0
        if rng.random() < 0.02:
            price = rng.choice((0, 10**6, 2**62))
        volume = rng.choice((0, 1, 2, 3, 5, 8, 50)) if action in "BSEXUV" else 0
        symbol = "ACME" if rng.random() < 0.7 else "BETA"
        records.append(Record(n + 1, at * MS // 10, order_id, rng.randint(1, 5), action, volume, price, symbol, new_id))
        known = [*known[-40:], new_id or order_id]
    return records


def played(kind: MarketKind, seed: int) -> tuple[bytes, list[Any], bool]:
    """The bytes of a result, what the strategies saw, and whether a kernel played to the end."""
    rng = random.Random(seed)
    records = flow(rng, rng.choice((5, 150, 300)))
    is_plain, adds_view = rng.random() < 0.6, rng.random() < 0.2
    config = BacktestConfig(
        ("a", "b"),
        latency=rng.choice(("zero", "zero", "fixed:order=150us,answer=50us", "lognormal:order=100us~1.5")),
        trades_rows=rng.choice((1, 5, 1_000)),
        trades_time_s=rng.choice((1, 300)),
        warm_up_records=rng.choice((0, 0, 20)),
        views=RECENT,
    )
    loaded = [
        LoadedStrategy(name, Restless(NoParameters(), seed + n, is_plain=is_plain, adds_view=adds_view), LIMITS)
        for n, name in enumerate("ab")
    ]
    instruments = tuple(map(Instrument, SYMBOLS))
    run = Backtest(config, records=records, strategies=loaded, instruments=instruments, market=kind)
    result = run.run()
    seen = [vars(each.strategy)["calls"] for each in loaded]
    return re.sub(rb'"elapsed_s":[^,]*', b"", msgspec.json.encode(result)), seen, run.simulation.is_native


@pytest.mark.parametrize("factor", [0, 10])
def test_kernel_and_python_market_give_the_same_bytes(factor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random records and strategies; the seed of a difference is in the message."""
    monkeypatch.setattr("deltabook.backtest.backtest.MarketRules", partial(MarketRules, outlier_factor=factor))
    native = 0
    for seed in range(1_000 * factor, 1_000 * factor + 6):
        expected, seen, _ = played("python", seed)
        result, seen_too, is_native = played("interpreted", seed)
        assert (result, seen_too) == (expected, seen), f"seed {seed}"
        native += is_native
    assert native >= 2, "expected more runs to end in the kernel"


@pytest.fixture(scope="module")
def compiled_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelCache]:
    """Cache that compiles the kernel of the loop once."""
    kernels = KernelCache(tmp_path_factory.mktemp("kernels"))
    yield kernels
    kernels.close()


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(4))
def test_compiled_kernel_gives_the_same_bytes(
    part: int, compiled_kernels: KernelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in the compiled tier, with so many seeds that rare paths are met."""
    monkeypatch.setattr("deltabook.backtest.backtest.default_kernels", lambda: compiled_kernels)
    monkeypatch.setattr("deltabook.backtest.backtest._FEW_RECORDS", 1)
    monkeypatch.setattr("deltabook.backtest.backtest._LONGEST_WAIT_S", 1_200.0)
    native = 0
    for seed in range(100_000 + part * 100, 100_100 + part * 100):
        expected, seen, _ = played("python", seed)
        result, seen_too, is_native = played("native", seed)
        assert (result, seen_too) == (expected, seen), f"seed {seed}"
        native += is_native
    assert native >= 30, "expected more runs to end in the kernel"


class Idle(Strategy[NoParameters]):
    """Watches best quotes."""


def test_sweep_of_a_deep_queue_grows_every_array() -> None:
    """One order that executes thousands needs room for all of its rows at once."""
    orders = [(1, "S", 1, 100)] * 3_000 + [(2, "B", 2_999, 100), (3, "S", 1, 101)]
    records = adds(*orders)
    expected, run = backtest(Idle, records, market="python"), backtest(Idle, records, market="interpreted")
    result = run.run()
    assert run.simulation.is_native
    assert result.figures.market_trades == 2_999
    assert result.figures == expected.run().figures


def test_many_prices_and_ids_grow_every_array() -> None:
    """More levels and live orders than there is room for at first."""
    records = adds(*[(n, "B", 1, n) for n in range(1, 5_000)], *[(6_000, "D", 0, n) for n in range(1, 4_000, 2)])
    run, expected = backtest(Idle, records, market="interpreted"), backtest(Idle, records, market="python")
    figures, others = run.run().figures, expected.run().figures
    assert run.simulation.is_native
    assert figures == others


def test_views_of_duckdb_are_left_to_the_python_market() -> None:
    """A kernel runs no view that is computed anew."""

    class Slow(Idle):
        queries = MappingProxyType(
            {
                "odd": "SELECT symbol, STRING_AGG(CAST(price AS VARCHAR), ',' ORDER BY price, id) AS prices "
                "FROM bids GROUP BY symbol"
            }
        )

    run = backtest(Slow, adds((1, "B", 1, 100), (2, "S", 1, 101)), market="interpreted")
    run.run()
    assert run.views.slow
    assert not run.simulation.is_native
