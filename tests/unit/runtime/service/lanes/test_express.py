"""Express lane: the first results of a catalogue, and the preparation of new views."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime.compiler import Column, NamedSelect, Relation, compile_program, encode_program
from runtime.engine.ingest import EpochWriter, InlineCommitter
from runtime.epochs import EpochLogReader, checksums_of
from runtime.plan import Program, View, with_record
from runtime.service.lanes.express import ExpressLane
from runtime.views.checksum import changes_checksum

R = Relation("r", (Column("a", "int64"),))


@pytest.mark.parametrize("on_spark", [True, False])
def test_the_first_version_has_checksums_if_spark_has_the_views(tmp_path: Path, on_spark: bool) -> None:
    """A sum of nothing is a row; one of no groups is none."""
    selects = [
        NamedSelect("total", "SELECT SUM(a) AS s FROM r", lane="express"),
        NamedSelect("groups", "SELECT a, COUNT(*) AS n FROM r GROUP BY a", lane="express"),
    ]
    program = with_record(compile_program(selects, [R]), on_spark=on_spark)
    writer = EpochWriter(tmp_path, lambda: 0, lambda footer: None, committer=InlineCommitter())
    lane = ExpressLane(writer, tmp_path, lambda update: None)
    writer.seal({}, control=encode_program(program))
    writer.add_sections(lane.first(program))
    writer.seal({})
    writer.close()
    segment = EpochLogReader(tmp_path / "epochs").read(1)
    rows = segment.rows("view/total")
    assert rows is not None
    views: dict[str, View] = {view.name: view for view in program.views}
    expected = {"total": changes_checksum(views["total"], rows), "groups": 0}
    assert checksums_of(segment.footer) == (expected if on_spark else {})
    assert expected["total"] != 0


class GrowingLog:
    """Log of 1,000 epochs that grows by given numbers of epochs, each while it is read once."""

    def __init__(self, growths: Sequence[int]) -> None:
        self.reads: list[tuple[int, Any]] = []
        self._sizes = list(accumulate(growths, initial=1_000))

    @property
    def epoch(self) -> int:
        """Newest epoch."""
        return self._sizes[len(self.reads)]

    def read(self, old: Any, new: Any, epoch: int, before: Any = None) -> Any:
        """Return the rows as of an epoch; see `Filling`."""
        del old, new
        self.reads.append((epoch, before))
        return SimpleNamespace(epoch=epoch)


@pytest.mark.parametrize(
    ("growths", "reads"),
    [
        ([16, 99], 1),
        ([900, 200, 17, 3, 99], 4),
        ([900, 900, 99], 2),
        ([900, 901, 99], 2),
        ([900 - number for number in range(50)], 10),
    ],
    ids=["near at once", "near after a while", "as fast as it is read", "faster than it is read", "slightly slower"],
)
def test_preparing_ends_while_the_log_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, growths: list[int], reads: int
) -> None:
    """The barrier reads the epochs after the newest that was read before it."""
    writer = EpochWriter(tmp_path, lambda: 0, lambda footer: None, committer=InlineCommitter())
    lane = ExpressLane(writer, tmp_path, lambda update: None)
    writer.close()
    log, prepared = GrowingLog(growths), list[Any]()
    monkeypatch.setattr(lane, "_filling", log)
    monkeypatch.setattr(lane, "_writer", log)
    lane.pipeline = cast(Any, SimpleNamespace(prepare=prepared.append))
    view = NamedSelect("total", "SELECT SUM(a) AS s FROM r", lane="express")
    lane.prepare(Program((), (), ()), compile_program([view], [R]))
    assert [each.epoch for each in prepared] == [log.reads[-1][0]]
    assert len(log.reads) == reads
    assert [None if before is None else before.epoch for _, before in log.reads] == [
        None, *[epoch for epoch, _ in log.reads[:-1]],
    ]  # fmt: skip
