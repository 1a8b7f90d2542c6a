# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""``python -m bench.trading.results_process``: a results service over synthetic views.

The view ``large`` has a given number of rows and never changes. The view ``touch`` has a row for each of ten symbols,
and all of these rows change with every version. The process prints its port as a line of JSON. After a line of standard
input with a number n it publishes n versions, one per turn of the reactor. Then it prints a line of JSON with the
seconds that the publication took. It ends at the end of standard input.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, Final

import numpy as np
import pyarrow as pa
from twisted.internet import reactor as _reactor
from twisted.internet.stdio import StandardIO
from twisted.protocols.basic import LineOnlyReceiver

from bench.processes import print_line
from deltabook.wire.access import Access
from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.engine.express import Update
from runtime.epochs import Footer
from runtime.service.http import ServiceParts, results_site
from runtime.service.interpreter import quicken
from runtime.service.results.cursors import CursorLimits, Cursors
from runtime.service.results.hub import Hub

__all__ = ["SYMBOLS", "main"]

SYMBOLS: Final = 10
_RELATION: Final = Relation(
    "r", (Column("symbol", "string"), Column("id", "int64"), Column("price", "int64"), Column("volume", "int64"))
)


def _program() -> Any:
    return compile_program(
        [
            NamedSelect("large", "SELECT id, symbol, price, volume FROM r"),
            NamedSelect("touch", "SELECT symbol, price, volume FROM r", lane="express"),
        ],
        [_RELATION],
    )


def _large(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    symbols = pa.array([f"S{place}" for place in range(100)]).take(pa.array(numbers % 100))
    return pa.table(
        {
            "id": numbers,
            "symbol": symbols,
            "price": 10_000 + numbers % 977,
            "volume": 1 + numbers % 89,
            "weight": np.ones(rows, np.int64),
        }
    )


def _touch(version: int, weight: int) -> pa.Table:
    names = [f"S{place}" for place in range(SYMBOLS)]
    return pa.table(
        {
            "symbol": names,
            "price": pa.array([10_000 + version % 50 + place for place in range(SYMBOLS)], pa.int64()),
            "volume": pa.array([1 + (version * 7 + place) % 500 for place in range(SYMBOLS)], pa.int64()),
            "weight": pa.array([weight] * SYMBOLS, pa.int64()),
        }
    )


class _Commands(LineOnlyReceiver):
    """Receiver of the numbers of versions to publish; the end of standard input stops the reactor."""

    delimiter = b"\n"

    def __init__(self, reactor: Any, hub: Hub) -> None:
        self._reactor, self._hub = reactor, hub
        self._version = 0

    def lineReceived(self, line: bytes) -> None:
        """Publish this many versions, one per turn."""
        self._turn(int(line), time.perf_counter())

    def connectionLost(self, reason: Any = None) -> None:
        """Stop the reactor."""
        del reason
        if self._reactor.running:
            self._reactor.stop()

    def _turn(self, left: int, begun_s: float) -> None:
        if not left:
            self.sendLine(json.dumps({"seconds": time.perf_counter() - begun_s}).encode())
            return
        self._version += 1
        tables = [_touch(self._version, 1)]
        if self._version > 1:
            tables.insert(0, _touch(self._version - 1, -1))
        changes = {"touch": pa.concat_tables(tables)}
        self._hub.publish_update(Update(self._version, self._version, {}, changes, {}, closes=True))
        self._reactor.callLater(0, self._turn, left - 1, begun_s)


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    options = parser.parse_args()
    reactor: Any = _reactor
    hub = Hub(_program(), time.time_ns)
    hub.publish(Footer(0, 1), {"large": _large(options.rows)}, {})
    hub.begin_lane(_program(), {}, {}, 0, {})
    cursors = Cursors(CursorLimits(), reactor.seconds, b"bench")
    parts = ServiceParts(hub=hub, status=dict, cursors=cursors, control=None, metrics=None)
    port = reactor.listenTCP(
        0, results_site(parts, reactor, Access(), None, now_ns=time.time_ns), interface="127.0.0.1"
    )
    print_line({"port": port.getHost().port})
    quicken()
    StandardIO(_Commands(reactor, hub), reactor=reactor)
    reactor.run()


if __name__ == "__main__":
    main()
