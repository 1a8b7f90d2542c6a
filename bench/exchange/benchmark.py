"""The benchmark of the exchange: book and peers, TCP, memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.exchange.book import INSTRUMENT, run_book
from bench.exchange.flow import make_flow
from bench.exchange.memory import measure_memory
from bench.exchange.peers import LISTED, run_peer, write_flow
from bench.exchange.tcp import measure_tcp
from bench.peers import install_peers
from bench.report import Record, record
from exchange_server.matching import FeedEncoder, MarketRules, Now, Silence
from exchange_server.nasdaq.itch import ItchEncoder

__all__ = ["books", "run"]

_LIVE: Final = 2_000


def run(quick: bool) -> list[Record]:
    """Run all parts, one after another."""
    return [*_measure_books(quick), *measure_tcp(quick), *measure_memory(quick)]


def _measure_books(quick: bool) -> list[Record]:
    """Measure our book and the peers in turns, so that other load of the machine affects all of them."""
    runs, requests = (1, 50_000) if quick else (7, 500_000)
    filling, flow, live = make_flow(requests, _LIVE)
    python, peers = install_peers(LISTED, "bench-peers")
    rates: dict[str, list[float]] = {name: [] for name in (*books(), *peers)}
    with tempfile.TemporaryDirectory(prefix="bench-exchange-") as folder:
        path = Path(folder) / "flow"
        write_flow(path, filling, flow)
        for _ in range(runs):
            for name, encoder in books().items():
                rates[name].append(requests / run_book(encoder(), filling, flow, live))
            for name in peers:
                peer = run_peer(python, name, path)
                rates[name].append(peer.requests / peer.seconds)
    fastest = max(
        (name for name in peers if name != "order-book"), key=lambda name: sorted(rates[name])[runs // 2], default=""
    )
    against = (f"{fastest} (PyPI), the fastest peer that matches", rates[fastest]) if fastest else ("", [])
    return [
        record("exchange.book.messages_per_s", rates["book"], "messages/s", *against),
        record("exchange.book_itch.messages_per_s", rates["book_itch"], "messages/s", *against),
        *(
            record(f"exchange.peer.{name}.messages_per_s", rates[name], "messages/s", "our book", rates["book"])
            for name in peers
        ),
    ]


def books() -> dict[str, Callable[[], FeedEncoder]]:
    """Return factories of the feed encoder for each form of our book that is timed."""
    return {"book": Silence, "book_itch": lambda: ItchEncoder(MarketRules((INSTRUMENT,)), Now())}
