"""The benchmark of what a user works with: tick to trade, answers, results, pages, backtests, simulations, queues."""

from __future__ import annotations

from bench.report import Record
from bench.trading.backtests import measure_backtests, measure_sweeps
from bench.trading.dashboard import measure_dashboard
from bench.trading.democpu import measure_demo_cpu
from bench.trading.fanout import measure_fanout, measure_paging
from bench.trading.firstanswer import measure_first_answer
from bench.trading.pgcopy import measure_copy
from bench.trading.pgruntime import measure_port
from bench.trading.simulations import measure_simulations
from bench.trading.ticktotrade import measure_tick_to_trade
from bench.trading.tuple_queues import measure_tuple_queues

__all__ = ["run"]


def run(quick: bool) -> list[Record]:
    """Run all parts, one after another."""
    return [
        *measure_tick_to_trade(quick),
        *measure_first_answer(quick),
        *measure_demo_cpu(quick),
        *measure_fanout(quick),
        *measure_paging(quick),
        *measure_copy(quick),
        *measure_port(quick),
        *measure_dashboard(quick),
        *measure_backtests(quick),
        *measure_sweeps(quick),
        *measure_simulations(quick),
        *measure_tuple_queues(quick),
    ]
