"""The whole loop by processes, hurt in every way: no order and no message is lost or doubled, and it goes on by itself.

Killed processes are the matter of `test_order_loop` and `test_kill`; here they stand still, cannot reach each other,
find no room, and disagree about the time. The tests share one market, each goes on where the one before left it.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.integration._loop import Loop, check_orders, check_views, is_trading, wait_until_trading
from tests.integration._processes import Results, Running
from tests.integration._wire import Wire
from tests.integration.test_runtime_recovery import check_epochs

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(900)]

LONG_S = 12.0
"""Longer than anybody waits for a sign of life."""
SHORT_S = 1.0
"""Shorter than that."""
CLOCKS_S = [(3_600.0, -86_400.0, 86_400.0), (-0.5, 60.0, -3_600.0)]
"""Exchange, runtime, strategies: first ahead or behind, then stepped the other way."""


class Wired(Loop):
    """Every connection goes through a wire of its own."""

    def begin(self) -> None:
        super().begin()
        self.orders_wire, self.results_wire = Wire(self.port), Wire(self.engine.ready().ports["http"])

    def start_exchange(self, port: int = 0, *, clock_s: float = 0.0) -> Running:
        market = super().start_exchange(port, clock_s=clock_s)
        if not port:
            self.feed_wire = Wire(market.ready().ports["text"])
        return market

    @property
    def feed_port(self) -> int:
        return self.feed_wire.port

    @property
    def orders_port(self) -> int:
        return self.orders_wire.port

    @property
    def results_port(self) -> int:
        return self.results_wire.port

    def wire(self, name: str) -> Wire:
        """The one between two parts."""
        return {"feed": self.feed_wire, "orders": self.orders_wire, "results": self.results_wire}[name]

    def close(self) -> None:
        super().close()
        for name in ("feed", "orders", "results"):
            if hasattr(self, f"{name}_wire"):
                self.wire(name).close()


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    running = Wired(tmp_path_factory.mktemp("loop"), spark=False)
    try:
        running.begin()
        yield running
    finally:
        running.close()


def trades_again(loop: Wired, strategies: Running) -> None:
    """Strategies send orders that are executed, on views that follow the market."""
    sequence = int(loop.market.figures()["sequence"])
    loop.engine.wait_for("feed_sequence", sequence)
    wait_until_trading(strategies, is_trading(10, strategies.figures()))


def check(loop: Wired, strategies: Running) -> None:
    """End the strategies; everything is exact."""
    trades_again(loop, strategies)
    check_orders(loop, strategies.stop())
    check_views(loop)
    check_epochs(loop.directory / "runtime")
    assert loop.engine.figures()["dead_letters"] == 0


@pytest.mark.parametrize("seconds", [SHORT_S, LONG_S])
@pytest.mark.parametrize("part", ["exchange", "runtime", "strategies"])
def test_a_part_that_stands_still_goes_on_where_it_was(loop: Wired, part: str, seconds: float) -> None:
    with loop.start_strategies() as strategies:
        trades_again(loop, strategies)
        still = {"exchange": loop.market, "runtime": loop.engine, "strategies": strategies}[part]
        other = loop.engine if part == "exchange" else loop.market
        still.pause()
        try:
            other.runs_for(seconds)
        finally:
            still.go_on()
        check(loop, strategies)


@pytest.mark.parametrize("seconds", [SHORT_S, LONG_S])
@pytest.mark.parametrize("how", ["freeze", "cut"])
@pytest.mark.parametrize("name", ["feed", "orders", "results"])
def test_a_network_that_is_cut_and_healed_costs_nothing(loop: Wired, name: str, how: str, seconds: float) -> None:
    wire = loop.wire(name)
    with loop.start_strategies() as strategies:
        trades_again(loop, strategies)
        wire.freeze() if how == "freeze" else wire.cut()
        try:
            loop.market.runs_for(seconds)
        finally:
            wire.heal()
        check(loop, strategies)


def test_parts_with_skewed_clocks_agree_on_everything_else(loop: Wired) -> None:
    for market_s, engine_s, strategies_s in CLOCKS_S:
        loop.kill_exchange(clock_s=market_s)
        loop.kill_runtime(clock_s=engine_s)
        loop.results = Results(loop.engine)
        with loop.start_strategies(clock_s=strategies_s) as strategies:
            check(loop, strategies)


class NoRoom:
    """While it lasts a process can make no file longer, as on a disk that is full."""

    def __init__(self, process: Running) -> None:
        self._pid = process.pid

    def __enter__(self) -> None:
        self._before = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (0, self._before[1]))

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):  # it has ended of it
            resource.prlimit(self._pid, resource.RLIMIT_FSIZE, self._before)


def test_an_exchange_on_a_full_disk_ends_and_resumes(loop: Wired) -> None:
    with loop.start_strategies() as strategies:
        trades_again(loop, strategies)
        with NoRoom(loop.market):
            assert loop.market.await_end() == 1
        assert "File too large" in loop.market.errors()
        assert "Traceback" not in loop.market.errors()
        loop.market = loop.start_exchange(loop.port)
        loop.market.ready()
        check(loop, strategies)


def test_a_runtime_without_room_ends_and_goes_on_where_it_was(loop: Wired) -> None:
    with loop.start_strategies() as strategies:
        trades_again(loop, strategies)
        port = loop.engine.ready().ports["http"]
        with NoRoom(loop.engine):
            assert loop.engine.await_end() == 1
        assert "Traceback" not in loop.engine.errors()
        loop.engine = loop.start_runtime(port)
        loop.results = Results(loop.engine)
        check(loop, strategies)


def test_strategies_without_room_end_and_go_on_with_every_order(loop: Wired) -> None:
    with loop.start_strategies() as strategies:
        trades_again(loop, strategies)
        with NoRoom(strategies):
            assert strategies.await_end() == 1
        assert "Traceback" not in strategies.errors()
    with loop.start_strategies() as strategies:
        check(loop, strategies)
