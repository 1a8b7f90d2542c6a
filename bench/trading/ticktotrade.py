"""Tick to trade: from a message on the feed until the order that answers it is executed, in the running loop.

The loop is that of the demo: agents, an ITCH feed into the runtime, the runtime's views in their lanes, and two
strategies that trade. A third strategy answers bids for a symbol that nobody else trades (`bench.trading.probe`). This
process bids for that symbol repeatedly, and reads the text feed. The measured time begins when the message of the bid
arrives and ends when the message of its execution arrives. This time includes the matching of the answer (about 0.1
ms), but not the way of the bid to the exchange. The pauses between bids are random with a seed, and end whether or not
the feed is silent, so that bids synchronise neither with the epochs nor with the bursts of the agents.
"""

from __future__ import annotations

import random
import select
import socket
import tempfile
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from bench.report import Record, record
from bench.trading.budget import StageTimes, budget_records, read_stages, scrape
from bench.trading.loop import deltabook, running
from deltabook.demo.plan import VIEWS
from deltabook.wire.symbols import Instrument
from deltabook.wire.text import (
    InteractiveLogin,
    PassiveLogin,
    Request,
    encode_login,
    encode_request,
    parse_feed_message,
)
from queries import query_path

__all__ = ["Bids", "lane_options", "measure_tick_to_trade"]

_SYMBOL: Final = "PROBE"
_AGENTS: Final = ("ALFA", "BETA", "GAMA")
_BROKER: Final = 77
_PRICE_TICKS: Final = 10_000
_VOLUME_LOTS: Final = 10
_ANSWER_S: Final = 30.0
_PROBE: Final = Path(__file__).parent / "probe.py"


class Bids:
    """Sender of bids that measures the latency of each bid; a bid is sent after the execution of the previous bid."""

    def __init__(self, port: int, seed: int) -> None:
        """Connect; ``port`` is the exchange's text port."""
        self._random = random.Random(seed)
        self._orders = socket.create_connection(("127.0.0.1", port), _ANSWER_S)
        self._orders.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._orders.sendall(encode_login(InteractiveLogin(_BROKER)))
        self._answers = self._orders.makefile("rb")
        self._answers.readline()
        feed = socket.create_connection(("127.0.0.1", port), _ANSWER_S)
        feed.sendall(encode_login(PassiveLogin()))
        self._feed = feed
        self._partial_line = b""
        self._lines: deque[tuple[bytes, float]] = deque()
        self._wait_for(lambda line: True)
        self._sent = 0

    def latencies_ms(self, count: int, most_pause_s: float) -> list[float]:
        """Return the latencies of ``count`` bids; raise `RuntimeError` if one is not answered."""
        return [self._bid(self._random.uniform(0.2, 1.0) * most_pause_s) for _ in range(count)]

    def close(self) -> None:
        """Close the connections."""
        self._orders.close()
        self._feed.close()

    def _bid(self, pause_s: float) -> float:
        self._pause(pause_s)
        self._sent += 1
        request = Request(self._sent, 0, _BROKER, "B", _VOLUME_LOTS, _PRICE_TICKS + self._sent % 50, _SYMBOL)
        self._orders.sendall(encode_request(request))
        mine = _SYMBOL.encode()
        bid = self._wait_for(lambda line: line.endswith(mine) and _is_bid(line))
        order_id = parse_feed_message(bid[0]).order_id
        answer = self._wait_for(lambda line: line.endswith(mine) and _executes(line, order_id))
        return (answer[1] - bid[1]) * 1000

    def _pause(self, seconds: float) -> None:
        """Read the feed during a pause, because an exchange disconnects a client that does not read; end at a
        time independent of the feed.
        """
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            self._receive(left_s)

    def _wait_for(self, is_wanted: Callable[[bytes], bool]) -> tuple[bytes, float]:
        """Return the next wanted line and the time of its arrival; raise `RuntimeError` if none arrives in time."""
        deadline_s = time.monotonic() + _ANSWER_S
        while (left_s := deadline_s - time.monotonic()) > 0:
            while self._lines:
                line, now_s = self._lines.popleft()
                if is_wanted(line):
                    return line, now_s
            self._receive(left_s)
        raise RuntimeError(f"expected an answer to a bid within {_ANSWER_S:g} s, was none")

    def _receive(self, timeout_s: float) -> None:
        """Read what the feed sends within some seconds."""
        if not select.select([self._feed], [], [], timeout_s)[0]:
            return
        data, now_s = self._feed.recv(1 << 18), time.monotonic()
        if not data:
            raise RuntimeError("expected further messages of the feed, was its end")
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        self._lines.extend((line, now_s) for line in lines)


def _is_bid(line: bytes) -> bool:
    message = parse_feed_message(line)
    return message.action == "B" and message.broker_id == _BROKER


def _executes(line: bytes, order_id: int) -> bool:
    message = parse_feed_message(line)
    return message.action in ("E", "F") and message.order_id == order_id


def measure_tick_to_trade(quick: bool) -> list[Record]:
    """Measure ``trading.tick_to_trade.LANE.p50_ms`` and ``.p99_ms``, medians of the percentiles of each run, and
    ``trading.budget.STAGE``, the time of each stage in the express lane.
    """
    runs, pause_s = (1, 0.05) if quick else (3, 0.1)
    found: list[Record] = []
    for lane, most in (("express", 300), ("spark", 60)):
        count = 20 if quick else most
        p50, p99 = [], []
        budgets: list[dict[str, StageTimes]] = []
        for run in range(runs):
            answered, budget = _run(lane, count, pause_s, seed=run)
            latencies = sorted(answered)
            budgets.append(budget)
            p50.append(latencies[len(latencies) // 2])
            p99.append(latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)])
        where = f"{count} bids a run, the demo's flow, views and strategies"
        found.append(record(f"trading.tick_to_trade.{lane}.p50_ms", p50, "ms", where))
        found.append(record(f"trading.tick_to_trade.{lane}.p99_ms", p99, "ms", where))
        if lane == "express":
            found += budget_records(budgets)
    return found


def lane_options(lane: str) -> list[str]:
    """Return the options for the demo's views: in the express lane with Spark, as in the demo, or in Spark alone."""
    views = ",".join(str(query_path(view)) for view in VIEWS)
    return ["--express", views, "--spark"] if lane == "express" else ["--views", views]


def _await_spark(results: str) -> None:
    """Wait until Spark has joined the runtime that serves results at this address; return at once if Spark is off."""
    while True:
        with urllib.request.urlopen(f"http://{results}/v1/status", timeout=60) as answer:
            status = msgspec.json.decode(answer.read())
        if status["spark"] != "starting":
            return
        time.sleep(0.5)


def _run(lane: str, count: int, pause_s: float, seed: int) -> tuple[list[float], dict[str, StageTimes]]:
    """Return the milliseconds from bid to answer, and the time of each stage meanwhile, other orders included."""
    with tempfile.TemporaryDirectory(prefix="bench-trading-") as place, ExitStack() as ends:
        folder = Path(place)
        agents = [Instrument(symbol) for symbol in _AGENTS]
        for name, listed in (("agents", agents), ("instruments", [*agents, Instrument(_SYMBOL)])):
            (folder / f"{name}.json").write_bytes(msgspec.json.encode(listed))
        start = ["--start-on", "1", "--start-on-brokers", "3", "--itch-port", "0", "--port", "0", "--admin-port", "0"]
        flow = ["--agents", str(folder / "agents.json"), "--instruments", str(folder / "instruments.json")]
        command = deltabook("exchange", "run", "--dir", str(folder / "exchange"), *start, *flow)
        exchange = ends.enter_context(running("exchange", command, folder))
        assert exchange.ready is not None
        ports = exchange.ready.ports
        feed = ["--feed", f"127.0.0.1:{ports['itch']}", "--feed-protocol", "itch", "--feed-tick", "0.01"]
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        where = ["--feed-day", day, "--dir", str(folder / "runtime"), "--http-port", "0"]
        runtime = ends.enter_context(
            running("runtime", deltabook("runtime", *feed, *where, *lane_options(lane)), folder)
        )
        assert runtime.ready is not None
        results, orders = f"127.0.0.1:{runtime.ready.ports['http']}", f"127.0.0.1:{ports['text']}"
        limits = ["--param", "probe.risk.max_position_lots=1000000000", "--param", "probe.risk.orders_per_s=1000"]
        strategies = ["sobi", "market_maker", str(_PROBE)]
        others = [f"--param={name}.symbols={','.join(_AGENTS)}" for name in strategies[:2]]
        ends_of = ["--results", results, "--orders", orders, "--dir", str(folder / "algo"), "--http-port", "0"]
        algo = ends.enter_context(
            running("algo", deltabook("algo", "run", *strategies, *ends_of, *limits, *others), folder)
        )
        assert algo.ready is not None
        monitored = {
            "exchange": f"127.0.0.1:{ports['admin']}",
            "runtime": results,
            "algo": f"127.0.0.1:{algo.ready.ports['http']}",
        }
        bids = Bids(ports["text"], seed)
        ends.callback(bids.close)
        _await_spark(results)
        bids.latencies_ms(max(5, count // 20), pause_s)  # warm-up
        before = read_stages({process: scrape(address) for process, address in monitored.items()})
        latencies = bids.latencies_ms(count, pause_s)
        after = read_stages({process: scrape(address) for process, address in monitored.items()})
        return latencies, {name: after[name].since(before[name]) for name in after}
