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
from runtime.epochs import EpochLogReader
from runtime.service.rundir.upkeep import used_bytes
from tests.integration._killed import Held, Rows
from tests.integration._processes import Results, Running, await_end_of_java, exchange, feed, feed_position, runtime

pytestmark = [pytest.mark.process, pytest.mark.spark]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
KILLS = int(os.environ.get("DELTABOOK_KILLS", "10"))
VIEWS = [query_path(name) for name in ("book_depth", "vwap_book", "best_quote", "broker_volume")]
TRACE = query_path("book_depth").with_name("trace-5000.csv")
SNAPSHOT_EPOCHS = 100
SMALL = ["--snapshot-epochs", str(SNAPSHOT_EPOCHS), "--snapshot-results", "10", "--retain-megabytes", "0"]
MOST_EPOCHS = 10 * SNAPSHOT_EPOCHS
"""Two snapshots' worth, and what is sealed while one is taken; besides what Spark has yet to read."""
MOST_BYTES = 100_000_000
"""The log of the state database, 64 MiB, and little else; at any time if no Spark has yet to read some."""
REST = ["--epoch-messages", "5000"]
"""Small epochs give many places to be killed at; the rest of a long replay behind the last kill has no use for them."""
START_SECONDS = 12.0
FLOW_SECONDS = 4.0


def tell(line: str) -> None:
    """Say how it goes, for the log of a long run."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def kill_at_random(engine: Running, chance: random.Random, start_seconds: float, flow_seconds: float) -> str:
    """Kill a runtime that was just started, as likely in its start as in the flow; says when it was."""
    if chance.random() < 0.5:
        after = chance.uniform(0.1, start_seconds)
        words = f"{after:.2f} s after its start"
    else:
        engine.ready()
        after = chance.uniform(0, flow_seconds)
        words = f"{after:.2f} s after it was ready"
    engine.runs_for(after)
    engine.kill()
    return words


def torment(
    directory: Path,
    replay: Sequence[str],
    kills: int,
    chance: random.Random,
    options: Sequence[str],
    *,
    spark: Sequence[Path] = (),
    express: Sequence[Path] = (),
    small: bool = True,
) -> Held:
    """Kill the runtime so often while an exchange replays at full speed, let it finish, and compare everything.

    ``small``: soon after every lane has read all epochs, the directory must have no more than the settings say.
    """
    held = directory / "runtime"
    lanes = ["--express", ",".join(map(str, express))] if express else []

    def start(port: int, *more: str) -> Running:
        return runtime(held, port, spark, *lanes, *options, *more)

    with exchange(directory / "exchange", *replay, "--speed", "max", "--start-on", "1") as market:
        port = market.ready().ports["text"]
        state = Held(held, spark, express, lambda begin, until: feed(port, until, begin))
        for number in range(kills):
            with start(port) as engine:
                words = kill_at_random(engine, chance, *((START_SECONDS, FLOW_SECONDS) if spark else (1.5, 1.5)))
            await_end_of_java(held)
            sequence = state.check(chance)
            tell(f"kill {number}: {words}, message {sequence}, {state.most_bytes} bytes")
        with start(port, *REST) as engine:
            results = Results(engine)
            market.figures(lambda _: "ended at line" in market.errors(), "the end of the replay")
            newest = feed_position(port)
            engine.wait_for("messages", newest)
            rows: dict[str, Rows] = {}
            for lane in filter(None, (spark, express)):
                version = results.covering([view.stem for view in lane], newest)
                assert version.sequence == newest
                rows |= version.rows
            if small:
                engine.wait_for_file(lambda: held_epochs(held) <= MOST_EPOCHS)
            figures = engine.figures()
            engine.stop()
        assert state.check(chance) == newest == figures["messages"]
        assert (figures["dead_letters"], figures["paused"]) == (0, 0)
        assert rows == state.answers()
    tell(f"{state.checked} versions compared, at most {state.most_epochs} epochs and {state.most_bytes} bytes")
    return state


def held_epochs(directory: Path) -> int:
    """How many epochs a run directory has."""
    log = EpochLogReader(directory / "epochs")
    return log.latest() - log.first() + 1


def trace_replay() -> list[str]:
    """Options of an exchange that replays the trace."""
    return ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE"]


def capture_replay() -> list[str]:
    """Options of an exchange that replays half an hour of a real market."""
    try:
        capture = capture_file(os.environ)
    except CaptureError as error:
        pytest.fail(f"the capture cannot be had: {error}")
    return ["--replay", str(capture), "--format", "bitstamp", "--replay-mode", "as-orders", "--symbol", "BTCUSD"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_runtime_killed_in_its_start_and_in_the_flow(tmp_path: Path) -> None:
    """`test_catalogue` kills it in the flow, and is not slow."""
    tell(f"DELTABOOK_TEST_SEED={SEED}")
    options = ["--epoch-messages", "20", *SMALL]
    torment(tmp_path, trace_replay(), 2, random.Random(SEED), options, spark=VIEWS[:2], express=VIEWS[2:])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_express_lane_alone_killed_again_and_again(tmp_path: Path) -> None:
    """Its log is kept whole, so that every epoch's answers can be compared."""
    chance = random.Random(SEED)
    tell(f"DELTABOOK_TEST_SEED={SEED}")
    options = ["--no-spark", "--epoch-messages", "20", "--snapshot-epochs", "50"]
    state = torment(tmp_path, trace_replay(), 3, chance, options, express=VIEWS, small=False)
    assert EpochLogReader(tmp_path / "runtime" / "epochs").first() == 0
    assert state.checked >= 1


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_runtime_killed_again_and_again(tmp_path: Path) -> None:
    """A tenth of the kills on the trace, the others on the capture of a real market."""
    tell(f"DELTABOOK_TEST_SEED={SEED} DELTABOOK_KILLS={KILLS}")
    chance = random.Random(SEED)
    few = KILLS // 10
    for place, replay, kills, messages in (
        ("trace", trace_replay(), few, 5),
        ("capture", capture_replay(), KILLS - few, 50),
    ):
        options = ["--epoch-messages", str(messages), *SMALL]
        torment(tmp_path / place, replay, kills, chance, options, spark=VIEWS[:2], express=VIEWS[2:])
        assert used_bytes(tmp_path / place / "runtime") <= MOST_BYTES


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_express_lane_alone_killed_on_a_real_market(tmp_path: Path) -> None:
    tell(f"DELTABOOK_TEST_SEED={SEED} DELTABOOK_KILLS={KILLS}")
    options = ["--no-spark", "--epoch-messages", "50", *SMALL]
    state = torment(tmp_path, capture_replay(), KILLS, random.Random(SEED), options, express=VIEWS)
    assert state.most_epochs <= MOST_EPOCHS
    assert state.most_bytes <= MOST_BYTES
