"""A process is killed, or loses its power, at any disk operation while readers come and go: each reader is registered
with its cut or not at all, and in the end everything was read once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltabook.wire.readers import FileConnection, NewColumn, NewReader
from runtime.engine.ingest import EpochWriter, Ingest, IngestConfig, IngestListener, Origin
from runtime.epochs import Cut
from runtime.relations import FeedAdaptor, Retention, RowAdaptor, row_schema
from runtime.service.readers.kept import KeptReader, KeptReaders, load, own_relation, store
from runtime.sources import Position
from tests.generators.ingest_lab import ListSource, at_sequence, feed
from tests.harness.stepper import Stepper
from tests.simulation.faults import CrashError
from tests.simulation.machine import Machine
from tests.simulation.market import Market
from tests.simulation.network import FeedServer, Network
from tests.simulation.shape import Shape
from tests.simulation.trace import Trace

RUN = Path("/simulated/run")
FEED = feed(12, per_request=2) + b"13,99,0,0,H,0,0,\n"
ROWS = 6
FIRST, SECOND = (NewReader(name, FileConnection("f"), columns=(NewColumn("n", "int64"),)) for name in ("one", "two"))


class Life:
    """One process on the machine of its predecessors, and its actions."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.writer = EpochWriter(RUN, lambda: 0, lambda _: None, store=machine.store(), disk=machine.disk)
        self.stepper = Stepper(seed)
        if self.writer.epoch < 0:
            self.writer.seal({})
        self.kept = load(self.writer.space)
        self.cuts = self.writer.recovered.cuts if self.writer.recovered else {}
        cut = self.cuts.get("feed", Cut("S1", 0, 0))
        source = ListSource(0, FEED, [40, 90], at=at_sequence(FEED), ends=False)
        adaptor = FeedAdaptor(self.writer.space, "feed", Retention(rows=50), cut.sequence + 1)
        start = Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples)
        origins = {0: Origin(0, "feed", source, adaptor, start)}
        for reader in self.kept.readers:
            origins[reader.number] = self.origin(reader)
        self.ingest = Ingest(IngestConfig(), self.writer, origins, IngestListener(), workers=self.stepper)

    def origin(self, reader: KeptReader) -> Origin:
        relation = own_relation(reader.wanted)
        assert relation is not None
        cut = self.cuts.get(reader.wanted.name, Cut("", 0, 0))
        data = b"".join(b"%d\n" % n for n in range(ROWS))
        start = Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples)
        adaptor = RowAdaptor(relation, row_schema(relation))
        source = ListSource(reader.number, data, [3])
        return Origin(reader.number, reader.wanted.name, source, adaptor, start, is_own=True)

    def changed(self, change: Callable[[KeptReaders], KeptReaders]) -> Callable[[], Mapping[str, pa.RecordBatch]]:
        def at_cut() -> Mapping[str, pa.RecordBatch]:
            store(self.writer.space, change(load(self.writer.space)))
            return {}

        return at_cut

    def add(self, wanted: NewReader) -> None:
        number = {"one": 1, "two": 2}[wanted.name]
        reader = KeptReader(number, wanted, self.writer.epoch + 1)
        self.ingest.begin_origin(
            lambda: self.origin(reader), self.changed(lambda kept: kept.with_reader(reader)), lambda _: None
        )

    def drop(self, name: str) -> None:
        self.ingest.end_origin(name, self.changed(lambda kept: kept.without(name, stays=True)), lambda _: None)

    def settle(self) -> None:
        self.stepper.run()
        self.ingest.request_barrier()
        self.stepper.run()

    def rows(self, name: str) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for epoch in range(1, self.writer.epoch + 1):
            table = self.writer.log.read(epoch).rows(name)
            for row in [] if table is None else table.to_pylist():
                found[tuple(row.values())[:-1]] += row["weight"]
        return Counter({row: weight for row, weight in found.items() if weight})


def machine_of(seed: int) -> Machine:
    chance, trace = random.Random(seed), Trace()
    return Machine(chance, Network(chance, FeedServer(Market(chance, Shape.of(chance).market), trace), trace), trace)


def live(machine: Machine, seed: int) -> None:
    """Run a process to its end: two readers come, one goes again."""
    life = Life(machine, seed)
    life.ingest.start()
    life.add(FIRST)
    life.stepper.run()
    life.add(SECOND)
    life.settle()
    life.drop("one")
    life.settle()
    life.ingest.stop()
    life.writer.close()


@pytest.mark.parametrize("powers_off", [False, True], ids=["kill", "power"])
def test_each_touch_of_the_disk_may_be_the_last(powers_off: bool) -> None:
    seen: Counter[str] = Counter()
    for point in range(400):
        machine = machine_of(point)
        machine.faults.crash_in = point
        try:
            live(machine, point)
        except CrashError:
            machine.kill(powers_off=powers_off)
            machine.faults.reborn()
        else:
            break
        again = Life(machine, point)
        names = {reader.wanted.name for reader in again.kept.readers}
        assert names == again.cuts.keys() - {"feed"}, "a reader is there with its cut, or not at all"
        left = {each.relation.name for each in again.kept.left}
        seen.update([f"{sorted(names)} {sorted(left)}"])
        gone = again.rows("one") if "one" in left else None
        again.ingest.start()
        for wanted in (FIRST, SECOND):
            if wanted.name not in names | left:
                again.add(wanted)
                again.stepper.run()
        again.settle()
        assert again.rows("two") == Counter({(n,): 1 for n in range(ROWS)})
        if gone is None:
            assert again.rows("one") == Counter({(n,): 1 for n in range(ROWS)})
        else:
            assert again.rows("one") == gone, "nothing of it follows"
        assert sum(again.rows("bids").values()) + sum(again.rows("asks").values()) > 0
        assert again.cuts.get("feed", Cut("", 0, 0)).sequence <= 12
        again.ingest.stop()
        again.writer.close()
    else:
        raise AssertionError("expected a life with fewer touches of the disk")
    assert seen.keys() >= {"[] []", "['one'] []", "['one', 'two'] []", "['two'] ['one']"}, seen
