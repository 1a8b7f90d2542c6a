"""Log with a catalogue that changes, read by source and processors without Spark; DuckDB gives the expected answers."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import duckdb
import msgspec
import pyarrow as pa

from runtime.compiler import NamedSelect, Program, Relation, compile_program, encode_program, extend_program
from runtime.epochs import EpochLog, Footer, SnapshotDirectory
from runtime.plan import without_view
from runtime.spark import processor
from runtime.spark.planning import shard_ids
from runtime.spark.processor import ShardProcessor
from runtime.spark.source import EpochReader
from tests.generators.deltas import delta_table
from tests.generators.programs import normal

Row = tuple[Any, ...]


class Value:
    """Value state of Spark."""

    def __init__(self) -> None:
        self.row: tuple[Any, ...] | None = None

    def exists(self) -> bool:
        return self.row is not None

    def get(self) -> tuple[Any, ...] | None:
        return self.row

    def update(self, row: tuple[Any, ...]) -> None:
        self.row = row


class Pages:
    """Map state of Spark."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return self.rows.get(key)

    def updateValue(self, key: tuple[Any, ...], row: tuple[Any, ...]) -> None:
        self.rows[key] = row

    def removeKey(self, key: tuple[Any, ...]) -> None:
        del self.rows[key]


class _Handle:
    """States of one shard."""

    def __init__(self) -> None:
        self.head = Value()
        self.pages = Pages()

    def getValueState(self, name: str, schema: str) -> Value:
        return self.head

    def getMapState(self, name: str, key_schema: str, value_schema: str) -> Pages:
        return self.pages


class ChangeoverLab:
    """Log with changing programs, read batch by batch; every version of every view is compared."""

    def __init__(self, directory: Path, relations: Sequence[Relation], selects: Sequence[NamedSelect], shards: int):
        self.directory = directory
        self.relations = {relation.name: relation for relation in relations}
        self.program: Program = compile_program(selects, relations)
        self.log = EpochLog(directory / "epochs")
        self.snapshots = SnapshotDirectory(directory / "snapshots")
        self.shards = shards
        self._base = 0
        self.at: list[dict[str, list[Row]]] = []
        self.programs: dict[int, Program] = {}
        self.results: dict[str, Counter[Row]] = {}
        self.failed: dict[str, str] = {}
        self.version = 0
        self.versions_checked = 0
        self._handles = [_Handle() for _ in range(shards)]
        self._database = duckdb.connect(config={"threads": 1})
        self._options = {
            "path": str(directory / "epochs"), "snapshots": str(directory / "snapshots"), "shards": str(shards),
            "max_epochs_per_batch": "64",
        }  # fmt: skip
        self.reader = EpochReader(self._options)
        self.seal({}, control=True)

    def seal(self, deltas: Mapping[str, Sequence[tuple[Row, int]]], *, control: bool = False) -> int:
        """Close an epoch; return its number."""
        epoch = len(self.at)
        data = encode_program(self.program) if control else b""
        sections = {n: delta_table(self.relations[n], rows).to_batches() for n, rows in deltas.items() if rows}
        self.log.publish(self.log.prepare(Footer(max(0, epoch - 1), epoch, control=data), sections))
        held = {name: list(rows) for name, rows in self.at[-1].items()} if self.at else {n: [] for n in self.relations}
        for name, rows in deltas.items():
            for row, weight in rows:
                held[name].append(row) if weight > 0 else held[name].remove(row)
        self.at.append(held)
        if control:
            self.programs[epoch] = self.program
        return epoch

    def add(self, *selects: NamedSelect) -> None:
        """Add views in the next epoch that is sealed with ``control``."""
        self.program = extend_program(self.program, selects, tuple(self.relations.values()))

    def drop(self, name: str) -> None:
        """Remove a view in the next epoch that is sealed with ``control``."""
        self.program = without_view(self.program, name)

    def restart(self) -> None:
        """Restart every process: only files and Spark's state survive."""
        processor._residents.clear()
        self.reader = EpochReader(self._options)

    def begin_anew(self, shards: int) -> None:
        """Lose Spark's data: Spark begins after the newest version, with ``shards`` shards."""
        self.shards, self._base = shards, self.version
        failed = msgspec.json.encode(self.failed).decode()
        self._options |= {"shards": str(shards), "base": str(self._base), "failed": failed}
        self._handles = [_Handle() for _ in range(shards)]
        self.restart()

    def batch(self, most: int = 64, *, lose: bool = False) -> bool:
        """Run one batch; return False if there is nothing to do.

        With ``lose``, its state and results are lost, and the next call runs it again.
        """
        newest = min(self.log.latest(), self.version + most)
        self.reader._look(newest)
        stops = [epoch - 1 for epoch in self.reader._programs if self.version + 1 < epoch <= newest]
        end = min([newest, *stops])
        if end <= self.version:
            return False
        held = [(handle.head.row, dict(handle.pages.rows)) for handle in self._handles]
        rows = self._read(self.version, end)
        answers = [answer for shard in range(self.shards) for answer in self._process(shard, rows)]
        if lose:
            for handle, (head, pages) in zip(self._handles, held, strict=True):
                handle.head.row, handle.pages.rows = head, pages
            return True
        self._publish(end, answers)
        self.reader.commit({"epoch": end})
        return True

    def _read(self, begin: int, end: int) -> list[dict[str, Any]]:
        partitions = self.reader.partitions({"epoch": begin}, {"epoch": end})
        executor = pickle.loads(pickle.dumps(self.reader))
        parts = [pickle.loads(pickle.dumps(partition)) for partition in partitions]
        return [row for part in reversed(parts) for batch in executor.read(part) for row in batch.to_pylist()]

    def _process(self, shard: int, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        key = shard_ids(self.shards)[shard]
        host = ShardProcessor(str(self.directory / "epochs"), self.shards, self._base)
        host.init(cast(Any, self._handles[shard]))
        given = [row for row in rows if row["shard"] == key]
        return [answer.asDict() for answer in host.handleInputRows((key,), cast(Any, iter(given)), None)]

    def _publish(self, end: int, answers: list[dict[str, Any]]) -> None:
        program = self.programs[max(epoch for epoch in self.programs if epoch <= self.version + 1)]
        names = {view.name for view in program.views}
        self.results = {name: rows for name, rows in self.results.items() if name in names}
        self.failed = {name: reason for name, reason in self.failed.items() if name in names}
        if 0 < self._base == self.version:
            self.results = {
                name: rows for name, rows in self.results.items() if name in self.failed
            }  # complete results follow
        for answer in answers:
            if answer["kind"] == "failed":
                self.failed[answer["view"]] = answer["payload"].decode()
            elif answer["kind"] == "changes":
                result = self.results.setdefault(answer["view"], Counter())
                table = pa.ipc.open_stream(answer["payload"]).read_all()
                for *values, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
                    result[normal(values)] += weight
        assert set(self.results) <= names, "only views of the program answer"
        self.version = end
        self._check(program)

    def _check(self, program: Program) -> None:
        held = self.at[self.version]
        for name, relation in self.relations.items():
            rows = delta_table(relation, [(row, 1) for row in held[name]])
            self._database.register(name, rows.select(range(len(relation.columns))))
        for view in program.views:
            if view.name not in self.failed:
                found = +self.results.get(view.name, Counter())
                assert all(count >= 0 for count in self.results.get(view.name, Counter()).values()), view.name
                expected = Counter(normal(row) for row in self._database.execute(view.sql).fetchall())
                assert found == expected, f"{view.name} at {self.version}"
                self.versions_checked += 1


def changes(chance: random.Random, held: Mapping[str, list[Row]]) -> dict[str, list[tuple[Row, int]]]:
    """Return deltas of bids and asks; the more rows there are, the more of the deltas are removals."""
    deltas: dict[str, list[tuple[Row, int]]] = {}
    for name in ("bids", "asks"):
        rows = list(held[name])
        found = deltas[name] = []
        for _ in range(chance.randint(0, 5)):
            if rows and chance.random() < len(rows) / 30:
                found.append((rows.pop(chance.randrange(len(rows))), -1))
            else:
                row = (chance.randint(1, 9), chance.randint(1, 10**6), chance.randint(1, 3), 10 * chance.randint(1, 9),
                       chance.randint(95, 105), chance.choice("XYZ"))  # fmt: skip
                rows.append(row)
                found.append((row, 1))
    return deltas
