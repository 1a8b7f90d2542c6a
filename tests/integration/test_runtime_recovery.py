"""A runtime that is killed while the feed runs goes on exactly where its last epoch ended."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deltabook.cli import main
from deltabook.wire.text import FeedMessage
from queries import query_path
from runtime.epochs import EpochLogReader, Footer, read_segment
from tests.generators.traces import trace
from tests.harness.moments import as_rows
from tests.integration._oracle import Replayed
from tests.integration._processes import (
    ITCH_BEGINNING,
    Results,
    Running,
    Version,
    await_end_of_java,
    exchange,
    feed,
    runtime,
)

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(600)]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "4"))
VIEWS = [query_path(name) for name in ("book_depth", "vwap_book", "best_quote", "broker_volume")]
NAMES = [view.stem for view in VIEWS]
MESSAGES, RUSH = 3000, 800


def paced_trace(lines: Iterable[str]) -> list[str]:
    """The same trace with other times: a rush at the opening, then ten messages a second, for as long as it takes."""
    paced = []
    for number, line in enumerate(lines):
        time_ms = number if number < RUSH else RUSH + (number - RUSH) * 100
        paced.append(f"{time_ms},{line.split(',', 1)[1]}")
    return paced


def footers(directory: Path) -> list[Footer]:
    """Of every epoch in the log."""
    log = EpochLogReader(directory / "epochs")
    return [log.read(epoch).footer for epoch in range(log.latest() + 1)]


def check_epochs(directory: Path) -> int:
    """Every feed message is in exactly one epoch; the last one's number."""
    sequence = 0
    for epoch, footer in enumerate(footers(directory)):
        assert footer.to_epoch == epoch
        cut = footer.cuts.get("feed")
        assert footer.messages == (cut.sequence - sequence if cut else 0), f"epoch {epoch}"
        sequence = cut.sequence if cut else 0
    return sequence


def held_rows(directory: Path, relation: str) -> Counter[tuple[Any, ...]]:
    """What the deltas of all epochs add up to; no row is ever there twice, or taken away that is not there."""
    rows: Counter[tuple[Any, ...]] = Counter()
    log = EpochLogReader(directory / "epochs")
    for epoch in range(1, log.latest() + 1):
        table = log.read(epoch).rows(relation)
        if table is not None:
            columns = [table[name].to_pylist() for name in table.schema.names]
            for *row, weight in zip(*columns, strict=True):
                rows[tuple(row)] += weight
            assert set(rows.values()) <= {0, 1}, f"epoch {epoch} of {relation}"
    return +rows


def published(directory: Path, names: Sequence[str] = NAMES) -> dict[int, dict[str, Counter[tuple[Any, ...]]]]:
    """Every version in the result log, as the sum of its changes; spans follow each other without a hole."""
    versions: dict[int, dict[str, Counter[tuple[Any, ...]]]] = {}
    held: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in names}
    newest = 0
    for path in sorted((directory / "results").glob("*.result")):
        segment = read_segment(path)
        assert segment.footer.from_epoch == newest, path.name
        newest = segment.footer.to_epoch
        for name in names:
            if (table := segment.rows(name)) is not None:
                added = as_rows(table)
                removed = as_rows(negated(table))
                assert not removed - held[name], f"{name} at {newest} removes rows that are not there"
                held[name] = held[name] - removed + added
        versions[newest] = {name: Counter(rows) for name, rows in held.items()}
    return versions


def check_held(
    directory: Path, last: Version, told: Sequence[FeedMessage], chance: random.Random, beginning: int = 0
) -> None:
    """What a run directory holds is what the feed said; ``beginning``: its messages that ``told`` lacks."""
    market = Replayed().feed(told)
    assert held_rows(directory, "bids") == Counter(market.relation("B"))
    assert held_rows(directory, "asks") == Counter(market.relation("S"))
    versions = published(directory)
    assert versions[last.epoch] == last.rows
    cuts = {footer.to_epoch: footer.cuts["feed"].sequence for footer in footers(directory) if footer.cuts}
    for epoch in chance.sample(sorted(versions.keys() & cuts.keys()), 5):
        said = told[: max(0, cuts[epoch] - beginning)]
        assert versions[epoch] == Replayed().feed(said).answers(VIEWS), f"version {epoch}"


def negated(table: Any) -> Any:
    """The table with its weights turned round."""
    at = table.schema.get_field_index("weight")
    return table.set_column(at, "weight", [[-weight for weight in table["weight"].to_pylist()]])


def control_replay(market: Running, change: str) -> None:
    """Pause or resume the replay, so that its end does not depend on how long the runtime takes to start."""
    done = CliRunner().invoke(
        main, ["exchange", "replay", change, "--admin", f"127.0.0.1:{market.ready().ports['admin']}"]
    )
    assert done.exit_code == 0, done.output


def kill_while_it_reads(engine: Running, market: Running, chance: random.Random) -> None:
    """Wait until some more epochs are published, kill it while more messages come in, and pause the replay."""
    engine.ready()
    control_replay(market, "resume")
    begin = int(engine.figures()["published_epoch"])
    figures = engine.wait_for("published_epoch", begin + chance.randint(2, 12))
    engine.kill()
    sequence = int(market.wait_for("sequence", int(figures["feed_sequence"]) + 1)["sequence"])
    control_replay(market, "pause")
    assert sequence < MESSAGES - 500, "it was in mid-replay"


@pytest.mark.slow
def test_a_runtime_killed_in_mid_replay_misses_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    lines = paced_trace(trace(SEED, MESSAGES))
    oracle = Replayed().trace(lines, "TRACE")
    file, held = tmp_path / "trace.csv", tmp_path / "runtime"
    file.write_text("\n".join(lines) + "\n")
    replay = ["--replay", str(file), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--start-on", "1"]

    def start(port: int) -> Running:
        return runtime(held, port, VIEWS, "--epoch-messages", "80", "--max-epochs-per-batch", "8")

    with exchange(tmp_path / "exchange", *replay, "--speed", "1") as market:
        port = market.ready().ports["text"]
        with start(port) as engine:
            kill_while_it_reads(engine, market, chance)
        ended = check_epochs(held)
        await_end_of_java(held)

        # Killed again while Java starts, ...
        (held / "spark" / "log4j2.properties").unlink()
        with start(port) as engine:
            engine.wait_for_file((held / "spark" / "log4j2.properties").exists)
        # The first kill may have come between an epoch's commit and its rename, which this start has done again.
        committed = check_epochs(held)
        assert committed >= ended
        ended = committed

        with start(port) as engine:
            kill_while_it_reads(engine, market, chance)
        assert check_epochs(held) > ended
        ended = check_epochs(held)
        await_end_of_java(held)

        # ... and as soon as Spark writes: the batch that the kill cut short, or the next one.
        written = set((held / "checkpoint").rglob("*"))
        with start(port) as engine:
            control_replay(market, "resume")
            engine.wait_for_file(lambda: bool(set((held / "checkpoint").rglob("*")) - written))
        assert check_epochs(held) >= ended
        await_end_of_java(held)
        market.stop()

    # The rest of the trace at once: as fast as possible, through the same journal.
    with exchange(tmp_path / "exchange", *replay, "--speed", "max", port=port) as market:
        with start(port) as engine:
            results = Results(engine)
            market.wait_for("sequence", oracle.messages)
            version = results.covering(NAMES, oracle.messages)
            engine.stop()
        told = feed(port, oracle.messages)

    assert check_epochs(held) == version.sequence == oracle.messages == len(told)
    assert version.rows == oracle.answers(VIEWS)
    check_held(held, version, told, chance)


@pytest.mark.slow
def test_a_runtime_on_itch_misses_nothing_over_any_kill(tmp_path: Path) -> None:
    """The runtime twice, and the exchange under a runtime that goes on: it logs in where its last epoch ended."""
    chance = random.Random(SEED)
    lines = paced_trace(trace(SEED, MESSAGES))
    oracle = Replayed().trace(lines, "TRACE")
    newest = oracle.messages + ITCH_BEGINNING
    file, held = tmp_path / "trace.csv", tmp_path / "runtime"
    file.write_text("\n".join(lines) + "\n")
    replay = ["--replay", str(file), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--start-on", "1"]

    def start(port: int) -> Running:
        options = ["--feed-protocol", "itch", "--epoch-messages", "80", "--max-epochs-per-batch", "8"]
        return runtime(held, port, VIEWS, *options)

    with exchange(tmp_path / "exchange", *replay, "--speed", "1", "--itch-port", "0") as market:
        port = market.ready().ports["itch"]
        with start(port) as engine:
            kill_while_it_reads(engine, market, chance)
        ended = check_epochs(held)
        await_end_of_java(held)
        with start(port) as engine:
            kill_while_it_reads(engine, market, chance)
        assert check_epochs(held) > ended
        await_end_of_java(held)

        engine = start(port)
        engine.ready()
        control_replay(market, "resume")
        engine.wait_for("feed_sequence", int(market.figures()["itch_sequence"]))
        market.kill()
    with engine, exchange(tmp_path / "exchange", *replay, "--speed", "max", "--itch-port", str(port)) as market:
        results = Results(engine)
        market.wait_for("itch_sequence", newest)
        version = results.covering(NAMES, newest)
        engine.stop()
        told = feed(market.ready().ports["text"], oracle.messages)

    assert check_epochs(held) == version.sequence == newest
    assert version.rows == oracle.answers(VIEWS)
    check_held(held, version, told, chance, ITCH_BEGINNING)
