"""Run of one case as a backtest."""

from __future__ import annotations

import os
from pathlib import Path

from bench.strategies.cases import LATENCY, SNAPSHOT_RECORDS, Case, Recording
from deltabook.backtest import Backtest, BacktestConfig, DataFile, Result
from deltabook.demo.captures import capture_file
from queries import QUERIES_DIR

__all__ = ["play", "trace_file"]

_QUICK_RECORDS = 30_000


def trace_file() -> Path:
    """Return the path of the trace in DBToaster's format in the repository; it is synthetic."""
    return QUERIES_DIR / "trace-5000.csv"


def play(case: Case, recording: Recording, *, quick: bool = False) -> Result:
    """Run a case on the whole recording, or with ``quick`` on its beginning; raise `RuntimeError` if it ends early."""
    if recording == "capture":
        data = DataFile(capture_file(os.environ), "bitstamp", "BTCUSD")
        warm_up = SNAPSHOT_RECORDS
    else:
        data, warm_up = DataFile(trace_file(), "dbtoaster", "TRACE"), 0
    config = BacktestConfig(
        (case.strategy,),
        data=(data,),
        parameters=tuple(f"{case.strategy}.{each}" for each in case.parameters),
        latency=LATENCY,
        warm_up_records=warm_up,
        limit_records=_QUICK_RECORDS if quick else 0,
    )
    result = Backtest(config).run()
    failure = result.failure or result.strategies[0].failure
    if failure:
        raise RuntimeError(f"expected {case.name} to play to its end, was: {failure}")
    return result
