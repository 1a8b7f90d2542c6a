"""Peers of a dashboard that say what they are told to: a runtime, strategies, and an exchange's admin port."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pyarrow as pa

from deltabook.wire import admin
from deltabook.wire.results import FrameHeader, encode_frame
from deltabook.wire.strategies import FillLine, Fills, OrderLine, Orders, Strategies, StrategyLine
from deltabook.wire.symbols import Instrument

__all__ = ["COLUMNS", "Peers"]

COLUMNS: Mapping[str, pa.Schema] = {
    "best_quote": pa.schema(
        [("symbol", pa.string())]
        + [(name, pa.int64()) for name in ("bid_price", "bid_volume", "ask_price", "ask_volume")]
    ),
    "book_depth": pa.schema(
        [("symbol", pa.string()), ("side", pa.string())]
        + [(name, pa.int64()) for name in ("price", "volume", "orders")]
    ),
    "tape": pa.schema(
        [("symbol", pa.string())] + [(name, pa.int64()) for name in ("match_id", "t", "price", "volume")]
    ),
    "vwap_book": pa.schema(
        [("symbol", pa.string()), ("side", pa.string()), ("price_volume", pa.int64()), ("volume", pa.int64())]
    ),
    **dict.fromkeys(
        ("bars_1s", "bars_1m"),
        pa.schema(
            [("symbol", pa.string())]
            + [(name, pa.int64()) for name in ("t", "open", "high", "low", "close", "volume", "trades")]
        ),
    ),
    "vwap_trades": pa.schema(
        [("symbol", pa.string())] + [(name, pa.int64()) for name in ("price_volume", "volume", "trades")]
    ),
}
"""View → its columns."""

_Row = tuple[Any, ...]


class Peers:
    """All three on one port of this machine; what they say may be changed while they run."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {"epoch": 7, "express_step": 41, "rows_per_s": 1234.4, "messages": 5_000}
        self.views: dict[str, dict[str, Any]] = {}
        self.rows: dict[str, list[_Row]] = {}
        self.explained = "view made up\n  maps:\n    map 0 over bids\n"
        self.strategies: tuple[StrategyLine, ...] | None = None
        """None: nobody answers."""
        self.orders: tuple[OrderLine, ...] = ()
        self.fills: tuple[FillLine, ...] = ()
        self.instruments: dict[str, tuple[Instrument, str]] | None = None
        """Symbol → instrument and phase; None: nobody answers."""
        self.begun_s = time.monotonic() - 100
        """When all of them say that they began."""
        self.is_down = False
        """Whether they end every connection."""
        self.is_silent = False
        """Whether the runtime's changes have stopped."""
        self.step = 1
        self._news = threading.Condition()
        self._version = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._answering())
        self._server.daemon_threads = True
        self._is_closed = False
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """HOST:PORT of all of them."""
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def up_s(self) -> float:
        """Seconds since they began."""
        return time.monotonic() - self.begun_s

    def close(self) -> None:
        """Go away."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def keep(self, view: str, rows: Sequence[_Row], **more: Any) -> None:
        """Say these rows of a view from now on."""
        schema = COLUMNS.get(view)
        columns = [{"name": each.name, "type": str(each.type)} for each in schema] if schema else [{"name": "n"}]
        with self._news:
            self.step += 1
            self.rows[view] = list(rows)
            self.views[view] = {
                "name": view,
                "class": "linear",
                "lane": "express",
                "reason": "rows over one relation",
                "columns": columns,
                "rows": len(rows),
                "epoch": 7,
                "step": self.step,
                "since": 1,
                "failed": None,
                "sql": f"SELECT * FROM the_{view}",
                **more,
            }
            self._version += 1
            self._news.notify_all()

    def drop(self, view: str) -> None:
        """Keep a view no longer."""
        with self._news:
            del self.views[view], self.rows[view]
            self._version += 1
            self._news.notify_all()

    def _changes(self, names: list[str], write: Any) -> None:
        """A snapshot of each view, then what changes of it, and heartbeats in between."""
        seen = -1
        sent: dict[str, Counter[_Row]] = {}
        while not (self._is_closed or self.is_down):
            with self._news:
                frames = [encode_frame(FrameHeader("heartbeat", ""))]
                if self._version != seen:
                    seen = self._version
                    frames += [self._frame(name, sent) for name in names if name in self.rows]
                is_silent = self.is_silent
            if not is_silent:
                write(b"".join(frames))
            with self._news:
                self._news.wait(0.5)

    def _frame(self, view: str, sent: dict[str, Counter[_Row]]) -> bytes:
        """The next frame of a view for somebody who was sent some rows."""
        kind: Any = "changes" if view in sent else "snapshot"
        change = Counter(self.rows[view])
        change.subtract(sent.get(view, {}))
        sent[view] = Counter(self.rows[view])
        rows = [row for row, weight in change.items() if weight]
        schema = COLUMNS[view]
        arrays = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
        weights = pa.array([change[row] for row in rows], pa.int64())
        table = pa.table([*arrays, weights], names=[*schema.names, "weight"])
        return encode_frame(FrameHeader(kind, view, 0, 7, step=self.step), table)

    def _answer(self, path: str) -> object | None:
        """What a GET is answered with, None where there is nothing."""
        if path == "/v1/status":
            return {"up_s": self.up_s, **self.status}
        if path == "/v1/statistics" and self.instruments is None:
            return {"up_s": self.up_s}
        if path == "/v1/views":
            return list(self.views.values())
        if path.startswith("/v1/views/"):
            name = path.removeprefix("/v1/views/").partition("/")[0]
            if name not in self.views:
                return None
            return self.explained if path.endswith("/explain") else None
        if path == "/v1/strategies" and self.strategies is not None:
            return Strategies(self.up_s, 1, "run", True, len(self.fills), self.strategies)
        if path == "/v1/fills":
            return Fills("run", self.fills, len(self.fills))
        if path == "/v1/orders":
            return Orders(self.orders)
        return self._of_exchange(path)

    def _of_exchange(self, path: str) -> object | None:
        if self.instruments is None:
            return None
        if path == admin.STATISTICS_PATH:
            lines = [
                admin.SymbolLine(symbol, at, phase, None, 0, None, 0, None, 0, instrument.tick_size)  # type: ignore[arg-type]
                for at, (symbol, (instrument, phase)) in enumerate(self.instruments.items(), 1)
            ]
            return admin.Statistics(1, 0, 0, 0, 0, 0, {}, tuple(lines), len(lines))
        symbol = path.removeprefix(admin.BOOK_PATH)
        if symbol in self.instruments:
            instrument, phase = self.instruments[symbol]
            return admin.Book(symbol, phase, 1, instrument.tick_size, instrument.lot_size, None, (), ())  # type: ignore[arg-type]
        return None

    def _answering(self) -> type[BaseHTTPRequestHandler]:
        peers = self

        class Answering(BaseHTTPRequestHandler):
            """One connection."""

            def do_GET(self) -> None:
                asked = urlsplit(self.path)
                if peers.is_down:
                    self.close_connection = True
                    return
                if asked.path == "/v1/changes":
                    self.send_response(200)
                    self.end_headers()
                    try:
                        peers._changes(parse_qs(asked.query)["views"][0].split(","), self.wfile.write)
                    except OSError:
                        return
                    return
                found = peers._answer(asked.path)
                body = (
                    b"" if found is None else found.encode() if isinstance(found, str) else msgspec.json.encode(found)
                )
                self.send_response(200 if found is not None else 404)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base's
                del format, args

        return Answering
