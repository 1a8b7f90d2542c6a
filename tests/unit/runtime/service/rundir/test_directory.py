"""Which views Spark keeps in a run directory: of a new one, of one of an earlier release, and without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from runtime.compiler import NamedSelect, SqlError, StreamClauses, StreamSelect
from runtime.engine.ingest import EpochWriter
from runtime.epochs import LOCAL_DISK, Cut, EpochLogReader
from runtime.plan import Program, decode_program, encode_program, with_record
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError
from runtime.service.inputs.upstreams import UpstreamConfig
from runtime.service.rundir.directory import RunDirectory

SLOW = NamedSelect("slow", "SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol")
FAST = NamedSelect("fast", SLOW.sql, lane="express")


def begun(directory: Path, selects: Sequence[NamedSelect] = (), runs_spark: bool | None = None) -> tuple[bool, Program]:
    """Take a directory, and let it go again; whether Spark is to run, and the newest program."""
    config = LiveConfig(directory=directory, feed=("127.0.0.1", 1), runs_spark=runs_spark)
    with closing(
        RunDirectory(
            config, selects, disk=LOCAL_DISK, now_ns=lambda: 1, on_epoch=lambda _: None, on_update=lambda _: None
        )
    ) as found:
        return found.runs_spark, decode_program(found.writer.control)


def on_spark(program: Program) -> dict[str, bool]:
    return {view.name: view.on_spark for view in program.views}


def test_express_views_alone_need_no_spark(tmp_path: Path) -> None:
    runs_spark, program = begun(tmp_path, [FAST])
    assert (runs_spark, on_spark(program)) == (False, {"fast": False})


@pytest.mark.parametrize(("selects", "wanted"), [([SLOW, FAST], None), ([FAST], True)])
def test_where_spark_runs_it_keeps_every_view(tmp_path: Path, selects: list[NamedSelect], wanted: bool | None) -> None:
    runs_spark, program = begun(tmp_path, selects, wanted)
    assert (runs_spark, on_spark(program)["fast"]) == (True, True)
    assert begun(tmp_path) == (True, program)
    assert EpochLogReader(tmp_path / "epochs").latest() == 1, "nothing is sealed where nothing changes"


def test_express_views_of_an_earlier_release_come_to_spark(tmp_path: Path) -> None:
    """By a control record of their own, whose cuts are those of the epoch before."""
    _, program = begun(tmp_path, [SLOW, FAST])
    with closing(EpochWriter(tmp_path, lambda: 1, lambda _: None)) as writer:
        old = with_record(program, on_spark=False)
        writer.seal({"feed": Cut("s", 7, 70)}, control=encode_program(old))
    assert begun(tmp_path) == (True, program)
    footer = EpochLogReader(tmp_path / "epochs").read(3).footer
    assert (footer.cuts, decode_program(footer.control)) == ({"feed": Cut("s", 7, 70)}, program)


def test_without_spark_the_express_lane_keeps_its_views_alone(tmp_path: Path) -> None:
    """And Spark gets them back when it runs again."""
    begun(tmp_path, [FAST], True)
    assert on_spark(begun(tmp_path, runs_spark=False)[1]) == {"fast": False}
    assert on_spark(begun(tmp_path, runs_spark=True)[1]) == {"fast": True}


def test_a_view_of_spark_alone_needs_it(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="expected views of the express lane for --no-spark, was 'slow'"):
        begun(tmp_path, [SLOW, FAST], False)


def test_spark_needs_the_epochs_behind_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are retired where it did not run for a while."""
    begun(tmp_path, [FAST], True)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "000000000000-000000000001.result").touch()
    monkeypatch.setattr("runtime.epochs.EpochLog.programs", lambda _: range(9))
    monkeypatch.setattr("runtime.epochs.EpochLog.first", lambda _: 3)
    with pytest.raises(ServiceError, match=r"expected epoch 2 in .*, was a log that begins with epoch 3"):
        begun(tmp_path)
    assert begun(tmp_path, runs_spark=False)[0] is False
    monkeypatch.setattr("runtime.epochs.EpochLog.first", lambda _: 2)
    assert begun(tmp_path)[0] is True


def declared(sql: str) -> StreamSelect:
    return StreamSelect(NamedSelect("quotes", sql), StreamClauses(100, 10**9, 0))


def test_a_stream_over_touches_is_refused_beside_upstreams(tmp_path: Path) -> None:
    """It would wait for ever: upstreams pass on changes of relations, and touches are none."""
    upstream = UpstreamConfig("east", tmp_path / "east")
    quotes = declared("SELECT t, symbol, bid_price FROM touches")

    def begin(directory: Path, upstreams: tuple[UpstreamConfig, ...]) -> None:
        config = LiveConfig(directory=directory, feed=("127.0.0.1", 1), upstreams=upstreams)
        RunDirectory(
            config, [], [quotes], disk=LOCAL_DISK, now_ns=lambda: 1, on_epoch=lambda _: None, on_update=lambda _: None
        ).close()

    with pytest.raises(SqlError, match=r"does not read touches, as the upstreams of this runtime \(east\)"):
        begin(tmp_path / "new", (upstream,))
    begin(tmp_path / "old", ())
    with pytest.raises(ServiceError, match="stream quotes: expected a stream that does not read touches"):
        begin(tmp_path / "old", (upstream,))
