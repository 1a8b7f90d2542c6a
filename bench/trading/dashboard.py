"""The dashboard: frames and bytes per page, the processor time of a page, and the effect of stalled pages.

The set-up is a real exchange with its agents, a runtime of the express lane, a dashboard, and pages, which are sockets
of this process. A page requests a frame when it has read the previous frame, as a browser's page does when it has drawn
the previous frame. The stalled pages read nothing: half of them request a single frame, and the other half keep
requesting frames.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from bench.report import Record, record
from bench.trading.loop import deltabook, running, until_ready
from queries import query_path

__all__ = ["measure_dashboard"]

_VIEWS: Final = ("best_quote", "book_depth", "tape", "vwap_book", "vwap_trades")
_PULLING: Final = 40
_STALLED: Final = 10
_RATE: Final = "100"
"""Requests per second of the market."""


class _Run(msgspec.Struct, frozen=True):
    """Figures of some pages over some seconds."""

    frames_per_s: list[float]
    """Frames per second of each page that reads."""
    bytes_per_s: list[float]
    """Bytes per second of each page that reads."""
    cpu_share: float
    """Processor seconds of the dashboard per second."""


def measure_dashboard(quick: bool) -> list[Record]:
    """Measure ``dashboard.*`` with forty pages beside ten stalled ones; the reference is the forty pages alone."""
    seconds = 3.0 if quick else 15.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        market = deltabook("exchange", "--dir", str(folder / "exchange"), "--port", "0", "--rate", _RATE)
        with running("exchange", market, folder) as exchange:
            express = ",".join(str(query_path(view)) for view in _VIEWS)
            feed = f"127.0.0.1:{until_ready(exchange)['text']}"
            engine = deltabook("runtime", "--feed", feed, "--dir", str(folder / "runtime"), "--express", express)
            with running("runtime", engine, folder) as runtime:
                results = f"127.0.0.1:{until_ready(runtime)['http']}"
                with running("dashboard", deltabook("dashboard", "--results", results), folder) as board:
                    pid, port = board.ready.pid if board.ready else 0, until_ready(board)["http"]
                    runs = [asyncio.run(_pages(port, pid, *pages, seconds)) for pages in ((0, 0), (_PULLING, 0))]
                    beside = asyncio.run(_pages(port, pid, _PULLING, _STALLED, seconds))
    none, alone = runs
    reference = f"{_PULLING} pages alone"
    cost_ms = [1_000 * (run.cpu_share - none.cpu_share) / _PULLING for run in (beside, alone)]
    return [
        record("dashboard.frames_per_s", beside.frames_per_s, "1/s", reference, alone.frames_per_s),
        record("dashboard.page_bytes_per_s", beside.bytes_per_s, "B/s", reference, alone.bytes_per_s),
        record("dashboard.page_cpu_ms_per_s", cost_ms[:1], "ms/s", reference, cost_ms[1:]),
        record("dashboard.following_cpu_ms_per_s", [1_000 * none.cpu_share], "ms/s"),
    ]


async def _pages(port: int, pid: int, pulling: int, stalling: int, seconds: float) -> _Run:
    url = f"ws://127.0.0.1:{port}/v1/frames"
    sockets = [await connect(url, max_queue=1) for _ in range(pulling + stalling)]
    stalled = [
        asyncio.create_task(_stall(socket, keeps_requesting=bool(at % 2)))
        for at, socket in enumerate(sockets[pulling:])
    ]
    await asyncio.gather(*(_pull(socket, 1.0) for socket in sockets[:pulling]))
    cpu_s, begun = _cpu_s(pid), time.monotonic()
    found = await asyncio.gather(*(_pull(socket, seconds) for socket in sockets[:pulling]), asyncio.sleep(seconds))
    took_s = time.monotonic() - begun
    cpu_share = (_cpu_s(pid) - cpu_s) / took_s
    for task in stalled:
        task.cancel()
    for socket in sockets:
        socket.transport.abort()
    counted = [each for each in found if each is not None]
    return _Run([frames / took_s for frames, _ in counted], [size / took_s for _, size in counted], cpu_share)


async def _pull(socket: ClientConnection, seconds: float) -> tuple[int, int]:
    """Read frames for some seconds; return the number of frames and of bytes."""
    have, symbol, symbol_have, frames, size = 0, "", 0, 0, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await socket.send(json.dumps({"have": have, "symbol": symbol, "symbol_have": symbol_have}))
        data = await socket.recv()
        frame: dict[str, Any] = msgspec.json.decode(data)
        have, frames, size = frame["number"], frames + 1, size + len(data)
        if "symbol" in frame:
            symbol_have = have
        elif frame.get("symbols"):
            symbol = frame["symbols"]["rows"][0][1][0]
    return frames, size


async def _stall(socket: ClientConnection, *, keeps_requesting: bool) -> None:
    """Request a frame, or frame after frame, and read nothing."""
    socket.transport.pause_reading()
    await socket.send("{}")
    while keeps_requesting:
        await socket.send("{}")
        await asyncio.sleep(0.05)


def _cpu_s(pid: int) -> float:
    """Return the processor seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
