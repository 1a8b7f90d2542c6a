"""Ingest with derived streams on sources in memory, and readers of its log."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from runtime.compiler import MARKET_TIMES, TOUCHES, TRADES, parse_script
from runtime.engine.express import Update
from runtime.engine.ingest import CommitterThread, EpochWriter, Ingest, IngestConfig, InlineCommitter, Origin
from runtime.engine.streams import DerivedStreams, StreamsPipeline, with_streams
from runtime.epochs import Cut, EpochLogReader
from runtime.plan import DerivedInput, Program, Relation, decode_program, encode_program
from runtime.relations import Adaptor
from runtime.sources import Position, Source
from tests.generators.ingest_lab import WAIT_SECONDS, ScriptListener
from tests.harness.stepper import Stepper

__all__ = ["MARKET_INPUTS", "StreamsLab", "program_of", "stream_rows"]

MARKET_INPUTS = tuple(DerivedInput(each, MARKET_TIMES[each.name]) for each in (TRADES, TOUCHES))
Make = Callable[[EpochWriter, Cut], Adaptor]
NOTHING = Program((), (), ())


def program_of(text: str, inputs: Sequence[DerivedInput] = MARKET_INPUTS, before: Program = NOTHING) -> Program:
    """Return a program with the streams of a script added."""
    return with_streams(before, parse_script(text, name="script.sql", base_dir=Path.cwd()).derived, inputs)


class StreamsLab:
    """Writer and ingest with the streams of a program; a source is given by name, with a function for its adaptor."""

    def __init__(
        self,
        directory: Path,
        origins: Mapping[str, tuple[Source, Make]],
        program: Program = NOTHING,
        *,
        crew: Stepper | None = None,
        own: bool = False,
        **config: Any,
    ) -> None:
        committer = CommitterThread() if crew is None else InlineCommitter()
        self.writer = EpochWriter(directory, lambda: 0, lambda footer: None, committer=committer)
        if self.writer.epoch < 0:
            self.writer.seal({}, control=encode_program(program))
        self.updates: list[Update] = []
        program = decode_program(self.writer.control)
        self.streams = DerivedStreams(self.writer.space, self.writer.log, program)
        cuts = self.writer.recovered.cuts if self.writer.recovered else {}
        self.origins: dict[int, Origin] = {}
        for number, (name, (source, make)) in enumerate(origins.items()):
            cut = cuts.get(name, Cut("S1", 0, 0))
            start = Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples)
            self.origins[number] = Origin(number, name, source, make(self.writer, cut), start, is_own=own)
        self.listener = ScriptListener()
        self.ingest = Ingest(
            msgspec.convert(config, IngestConfig),
            self.writer,
            self.origins,
            self.listener,
            streams=StreamsPipeline(self.streams, self.updates.append),
            workers=crew,
        )

    def run(self) -> str:
        """Run from start to end; return how the ingest ended."""
        self.ingest.start()
        try:
            return self.listener.outcomes.get(timeout=WAIT_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Stop without sealing, like a killed process."""
        self.ingest.stop()
        self.writer.close()

    def settle(self) -> None:
        """Start, and wait until everything that was offered is applied."""
        self.ingest.start()
        assert self.listener.running.wait(WAIT_SECONDS)
        for number in self.origins:
            drained = threading.Event()
            self.ingest.when_drained(number, drained.set)
            assert drained.wait(WAIT_SECONDS)

    def seal(self, program: Program) -> int:
        """Seal a control record; return its epoch."""
        sealed: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.ingest.seal_control(encode_program(program), sealed.put)
        epoch = sealed.get(timeout=WAIT_SECONDS)
        assert epoch is not None
        return epoch


def stream_rows(directory: Path, relation: Relation | str, *, weight: int = 1) -> list[tuple[Any, ...]]:
    """Return the rows added to (or removed from) a stream, in the order of the log."""
    name = relation if isinstance(relation, str) else relation.name
    reader = EpochLogReader(directory / "epochs")
    found: list[tuple[Any, ...]] = []
    for epoch in range(1, reader.latest() + 1):
        table: pa.Table | None = reader.read(epoch).rows(name)
        rows = table.to_pylist() if table is not None else []
        found += [tuple(row.values()) for row in rows if row.pop("weight") == weight]
    return found
