"""Run directories of upstreams, made epoch by epoch, and an ingest that reads them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from runtime.compiler import TRADES
from runtime.engine.ingest import EpochWriter, Ingest, IngestConfig, IngestListener
from runtime.engine.ingest.upstream import kept_position
from runtime.engine.streams import DerivedStreams, StreamsPipeline
from runtime.epochs import Cut, EpochLogReader, Footer, RetentionConfig, SnapshotDirectory, retire
from runtime.plan import Program
from runtime.relations.orderbook import BOOK_SCHEMA
from runtime.upstreams import Follower, Symbols, UpstreamLog
from runtime.views.rows import change_schema
from tests.harness import Stepper

__all__ = ["MainRuntime", "UpstreamRun", "bid", "trade"]

Row = tuple[Any, ...]


def bid(number: int, symbol: str = "AA", weight: int = 1) -> Row:
    """Return a row of BIDS with its weight."""
    return (number, number, 1, 10, 100, symbol, weight)


def trade(number: int, t: int, symbol: str = "AA") -> Row:
    """Return a row of TRADES with its weight."""
    return (t, number, symbol, 100, 10, None, None, None, None, 1)


class UpstreamRun:
    """Run directory of an upstream, written by hand."""

    def __init__(self, directory: Path, begun_ns: int = 1, session: str = "S1") -> None:
        self.directory = directory
        self._times = begun_ns
        self._session = session
        self.writer = self._open()
        if self.writer.epoch < 0:
            self.writer.seal({}, b"program")

    def _open(self) -> EpochWriter:
        return EpochWriter(self.directory, self._now_ns, lambda _: None)

    def _now_ns(self) -> int:
        self._times += 1
        return self._times - 1

    def seal(self, *rows: Row, messages: int | None = None, watermarks: Mapping[str, int] | None = None) -> Footer:
        """Seal an epoch with these rows of BIDS and of TRADES; an epoch of an earlier release has no watermarks."""
        for name, schema in (("bids", BOOK_SCHEMA), ("trades", change_schema(TRADES.columns))):
            if own := [row for row in rows if len(row) == len(schema)]:
                columns = [
                    pa.array(column, field.type) for column, field in zip(zip(*own, strict=True), schema, strict=True)
                ]
                self.writer.add({name: pa.RecordBatch.from_arrays(columns, schema=schema)}, 0)
        self.writer.add({}, len(rows) if messages is None else messages)
        before = self.writer.recovered.messages if self.writer.recovered else 0
        cuts = {"feed": Cut(self._session, before + self.writer.messages, 0)}
        footer = self.writer.begin_seal(cuts, watermarks=watermarks)
        self.writer.settle()
        return footer

    def retire(self) -> int:
        """Take a snapshot, and remove all epochs up to it; return the first remaining one."""
        snapshots = SnapshotDirectory(self.directory / "snapshots")
        snapshots.take(self.writer.log, self.writer.epoch - 1)
        retire(self.writer.log, snapshots, self.writer.epoch, RetentionConfig(0, 0), 1)
        return self.writer.log.first()

    def close(self) -> None:
        """Close the files."""
        self.writer.close()

    def copy_to(self, directory: Path) -> None:
        """Copy the directory, like a backup."""
        self.close()
        shutil.copytree(self.directory, directory)
        self.writer = self._open()


class _SteppedFollower(Follower):
    """Follower that reads its upstream's log on request."""

    sink: Any = None

    def open(self, sink: Any) -> None:
        """See `Follower`."""
        self.sink = sink

    def close(self) -> None:
        """See `Follower`."""
        self.sink = None


class MainRuntime(IngestListener):
    """Ingest that reads upstreams, one step at a time."""

    def __init__(
        self,
        directory: Path,
        upstreams: Sequence[tuple[str, Path]],
        symbols: Symbols = "own",
        *,
        streams: Program | None = None,
        **config: Any,
    ) -> None:
        """Open a runtime; ``streams`` is a program with derived streams."""
        self.failure = ""
        self.writer = EpochWriter(directory, lambda: 99, lambda _: None)
        if self.writer.epoch < 0:
            self.writer.seal({}, b"program")
        node = None
        if streams is not None:
            node = StreamsPipeline(DerivedStreams(self.writer.space, self.writer.log, streams), lambda update: None)
        self.followers = [
            _SteppedFollower(
                UpstreamLog(-1 - place, name, where, kept_position(self.writer.space, name), symbols=symbols)
            )
            for place, (name, where) in enumerate(upstreams)
        ]
        self.stepper = Stepper(1)
        self.ingest = Ingest(
            IngestConfig(**config), self.writer, {}, self, upstreams=self.followers, streams=node, workers=self.stepper
        )
        self.ingest.start()
        self.settle()

    def on_failed(self, reason: str) -> None:
        """See `IngestListener`."""
        self.failure = reason

    def settle(self) -> None:
        """Make steps until none is left."""
        while self.stepper.step():
            pass

    def take(self) -> None:
        """Let all followers read until nothing new arrives, and apply everything."""
        for follower in self.followers:
            while follower.sink is not None and follower.poll(follower.sink):
                self.settle()

    def cut(self) -> Footer:
        """Read everything, close the epoch, and return its footer."""
        self.take()
        self.ingest.request_barrier()
        self.settle()
        return self.log.read(self.writer.epoch).footer

    @property
    def log(self) -> EpochLogReader:
        """Reader of its epochs."""
        return self.writer.log

    def rows(self) -> Counter[Row]:
        """Return the sum of BIDS in its log, without weights."""
        found: Counter[Row] = Counter()
        for epoch in range(self.writer.epoch + 1):
            table = self.log.read(epoch).rows("bids")
            for *row, weight in zip(*([] if table is None else table.to_pydict().values()), strict=True):
                found[tuple(row)] += weight
        return +found

    def stop(self) -> None:
        """Stop in order; data that is in no epoch comes again."""
        self.ingest.stop()
        self.writer.close()
