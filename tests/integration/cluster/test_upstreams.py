"""Two runtimes feed a third while each of them is killed at any moment: in the end every message was counted once.

The truth is a replay of both exchanges' feeds, one message at a time, in plain Python.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration._oracle import Replayed
from tests.integration._processes import Results, Running, await_end_of_java, exchange, feed, feed_position

pytestmark = [pytest.mark.process, pytest.mark.slow]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
VIEWS = {"bid_sums": "B", "ask_sums": "S"}
SUMS = "SELECT symbol, COUNT(*) AS n, SUM(volume) AS v, SUM(price * volume) AS m FROM {} GROUP BY symbol"
SIZES = ["--status-interval", "0.1", "--epoch-ms", "20", "--snapshot-epochs", "20", "--retain-epochs", "10"]


class Tree:
    """A runtime for each of two exchanges, and one that has both as upstreams."""

    def __init__(self, directory: Path, ports: dict[str, int], begin: list[str]) -> None:
        self.directory, self.ports = directory, ports
        self._begin = begin
        self.running: dict[str, Running] = {}

    def start(self, name: str) -> Running:
        """One of them, wherever it ended."""
        where = self.directory / name
        if name == "main":
            above = [part for up in self.ports for part in ("--upstream", f"{up}={self.directory / up}")]
            options = [*above, "--upstream-symbols", "prefixed", *([] if where.exists() else self._begin)]
        else:
            options = ["--feed", f"127.0.0.1:{self.ports[name]}", "--system", str(self.directory / "main")]
        self.running[name] = Running("runtime", *options, "--dir", str(where), *SIZES)
        return self.running[name]

    def kill(self, name: str) -> None:
        """With no chance to end well."""
        self.running.pop(name).kill()

    def settled(self) -> Results:
        """The results of main once everything that there is has come to it."""
        newest = {name: feed_position(port) for name, port in self.ports.items()}
        for name, sequence in newest.items():
            self.running[name].wait_for("feed_sequence", sequence)
            self.running[name].runs_for(0.5)
        main = self.running["main"]
        results = Results(main)
        logs = {name: max(map(int, self._epochs(name))) for name in self.ports}
        while any(results.get("status")["upstreams"][name]["epoch"] < epoch for name, epoch in logs.items()):
            main.runs_for(0.1)
        main.wait_for("published_epoch", results.get("status")["epoch"])
        return results

    def _epochs(self, name: str) -> list[str]:
        return [path.stem for path in (self.directory / name / "epochs").glob("[0-9]*.segment")]


def sums(port: int, prefix: str, side: str) -> Counter[tuple[Any, ...]]:
    """What a view says of all messages of a feed."""
    held: dict[str, list[int]] = {}
    for _, _, _, volume, price, symbol in Replayed().feed(feed(port, feed_position(port))).relation(side):
        of = held.setdefault(symbol, [0, 0, 0])
        of[0], of[1], of[2] = of[0] + 1, of[1] + volume, of[2] + price * volume
    return Counter({(f"{prefix}:{symbol}", *values): 1 for symbol, values in held.items()})


def await_close(ports: dict[str, int], anybody: Running) -> None:
    """Until the day is over and nothing is said any more."""
    last: dict[str, int] = {}
    while (found := {name: feed_position(port) for name, port in ports.items()}) != last:
        last = found
        anybody.runs_for(2.0)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("lane", ["express", pytest.param("views", marks=pytest.mark.spark)])
def test_each_is_killed_and_everything_is_counted_once(tmp_path: Path, lane: str) -> None:
    sys.stderr.write(f"DELTABOOK_TEST_SEED={SEED}\n")
    chance = random.Random(SEED)
    relations = {"B": "bids", "S": "asks"}
    (tmp_path / "sums.sql").write_text(
        "".join(f"CREATE VIEW {name} AS {SUMS.format(relations[side])};\n" for name, side in VIEWS.items())
    )
    day = ["--rate", "2000", "--trading", "20", "--start-on", "1"]
    with exchange(tmp_path / "xa", *day, "--seed", "1") as one, exchange(tmp_path / "xb", *day, "--seed", "2") as two:
        tree = Tree(
            tmp_path,
            {"a": one.ready().ports["text"], "b": two.ready().ports["text"]},
            [f"--{lane}", str(tmp_path / "sums.sql")],
        )
        order = ["main", "a", "b"]
        chance.shuffle(order)
        try:
            for name in order:
                tree.start(name)
            tree.running["main"].wait_for("messages", 1000)
            for _ in range(8 if lane == "express" else 4):
                name = chance.choice(order)
                tree.running[name].runs_for(chance.random())
                tree.kill(name)
                others = list(tree.running.values())
                chance.choice(others).runs_for(chance.choice((0.0, 1.0)))  # they go on meanwhile
                tree.start(name).ready()
            await_close(tree.ports, tree.running["main"])
            results = tree.settled()
            found = results.newest(list(VIEWS))
            for view, side in VIEWS.items():
                expected = Counter[tuple[Any, ...]]()
                for name, port in tree.ports.items():
                    expected += sums(port, name, side)
                assert found.rows[view] == expected, view
            said = results.get("status")
            assert said["upstreams_silent"] == 0
            assert said["term"] >= 1
        finally:
            for process in tree.running.values():
                process.kill()
        await_end_of_java(tmp_path / "main")


@pytest.mark.timeout(300)
def test_a_second_runtime_on_the_same_feed_is_refused(tmp_path: Path) -> None:
    """By the claim at once, and without one by the runtime that both feed."""
    (tmp_path / "sums.sql").write_text(SUMS.format("bids"))
    with exchange(tmp_path / "x", "--rate", "500") as market:
        port = market.ready().ports["text"]
        tree = Tree(tmp_path, {"a": port, "b": port}, ["--express", str(tmp_path / "sums.sql")])
        with tree.start("a") as first, tree.start("main") as main:
            first.wait_for("messages", 100)
            main.wait_for("messages", 100)
            second = tree.start("b")
            second.wait_for_end()
            assert "expected session" in second.errors()
            assert "every message would count twice" in second.errors()
            second.kill()
            main.runs_for(0.5)
            where = ["--feed", f"127.0.0.1:{port}", "--dir", str(tmp_path / "b"), *SIZES]
            with Running("runtime", *where) as unclaimed:
                main.wait_for_end()
                assert "as both a/feed and b/feed" in main.errors()
                unclaimed.interrupt()
            cuts = json.dumps(sorted(path.name for path in (tmp_path / "main" / "claims").iterdir()))
            assert cuts.count(".json") == 1
