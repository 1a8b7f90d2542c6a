"""Readers come and go while the runtime is killed at any moment: in the end everything was read once, by both lanes."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from queries import query_path
from tests.integration._processes import DEADLINE_S, Results, Running, await_end_of_java, exchange, feed_position

pytestmark = [pytest.mark.process, pytest.mark.slow]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
TRACE = query_path("book_depth").with_name("trace-5000.csv")
REPLAY = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--speed", "max"]
ROWS = 30_000
COLUMNS = [{"name": "t", "type": "int64"}, {"name": "symbol", "type": "string"}, {"name": "price", "type": "int64"}]
SUMS = "SELECT symbol, COUNT(*) AS n, SUM(volume) AS v, SUM(price * volume) AS m FROM bids GROUP BY symbol"
TOTALS = "SELECT symbol, COUNT(*) AS n, SUM(price) AS total FROM {} GROUP BY symbol"


class Service:
    """Readers and views of a runtime, over HTTP; None where it did not answer."""

    def __init__(self, process: Running) -> None:
        self._url = f"http://127.0.0.1:{process.ready().ports['http']}/v1"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/{path}", data=data, method=method)
        if data is not None:
            request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None
        except OSError:
            return None

    def states(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.ask("GET", "readers")["readers"]}


def csv_reader(name: str) -> dict[str, Any]:
    connection = {"kind": "file", "path": "prices.csv"}
    return {"name": name, "connection": connection, "columns": COLUMNS}


def feed_reader(name: str, port: int) -> dict[str, Any]:
    return {"name": name, "adaptor": "orderbook", "connection": {"kind": "socket", "host": "127.0.0.1", "port": port}}


def prices(directory: Path) -> Counter[tuple[Any, ...]]:
    """Write the file; what each symbol adds up to."""
    directory.mkdir()
    lines: list[str] = []
    found: dict[str, tuple[int, int]] = {}
    for n in range(ROWS):
        symbol = "ABC"[n % 3]
        lines.append(f"{n},{symbol},{n * 7 % 1009}\n")
        count, total = found.get(symbol, (0, 0))
        found[symbol] = count + 1, total + n * 7 % 1009
    (directory / "prices.csv").write_text("".join(lines))
    return Counter({(symbol, *sums): 1 for symbol, sums in found.items()})


def started(directory: Path, port: int, *options: str) -> Running:
    where = ["--feed", f"127.0.0.1:{port}", "--dir", str(directory / "run"), "--reader-dir", str(directory / "files")]
    sizes = ["--status-interval", "0.1", "--epoch-ms", "20", "--epoch-messages", "500", "--snapshot-epochs", "20"]
    return Running("runtime", *where, *sizes, *options)


def rows_of(service: Service, name: str) -> Counter[tuple[Any, ...]]:
    found = service.ask("GET", f"views/{name}?integers=number")
    return Counter(map(tuple, found["rows"]))


@pytest.mark.timeout(300)
def test_readers_come_and_go_below_kills(tmp_path: Path) -> None:
    sys.stderr.write(f"DELTABOOK_TEST_SEED={SEED}\n")
    chance = random.Random(SEED)
    truth = prices(tmp_path / "files")
    (tmp_path / "sums.sql").write_text(SUMS)
    with exchange(tmp_path / "a", *REPLAY, "--start-on", "1") as one, exchange(tmp_path / "b", *REPLAY) as other:
        ports = one.ready().ports["text"], other.ready().ports["text"]
        wanted = {"first": csv_reader("first"), "second": csv_reader("second"), "lse": feed_reader("lse", ports[1])}
        dropped = chance.choice(["first", "second"])
        for number in range(6):
            options = ["--express", str(tmp_path / "sums.sql")] if number == 0 else []
            with started(tmp_path, ports[0], *options, "--no-spark") as engine:
                service = Service(engine)
                there = service.states()
                for name, reader in wanted.items():
                    if name not in there:
                        threading.Thread(target=service.ask, args=("POST", "readers", reader), daemon=True).start()
                if number in (2, 3) and there.get(dropped) not in (None, "leaving"):
                    path = f"readers/{dropped}"
                    threading.Thread(target=service.ask, args=("DELETE", path), daemon=True).start()
                engine.runs_for(chance.random() * 0.4)
                engine.kill()
        with started(tmp_path, ports[0], "--no-spark") as engine:
            service, newest = Service(engine), feed_position(ports[0])
            while "leaving" in (states := service.states()).values():
                engine.runs_for(0.05)
            for name, reader in wanted.items():
                if name not in states:
                    assert service.ask("POST", "readers", reader)["reader"]["state"] != "failed"
            service.ask("POST", "views", {"views": [
                {"name": f"{name}_totals", "sql": TOTALS.format(name), "lane": "express", "readers": [name]}
                for name in ("first", "second")
            ]})  # fmt: skip
            engine.wait_for("feed_sequence", newest)
            while any(
                each["state"] != "ended" and each["sequence"] < newest
                for each in service.ask("GET", "readers")["readers"]
            ):
                engine.runs_for(0.05)
            engine.runs_for(0.2)
            sums = {row[0]: row[1:] for row in rows_of(service, "sums")}
            assert sums.keys() == {"TRACE", "lse:TRACE"}
            assert sums["TRACE"] == sums["lse:TRACE"], "both exchanges have played the same"
            for name in ("first", "second"):
                assert rows_of(service, f"{name}_totals") == truth, name
            service.ask("DELETE", "readers/lse")
            engine.runs_for(0.2)
            assert {row[0] for row in rows_of(service, "sums")} == {"TRACE"}


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_both_lanes_use_what_a_reader_brings(tmp_path: Path) -> None:
    truth = prices(tmp_path / "files")
    (tmp_path / "sums.sql").write_text(SUMS)
    with exchange(tmp_path / "a", *REPLAY, "--start-on", "1") as market:
        port = market.ready().ports["text"]
        for number in range(2):
            options = ["--views", str(tmp_path / "sums.sql")] if number == 0 else []
            with started(tmp_path, port, *options) as engine:
                service = Service(engine)
                if number == 0:
                    service.ask("POST", "readers", csv_reader("prices"))
                    sql = TOTALS.format("prices")
                    lanes: tuple[str, ...] = ("express", "spark")
                    views = [{"name": f"on_{lane}", "sql": sql, "lane": lane, "readers": ["prices"]} for lane in lanes]
                    service.ask("POST", "views", {"views": views})
                while service.states()["prices"] != "ended":
                    engine.runs_for(0.05)
                engine.wait_for("published_epoch", int(engine.figures()["epoch"]))
                assert Results(engine).newest(["on_spark"]).rows["on_spark"] == truth
                assert Results(engine).newest(["on_express"]).rows["on_express"] == truth
                engine.kill()
            await_end_of_java(tmp_path / "run")
