"""What the express lane says of a new catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.compiler import Column, NamedSelect, Relation, compile_program, encode_program
from runtime.engine.ingest import EpochWriter, InlineCommitter
from runtime.epochs import EpochLogReader, checksums_of
from runtime.plan import View, with_record
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
