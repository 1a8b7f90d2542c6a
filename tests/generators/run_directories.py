"""A runtime's run directory that a test fills by hand, like the processes of a runtime."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

from runtime.compiler import Column, NamedSelect, Relation, compile_program, encode_program
from runtime.engine.ingest import EpochWriter
from runtime.epochs import (
    Cut,
    EpochLog,
    EpochLogReader,
    Footer,
    ResultLog,
    RetentionConfig,
    SnapshotDirectory,
    add_up,
    retire,
)
from runtime.state import PersistedValue, Schema

__all__ = ["RunDirectory", "held_rows"]

RELATION = Relation("r", (Column("a", "int64"),))


class RunDirectory:
    """Epochs that each add a row and sometimes remove one, a value in the state, and a result for each epoch."""

    def __init__(self, directory: Path, epochs: int = 0) -> None:
        self.directory = directory
        self.writer = EpochWriter(directory, lambda: 7, lambda footer: None)
        self.results = ResultLog(directory / "results")
        self.snapshots = SnapshotDirectory(directory / "snapshots")
        self._count = self.writer.space.create(PersistedValue, "count", Schema(int), initial=0)
        self.at: list[Counter[int]] = []
        program = compile_program([NamedSelect("v", "SELECT a FROM r")], [RELATION])
        self.writer.seal({}, control=encode_program(program))
        self.at.append(Counter())
        for _ in range(epochs):
            self.seal()

    def seal(self) -> int:
        """Write an epoch and its result; return its number."""
        epoch = self.writer.epoch + 1
        deltas = [(epoch, 1)] + ([(epoch - 1, -1)] if epoch % 3 == 0 else [])
        rows = {"a": pa.array([a for a, _ in deltas], pa.int64()), "weight": pa.array([w for _, w in deltas])}
        batch = pa.record_batch(rows)
        self.writer.add({"r": batch}, 1)
        self._count.value += 1
        footer = self.writer.seal({"feed": Cut("SESSION", epoch, 0)})
        self.results.publish(epoch - 1, epoch, {"v": [batch]}, footer)
        self.at.append(self.at[-1].copy())
        for a, weight in deltas:
            self.at[-1][a] += weight
        return epoch

    def keep_small(self) -> None:
        """Take a snapshot and a full result, and remove data that is no longer needed, at once."""
        epoch, log = self.writer.epoch, self.writer.log
        self.snapshots.take(log, epoch)
        self.results.put_full({}, Footer(0, epoch))
        retire(log, self.snapshots, epoch, RetentionConfig(0, 0), 1)
        self.results.retire(epoch, 1)

    def tear(self, name: str) -> None:
        """Flip a bit in the middle of a file."""
        path = self.directory / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.with_suffix(".torn").write_bytes(data)  # a new file: the old one may be mapped
        path.with_suffix(".torn").rename(path)

    def close(self) -> None:
        self.writer.close()


def held_rows(directory: Path) -> tuple[int, Counter[int], int]:
    """Return the state with which a directory continues: epoch, the relation's rows, the value in the state."""
    writer = EpochWriter(directory, lambda: 8, lambda footer: None)
    try:
        epoch = writer.epoch
        base = SnapshotDirectory(directory / "snapshots").newest(epoch)
        log = EpochLogReader(directory / "epochs")
        rows = add_up(log, "r", base.footer.to_epoch if base else 0, epoch, base=base)
        held: Counter[int] = Counter()
        for a, weight in zip(*(column.to_pylist() for column in rows.columns), strict=True) if rows else ():
            held[a] += weight
        count = writer.space.get(PersistedValue[int], "count", Schema(int)).value
    finally:
        writer.close()
    assert isinstance(writer.log, EpochLog)
    return epoch, held, count
