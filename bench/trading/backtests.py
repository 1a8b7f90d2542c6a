"""Backtests: messages per second beside two peers on the same flow, and sweeps on one core and on two."""

from __future__ import annotations

import gc
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from algo_engine.loader import load_strategies
from bench.peers import install_peers
from bench.report import Record, record
from bench.trading.recording import SYMBOL, write_recording
from deltabook.backtest import Backtest, BacktestConfig, DataFile
from deltabook.backtest.flow import Flow
from deltabook.backtest.sweep import Sweep
from runtime.spark.config import SparkConfig

__all__ = ["measure_backtests", "measure_sweeps", "play_with_peer"]

_HERE: Final = Path(__file__).resolve().parent
_TIMEOUT_S: Final = 900
_PROCESSES: Final = {"nautilus_trader": "nautilus_process.py", "hftbacktest": "hftbacktest_process.py"}
_TOUCHER: Final = str(_HERE / "toucher.py")


class _Played(msgspec.Struct, frozen=True):
    messages: int
    """Number of messages played."""
    seconds: float
    """Seconds from the first to the last message, without reading the file."""
    touches: int
    """Number of changes of the best prices that the strategy saw."""
    orders: int
    """Number of orders that the strategy sent."""


def measure_backtests(quick: bool) -> list[Record]:
    """Measure ``backtest.messages_per_s``, and for each peer its rate and ``backtest.NAME.ratio_peer``; runs alternate.

    Raises `RuntimeError` if the strategies did not see the same best prices: then the work was not equal.
    """
    runs, requests = (1, 20_000) if quick else (5, 200_000)
    python, peers = install_peers(_HERE / "peers.txt", "bench-backtest-peers")
    ours: list[float] = []
    theirs: dict[str, list[float]] = {peer: [] for peer in peers}
    with tempfile.TemporaryDirectory(prefix="bench-trading-") as folder:
        path = Path(folder) / "flow.csv"
        write_recording(path, requests)
        for _ in range(runs):
            played = _play(path)
            ours.append(played.messages / played.seconds)
            for peer, rates in theirs.items():
                other = play_with_peer(python, peer, path)
                rates.append(other.messages / other.seconds)
                if (other.touches, other.orders) != (played.touches, played.orders):
                    raise RuntimeError(f"expected the same touches and orders, was {played} and of {peer} {other}")
    found = [record("backtest.messages_per_s", ours, "messages/s")]
    for peer, rates in theirs.items():
        found.append(record(f"backtest.{peer}.messages_per_s", rates, "messages/s"))
        ratios = [mine / rate for mine, rate in zip(ours, rates, strict=True)]
        found.append(record(f"backtest.{peer}.ratio_peer", ratios, "", f"{peer} (PyPI), L3"))
    return found


def play_with_peer(python: Path, peer: str, path: Path) -> _Played:
    """Run a peer once."""
    command = [str(python), str(_HERE / _PROCESSES[peer]), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    return msgspec.convert(json.loads(done.stdout.splitlines()[-1]), _Played)


def _play(path: Path) -> _Played:
    """Run our backtest once, from records in memory, as peers run from theirs."""
    config = BacktestConfig((_TOUCHER,))
    flow = Flow((DataFile(path, "dbtoaster", SYMBOL),), 0)
    records = list(flow)
    loaded = load_strategies(config.strategies, ())
    backtest = Backtest(config, records=records, strategies=loaded, instruments=flow.instruments)
    gc.collect()
    begun_s = time.perf_counter()
    backtest.run()
    seconds = time.perf_counter() - begun_s
    strategy = loaded[0].strategy
    return _Played(len(records), seconds, vars(strategy)["touches"], vars(strategy)["orders"])


def measure_sweeps(quick: bool) -> list[Record]:
    """Measure ``sweep.speedup_2_1``: the same grid of backtests over Spark on one core and on two, including Spark's
    start.
    """
    runs, requests, points = (1, 3_000, 2) if quick else (3, 100_000, 12)
    values = tuple(str(50 + 10 * place) for place in range(points))
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="bench-trading-") as folder:
        path = Path(folder) / "flow.csv"
        write_recording(path, requests)
        config = BacktestConfig(("market_maker",), (DataFile(path, "dbtoaster", SYMBOL),))
        sweep = Sweep(config, [("half_spread_percent", values)])
        for _ in range(runs):
            found = {cores: sweep.run(SparkConfig(master=f"local[{cores}]")) for cores in seconds}
            if found[1].points != found[2].points:
                raise RuntimeError("expected the same points of one core and of two, was a difference")
            for cores, result in found.items():
                seconds[cores].append(result.elapsed_s)
    speedups = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    grid = f"{points} backtests of {requests:,} requests"
    return [
        record("sweep.speedup_2_1", speedups, "", grid),
        record("sweep.1.seconds", seconds[1], "s"),
        record("sweep.2.seconds", seconds[2], "s"),
    ]
