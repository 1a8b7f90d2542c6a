"""A subscriber that resumes after the service was killed sees each epoch exactly once, in both lanes."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import Counter
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from deltabook.wire.results import Frame, FrameDecoder
from queries import query_path
from runtime.epochs import EpochLogReader
from tests.harness.moments import as_rows
from tests.integration._processes import Results, await_end_of_java, exchange, feed_position, runtime

pytestmark = [pytest.mark.process]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
VIEWS = [query_path(name) for name in ("book_depth", "vwap_book", "best_quote", "broker_volume")]

TRACE = query_path("book_depth").with_name("trace-5000.csv")
REPLAY = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--speed", "max"]

Rows = Counter[tuple[Any, ...]]


def tell(line: str) -> None:
    """Say how it goes, for the log."""
    sys.stderr.write(f"{line}\n")


class Follower:
    """Adds up what a subscriber by epochs is told, over any number of connections; a thread while it reads."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.at: dict[str, int] = {}
        self.rows: dict[str, Rows] = {name: Counter() for name in names}
        self.seen: dict[str, list[tuple[int, int, dict[tuple[Any, ...], int]]]] = {name: [] for name in names}
        """Every span of a view, and what was added (removed: below 0) in it."""
        self.snapshots: list[str] = []
        self.failure: BaseException | None = None
        self._run = ""
        self._thread: threading.Thread | None = None

    def follow(self, port: int) -> None:
        """Subscribe, and read until the connection is gone."""
        self._thread = threading.Thread(target=self._read, args=(port,), daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of the connection; raises what went wrong."""
        if self._thread is not None:
            self._thread.join(60)
            assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    def _read(self, port: int) -> None:
        start = ",".join(f"{name}:{epoch}" for name, epoch in self.at.items())
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            path = f"/v1/changes?views={','.join(self.names)}&by=epoch&from={start}&run={self._run}"
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            self._run = answer.headers["deltabook-run"]
            decoder = FrameDecoder()
            while data := answer.read1(1 << 16):
                for frame in decoder.feed(data):
                    self._take(frame)
        except (OSError, HTTPException):
            pass  # it was killed
        except BaseException as error:  # noqa: BLE001 (raised where it is waited for)
            self.failure = error
        finally:
            connection.close()

    def _take(self, frame: Frame) -> None:
        head, name = frame.header, frame.header.view
        if head.kind == "heartbeat":
            return
        assert head.kind in {"snapshot", "changes", "progress"}, head
        if head.kind == "snapshot":
            self.snapshots.append(f"{name}: {head.reason}")
            assert frame.rows is not None
            self.rows[name] = as_rows(frame.rows)
        else:
            assert head.from_epoch == self.at[name], f"{name}: a span from {head.from_epoch}, was at {self.at[name]}"
            assert head.to_epoch > head.from_epoch, head
            added = {} if frame.rows is None else weights(frame.rows)
            for row, weight in added.items():
                self.rows[name][row] += weight
                assert self.rows[name][row] >= 0, f"{name} at {head.to_epoch}: {row} is removed and not there"
            self.seen[name].append((head.from_epoch, head.to_epoch, added))
        self.at[name] = head.to_epoch


def weights(table: Any) -> dict[tuple[Any, ...], int]:
    """Row → what is added up of it."""
    *columns, held = (column.to_pylist() for column in table.columns)
    found: Rows = Counter()
    for *row, weight in zip(*columns, held, strict=True):
        found[tuple(v if v is None or isinstance(v, str) else int(v) for v in row)] += weight
    return {row: weight for row, weight in found.items() if weight}


def check_spans(follower: Follower, directory: Path, express: list[str]) -> int:
    """What was told of every span is what the epochs in it hold; gives how many spans had changes."""
    log, changed = EpochLogReader(directory / "epochs"), 0
    for name in express:
        for begin, end, added in follower.seen[name]:
            held: Rows = Counter()
            for epoch in range(begin + 1, end + 1):
                if (table := log.read(epoch).rows(f"view/{name}")) is not None:
                    for row, weight in weights(table).items():
                        held[row] += weight
            assert added == {row: weight for row, weight in held.items() if weight}, f"{name} ({begin}, {end}]"
            changed += bool(added)
    return changed


def resume(
    directory: Path, chance: random.Random, kills: int, *, spark: list[Path], express: list[Path], seconds: float
) -> Follower:
    """Kill the runtime so often below a subscriber; afterwards it has been told everything exactly once."""
    held = directory / "runtime"
    options = ["--express", ",".join(map(str, express)), "--epoch-messages", "20", "--snapshot-epochs", "0"]
    names = [view.stem for view in (*spark, *express)]
    follower = Follower(names)
    with exchange(directory / "exchange", *REPLAY, "--start-on", "1") as market:
        port = market.ready().ports["text"]
        for number in range(kills):
            with runtime(held, port, spark, *options) as engine:
                follower.follow(engine.ready().ports["http"])
                engine.runs_for(chance.uniform(0.1, seconds))
                engine.kill()
            follower.join()
            await_end_of_java(held)
            tell(f"kill {number}: {follower.at}")
        with runtime(held, port, spark, *options) as engine:
            market.figures(lambda _: "ended at line" in market.errors(), "the end of the replay")
            newest = feed_position(port)
            engine.wait_for("messages", newest)
            results = Results(engine)
            rows = results.covering([view.stem for view in express], newest).rows
            if spark:
                rows |= results.covering([view.stem for view in spark], newest).rows
            follower.follow(engine.ready().ports["http"])
            goal = engine.figures()["epoch"]
            engine.wait_for_file(lambda: min(follower.at.get(name, 0) for name in names) >= goal)
            engine.stop()
        follower.join()
    assert {name: +rows for name, rows in follower.rows.items()} == rows
    assert sorted(follower.snapshots) == sorted(f"{name}: " for name in names), "each view began once"
    check_spans(follower, held, [view.stem for view in express])
    return follower


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_express_lane_sends_each_epoch_once_over_kills(tmp_path: Path) -> None:
    tell(f"DELTABOOK_TEST_SEED={SEED}")
    follower = resume(tmp_path, random.Random(SEED), 2, spark=[], express=VIEWS, seconds=1.0)
    assert any(added for spans in follower.seen.values() for *_, added in spans)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_both_lanes_tell_each_epoch_exactly_once_over_kills(tmp_path: Path) -> None:
    tell(f"DELTABOOK_TEST_SEED={SEED}")
    follower = resume(tmp_path, random.Random(SEED), 2, spark=VIEWS[:2], express=VIEWS[2:], seconds=4.0)
    assert any(added for spans in follower.seen.values() for *_, added in spans)
