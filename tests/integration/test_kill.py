"""A runtime that is killed at random moments, again and again, loses nothing, doubles nothing and stays small.

``DELTABOOK_KILLS`` says how often in the long test, ``DELTABOOK_TEST_SEED`` which moments.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deltabook.demo import CaptureError, capture_file
from queries import query_path
from tests.integration._killed import Held
from tests.integration._processes import Results, Running, await_end_of_java, exchange, feed, feed_position, runtime

pytestmark = [pytest.mark.process, pytest.mark.spark]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
KILLS = int(os.environ.get("DELTABOOK_KILLS", "10"))
VIEWS = [query_path(name) for name in ("book_depth", "vwap_book", "best_quote", "broker_volume")]
NAMES = [view.stem for view in VIEWS]
TRACE = query_path("book_depth").with_name("trace-5000.csv")
SNAPSHOT_EPOCHS = 100
SETTINGS = ["--snapshot-epochs", str(SNAPSHOT_EPOCHS), "--snapshot-results", "10", "--retain-megabytes", "0"]
MOST_EPOCHS = 10 * SNAPSHOT_EPOCHS
"""Two snapshots' worth, and what is sealed while one is taken and Spark is behind."""
MOST_BYTES = 64_000_000
START_SECONDS = 12.0
FLOW_SECONDS = 4.0


def tell(line: str) -> None:
    """Say how it goes, for the log of a long run."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def kill_at_random(engine: Running, chance: random.Random, during_start: bool) -> str:
    """Kill a runtime that was just started; says when it was."""
    if during_start:
        after = chance.uniform(0.2, START_SECONDS)
        engine.runs_for(after)
        words = f"{after:.2f} s after its start"
    else:
        engine.ready()
        after = chance.uniform(0, FLOW_SECONDS)
        engine.runs_for(after)
        words = f"{after:.2f} s after it was ready"
    engine.kill()
    return words


def torment(directory: Path, replay: Sequence[str], kills: int, chance: random.Random, epoch_messages: int) -> None:
    """Kill the runtime so often while an exchange replays at full speed, then let it finish."""
    held = directory / "runtime"
    options = ["--epoch-messages", str(epoch_messages), *SETTINGS]
    with exchange(directory / "exchange", *replay, "--speed", "max", "--start-on", "1") as market:
        port = market.ready().ports["text"]
        state = Held(held, VIEWS, lambda begin, until: feed(port, until, begin))
        for number in range(kills):
            with runtime(held, port, VIEWS, *options) as engine:
                words = kill_at_random(engine, chance, during_start=chance.random() < 0.5)
            await_end_of_java(held)
            sequence = state.check(chance)
            tell(f"kill {number}: {words}, message {sequence}, {state.most_bytes} bytes")
        with runtime(held, port, VIEWS, *options) as engine:
            results = Results(engine)
            market.figures(lambda _: "ended at line" in market.errors(), "the end of the replay")
            newest = feed_position(port)
            version = results.covering(NAMES, newest)
            figures = engine.figures(lambda f: f["published_epoch"] >= version.epoch, "its last figures")
            engine.stop()
        assert state.check(chance) == version.sequence == newest
        assert figures["messages"] == version.sequence
        assert (figures["dead_letters"], figures["paused"]) == (0, 0)
        assert version.rows == state.answers()
        assert state.most_epochs <= MOST_EPOCHS
        assert state.most_bytes <= MOST_BYTES
        tell(f"{state.checked} versions compared, at most {state.most_epochs} epochs")


def trace_replay() -> list[str]:
    """Options of an exchange that replays the trace."""
    return ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE"]


@pytest.mark.timeout(300)
def test_a_runtime_killed_in_its_start_and_in_the_flow(tmp_path: Path) -> None:
    tell(f"DELTABOOK_TEST_SEED={SEED}")
    torment(tmp_path, trace_replay(), 2, random.Random(SEED), 20)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_runtime_killed_again_and_again(tmp_path: Path) -> None:
    """A tenth of the kills on the trace, the others on the capture of a real market."""
    tell(f"DELTABOOK_TEST_SEED={SEED} DELTABOOK_KILLS={KILLS}")
    chance = random.Random(SEED)
    torment(tmp_path / "trace", trace_replay(), KILLS // 10, chance, 5)
    try:
        capture = capture_file(os.environ)
    except CaptureError as error:
        pytest.fail(f"the capture cannot be had: {error}")
    replay = ["--replay", str(capture), "--format", "bitstamp", "--replay-mode", "as-orders", "--symbol", "BTCUSD"]
    torment(tmp_path / "capture", replay, KILLS - KILLS // 10, chance, 50)
