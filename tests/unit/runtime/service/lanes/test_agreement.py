"""What a comparison of the lanes says of views that fail, that only one lane has, and that agree again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from runtime.compiler import Column, NamedSelect, Relation, compile_program, encode_program
from runtime.epochs import EpochLog, Footer, ResultLog, with_checksums
from runtime.plan import Program, with_record, without_view
from runtime.service.lanes.agreement import LaneAgreement, ViewAgreement
from runtime.spark.lane import Published
from runtime.views.checksum import changes_checksum

R = Relation("r", (Column("a", "int64"),))
PROGRAM = with_record(
    compile_program([NamedSelect(name, "SELECT a FROM r", lane="express") for name in ("v", "w")], [R]), on_spark=True
)


def rows(*values: int, weight: int = 1) -> pa.Table:
    return pa.table({"a": values, "weight": [weight] * len(values)})


def checksum(*values: int) -> int:
    return changes_checksum(PROGRAM.views[0], rows(*values))


class Lab:
    """A log of one program, results beside it, and versions."""

    def __init__(self, directory: Path, program: Program = PROGRAM) -> None:
        self._log = EpochLog(directory / "epochs")
        self._log.publish(self._log.prepare(Footer(0, 0, control=encode_program(program)), {}))
        self.results = ResultLog(directory / "results")
        self.version = 0
        self.begin()

    def begin(self) -> None:
        self.agreement = LaneAgreement(self.results, self._log)
        self.agreement.begin()

    def publish(
        self,
        spark: dict[str, pa.Table],
        express: dict[str, int],
        program: Program | None = None,
        failed: dict[str, str] | None = None,
    ) -> None:
        before, self.version = self.version, self.version + 1
        footer = Footer(before, self.version)
        control = encode_program(program) if program else b""
        attributes = {f"failed/{name}": why for name, why in (failed or {}).items()}
        self.results.publish(
            before,
            self.version,
            {name: table.to_batches() for name, table in spark.items()},
            Footer(before, self.version, control=control, attributes=attributes),
        )
        footer = with_checksums(footer, express) if express else footer
        self.agreement.published(Published(before, self.version, spark, failed or {}, footer, program))


def test_views_that_agree_differ_and_agree_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.publish({"v": rows(1, 2)}, {"v": checksum(1, 2), "w": 0})
    assert lab.agreement.of("v") == lab.agreement.of("w") == ViewAgreement("equal", 1)
    lab.publish({"v": rows(3)}, {"v": checksum(1, 2), "w": 0})
    lab.publish({}, {"v": checksum(1, 2), "w": 0})
    assert lab.agreement.differing() == {"v": ViewAgreement("differs", 3, 2)}
    lab.publish({"v": rows(3, weight=-1)}, {"v": checksum(1, 2), "w": 0})
    assert (lab.agreement.differing(), lab.agreement.of("v")) == ({}, ViewAgreement("equal", 4))
    assert (lab.agreement.comparisons, lab.agreement.differences) == (8, 2)


def test_an_epoch_without_checksums_is_not_compared(tmp_path: Path) -> None:
    """As of an earlier release, or of a lane that has failed; what Spark says of it counts in the next one."""
    lab = Lab(tmp_path)
    lab.publish({"v": rows(1)}, {})
    assert (lab.agreement.of("v"), lab.agreement.comparisons) == (ViewAgreement(), 0)
    lab.publish({"v": rows(2)}, {"v": checksum(1, 2)})
    assert lab.agreement.of("v") == ViewAgreement("equal", 2)


def test_a_view_that_failed_on_spark_is_not_compared(tmp_path: Path) -> None:
    """Until it is dropped; a restart knows that too."""
    lab = Lab(tmp_path)
    lab.publish({"v": rows(1)}, {"v": checksum(1)})
    lab.publish({}, {"v": checksum(1, 2), "w": 0}, failed={"v": "too large"})
    assert lab.agreement.of("v") == ViewAgreement("failed", 1, reason="too large")
    lab.publish({"w": rows(5)}, {"v": checksum(1, 2), "w": checksum(5)})
    lab.begin()
    lab.publish({"w": rows(6)}, {"v": checksum(1, 2), "w": checksum(5, 6)})
    assert (lab.agreement.of("v").comparison, lab.agreement.of("w").comparison) == ("failed", "equal")
    lab.publish({}, {"w": checksum(5, 6)}, program=without_view(PROGRAM, "v"))
    assert lab.agreement.of("v") == ViewAgreement()
    lab.publish({"v": rows(9)}, {"v": checksum(9), "w": checksum(5, 6)}, program=PROGRAM)
    assert lab.agreement.of("v").comparison == "equal"


def test_a_dropped_view_leaves_nothing_to_its_namesake(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.publish({"v": rows(1)}, {"v": checksum(1), "w": 0})
    lab.publish({}, {"w": 0}, program=without_view(PROGRAM, "v"))
    assert lab.agreement.of("v") == ViewAgreement()
    lab.publish({"v": rows(9)}, {"v": checksum(9), "w": 0}, program=PROGRAM)
    assert lab.agreement.of("v") == ViewAgreement("equal", 3)


def test_views_of_one_lane_are_not_compared(tmp_path: Path) -> None:
    """As those of an earlier release's program, which the express lane keeps alone."""
    lab = Lab(tmp_path, with_record(PROGRAM, on_spark=False))
    lab.publish({"v": rows(1)}, {"v": 0, "w": 0})
    assert lab.agreement.comparisons == 0


def test_a_failed_comparison_stops_no_version_and_no_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    lab.publish({"v": rows(1)}, {"v": checksum(1)})
    with monkeypatch.context() as patched:
        patched.setattr("runtime.service.lanes.agreement.changes_checksum", lambda *_: 1 // 0)
        lab.publish({"v": rows(2)}, {"v": checksum(1, 2)})
    assert lab.agreement.of("v") == ViewAgreement("equal", 1)
    lab.publish({"v": rows(3)}, {"v": checksum(1, 2, 3)})
    lab.publish({"v": rows(4)}, {"v": checksum(1, 2, 3, 4)})
    assert (lab.agreement.of("v"), lab.agreement.differences) == (ViewAgreement("equal", 4), 0)


def test_a_restart_sums_up_what_is_published(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.publish({"v": rows(1, 2)}, {"v": checksum(1, 2)})
    lab.publish({"v": rows(2, weight=-1)}, {"v": checksum(1)})
    lab.begin()
    lab.publish({"v": rows(4)}, {"v": checksum(1, 4)})
    assert lab.agreement.of("v") == ViewAgreement("equal", 3)
