"""Memory of a live order, and the growth of the exchange's memory over a long day."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.report import Record, record

__all__ = ["measure_memory"]

_TIMEOUT_S: Final = 3_600


class Sizes(msgspec.Struct, frozen=True):
    """Output of `memory_process`."""

    order_bytes: float
    """Resident memory of a live order, its account's entry included."""
    day_bytes: list[int]
    """Resident memory at ten times of the day, the first time after a tenth of the day's messages."""
    day_messages: int
    """Number of feed messages of the day."""
    day_seconds: float
    """Duration of the day's processing in seconds."""


def measure_memory(quick: bool) -> list[Record]:
    """Measure ``exchange.memory.*``, in separate processes."""
    runs, orders, messages = (1, 50_000, 200_000) if quick else (3, 500_000, 10_000_000)
    sizes = [_run(orders, messages if number == 0 else 0) for number in range(runs)]
    day = sizes[0].day_bytes
    return [
        record("exchange.memory.order_bytes", [s.order_bytes for s in sizes], "bytes", f"{orders:,} live orders"),
        record("exchange.day.growth", [max(day[1:]) / day[0]], "ratio", f"{sizes[0].day_messages:,} feed messages"),
        record("exchange.day.messages_per_s", [sizes[0].day_messages / sizes[0].day_seconds], "messages/s"),
    ]


def _run(orders: int, messages: int) -> Sizes:
    command = [sys.executable, "-m", "bench.exchange.memory_process", str(orders), str(messages)]
    done = subprocess.run(
        command, capture_output=True, check=True, timeout=_TIMEOUT_S, cwd=Path(__file__).resolve().parents[2]
    )
    return msgspec.json.decode(done.stdout, type=Sizes)
