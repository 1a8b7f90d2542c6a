"""Time from the start of a runtime's process until Spark has published the first version of its views."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from bench.report import Record, record
from bench.trading.loop import deltabook, running
from bench.trading.ticktotrade import lane_options
from deltabook.wire.symbols import Instrument
from runtime.spark.java import QUICK_JAVA

__all__ = ["measure_first_answer"]

_NO_ARCHIVE: Final = ["--spark-conf", f"spark.driver.defaultJavaOptions={QUICK_JAVA}"]


def measure_first_answer(quick: bool) -> list[Record]:
    """Measure ``spark.first_answer_s``: the demo's views in a new directory; the reference has no archive of
    classes.
    """
    with_archive, without = [], []
    for _ in range(1 if quick else 5):
        with_archive.append(_seconds([]))
        without.append(_seconds(_NO_ARCHIVE))
    return [record("spark.first_answer_s", with_archive, "s", "without an archive of Spark's classes", without)]


def _seconds(options: list[str]) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-trading-") as place, ExitStack() as ends:
        folder = Path(place)
        (folder / "agents.json").write_bytes(msgspec.json.encode([Instrument("ALFA")]))
        flow = ["--agents", str(folder / "agents.json")]
        command = deltabook("exchange", "run", "--dir", str(folder / "exchange"), "--port", "0", *flow)
        exchange = ends.enter_context(running("exchange", command, folder))
        assert exchange.ready is not None
        feed = ["--feed", f"127.0.0.1:{exchange.ready.ports['text']}"]
        where = ["--dir", str(folder / "runtime"), "--http-port", "0", *lane_options("express"), *options]
        begun_s = time.monotonic()
        ends.enter_context(running("runtime", deltabook("runtime", *feed, *where), folder))
        return time.monotonic() - begun_s
