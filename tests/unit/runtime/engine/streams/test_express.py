"""Views of the express lane over derived streams: an epoch ends with its barrier, and has what streams add to it."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runtime.compiler import compile_program, parse_script
from runtime.engine.express import Update
from runtime.engine.ingest import EpochWriter, Ingest, IngestConfig, Origin
from runtime.engine.streams import DerivedStreams, StreamsPipeline
from runtime.epochs import Cut, EpochLogReader
from runtime.plan import Program, encode_program
from runtime.relations import FeedAdaptor, Retention
from runtime.service.catalogue import begun_program
from runtime.service.lanes.express import ExpressLane
from runtime.sources import Position
from tests.generators.ingest_lab import WAIT_SECONDS, ListSource, ScriptListener, at_sequence, feed
from tests.generators.streams_lab import MARKET_INPUTS

SCRIPT = """
CREATE STREAM large RETAIN 3 ROWS AS SELECT t, match_id, volume FROM trades WHERE volume >= 5;
CREATE VIEW lots TBLPROPERTIES ('lane' = 'express') AS SELECT SUM(volume) AS lots, COUNT(*) AS n FROM large;
"""


FAILING = """
CREATE STREAM beyond AS SELECT t,
  volume * 9223372036854775807 * 9223372036854775807 * 9223372036854775807 AS n FROM trades;
CREATE STREAM later AS SELECT window_end AS t, COUNT(*) AS n FROM trades GROUP BY TUMBLE(t, INTERVAL '1' DAY);
"""


def begun(text: str = SCRIPT) -> Program:
    script = parse_script(text, name="s.sql", base_dir=Path.cwd())
    market = [each.relation for each in MARKET_INPUTS]
    assert compile_program([], market).streams == ()
    return begun_program(script.selects, market, script.derived, MARKET_INPUTS, "sql")


@pytest.mark.parametrize("others", ["", FAILING], ids=["alone", "beside a stream that fails"])
def test_a_view_of_a_stream_is_right_at_every_epoch(tmp_path: Path, others: str) -> None:
    """Each epoch is ended once, and its section has what the stream has changed in it."""
    program = begun(SCRIPT + others)
    writer = EpochWriter(tmp_path, time.time_ns, lambda footer: None)
    updates: list[Update] = []
    lane = ExpressLane(writer, tmp_path, updates.append)
    writer.add_sections(lane.first(program))
    writer.seal({}, control=encode_program(program))
    data = feed(100, per_request=3)
    adaptor = FeedAdaptor(writer.space, "feed", Retention(rows=50), 1)
    source = ListSource(0, data, range(70, len(data), 70), at=at_sequence(data))
    origin = Origin(0, "feed", source, adaptor, Position("S1", 1))
    listener = ScriptListener()
    streams = StreamsPipeline(DerivedStreams(writer.space, writer.log, program), lambda update: None)
    ingest = Ingest(
        IngestConfig(epoch_messages=9), writer, {0: origin}, listener, views={"express": lane.begin()}, streams=streams
    )
    ingest.start()
    try:
        assert listener.outcomes.get(timeout=WAIT_SECONDS) == "finished"
    finally:
        ingest.stop()
        writer.close()
    assert listener.failed_views == []
    held: Counter[tuple[Any, ...]] = Counter()
    shown: Counter[tuple[Any, ...]] = Counter()
    log = EpochLogReader(tmp_path / "epochs")
    for epoch in range(log.latest() + 1):
        segment = log.read(epoch)
        for name, into, columns in (("large", held, ("match_id", "volume")), ("view/lots", shown, ("lots", "n"))):
            rows = segment.rows(name)
            for row in rows.to_pylist() if rows is not None else []:
                key = tuple(None if row[column] is None else int(row[column]) for column in columns)
                into[key] += row["weight"]
        volumes = [volume for (_, volume), count in held.items() if count]
        expected = {(sum(volumes) if volumes else None, len(volumes)): 1}
        assert {row: count for row, count in shown.items() if count} == expected, epoch
    ends = [update.epoch for update in updates if update.closes]
    assert ends == sorted(set(ends))
    assert Cut("S1", 100, len(data)).sequence == log.read(log.latest()).footer.cuts["feed"].sequence
