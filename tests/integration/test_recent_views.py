"""Views over the rows of the last seconds on Spark: what expires leaves them, also over a kill -9."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runtime.epochs import EpochLogReader
from runtime.plan import EPOCH_TIME
from tests.generators.traces import trace
from tests.integration._oracle import Replayed
from tests.integration._processes import await_end_of_java, exchange, feed, runtime
from tests.integration.test_runtime_recovery import paced_trace, published

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "4"))
SECOND_NS = 10**9
QUERIES = {
    "recent": "SELECT symbol, COUNT(*) AS n, SUM(volume) AS v FROM trades WHERE t > now() - INTERVAL '9' SECOND "
    "GROUP BY symbol",
    "waiting": "SELECT broker_id, COUNT(*) AS n FROM bids WHERE now() - t >= INTERVAL '2' SECOND GROUP BY broker_id",
}
Rows = Counter[tuple[Any, ...]]


def times(directory: Path) -> dict[int, int]:
    """Epoch → its time in nanoseconds, once there is one."""
    log, found, now = EpochLogReader(directory / "epochs"), {}, 0
    for epoch in range(log.latest() + 1):
        table = log.read(epoch).rows(EPOCH_TIME.name)
        for row in table.to_pylist() if table is not None else []:
            now = row[EPOCH_TIME.columns[0].name] if row["weight"] > 0 else now
        found[epoch] = now
    return found


def answers(market: Replayed, now: int) -> dict[str, Rows]:
    """The views at a time, from everything that there is."""
    recent: dict[str, list[int]] = {}
    for t, _, symbol, _, volume, *_ in market.trades:
        if t > now - 9 * SECOND_NS:
            count = recent.setdefault(symbol, [0, 0])
            count[0] += 1
            count[1] += volume
    waiting = Counter(
        order["broker"]
        for order in market.orders.values()
        if order["side"] == "B" and now - order["t"] >= 2 * SECOND_NS
    )
    return {
        "recent": Counter((symbol, *sums) for symbol, sums in recent.items()),
        "waiting": Counter(waiting.items()),
    }


def test_rows_expire_from_views_on_spark(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    file, held = tmp_path / "trace.csv", tmp_path / "runtime"
    file.write_text("\n".join(paced_trace(trace(SEED, 3000))) + "\n")
    views = [tmp_path / f"{name}.sql" for name in QUERIES]
    for view in views:
        view.write_text(QUERIES[view.stem])
    replay = ["--replay", str(file), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--start-on", "1"]
    with exchange(tmp_path / "exchange", *replay, "--speed", "1") as market:
        port = market.ready().ports["text"]
        with runtime(held, port, views) as engine:
            engine.joined()
            engine.wait_for("published_epoch", chance.randint(5, 20))
            engine.kill()
        await_end_of_java(held)
        with runtime(held, port, views) as engine:
            newest = int(engine.figures(lambda figures: int(figures["epoch"] or 0) > 0)["epoch"])
            engine.wait_for("published_epoch", newest + 15)
            engine.stop()
        now = times(held)
        log = EpochLogReader(held / "epochs")
        cuts = {epoch: cut.sequence for epoch in now if (cut := log.read(epoch).footer.cuts.get("feed")) is not None}
        messages = feed(port, max(cuts.values()))
    versions = published(held, tuple(QUERIES))
    chosen = [*chance.sample(sorted(versions), min(6, len(versions))), max(versions)]
    assert any(versions[version]["recent"] for version in versions), "some trades are recent"
    for version in chosen:
        expected = answers(Replayed().feed(messages[: cuts.get(version, 0)]), now[version])
        assert versions[version] == expected, f"version {version} at {now[version]}"
    final = Replayed().feed(messages)
    assert versions[max(versions)]["waiting"], "some orders wait"
    assert any(t <= now[max(versions)] - 9 * SECOND_NS for t, *_ in final.trades), "some trades have expired"
