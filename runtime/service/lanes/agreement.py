"""Whether the two lanes agree: the checksums of express views, compared at every version that Spark publishes.

```
express lane ──rows of the epoch──▶ committer ──checksums in the footer of each epoch────┐
Spark ──changes from version to version──▶ `LaneAgreement.published`: sum of its own ────┴─▶ equal, or an alarm
```

A version of Spark ends with an epoch, and the footer of that epoch says what the express lane's views were there. So
nothing has to be kept of the epochs in between, and a restart has nothing to remember: Spark's sum begins with the rows
of the result log, the express lane's with its restored results.

A view is not compared at an epoch whose footer does not have it: one that has failed, all of them where the express
lane has failed, and all of them in epochs of a release that wrote no checksums. Nor is a view compared that has failed
on Spark; both failures are shown on their own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec
from twisted.logger import Logger

from runtime.epochs import EpochLogReader, ResultLog, checksums_of
from runtime.plan import Program, View
from runtime.spark.standing import read_standing
from runtime.views.checksum import MODULUS, changes_checksum

if TYPE_CHECKING:
    from runtime.spark.lane import Published

__all__ = ["LaneAgreement", "ViewAgreement"]

Comparison = Literal["none", "equal", "differs", "failed"]


class ViewAgreement(msgspec.Struct, frozen=True):
    """What the last comparison of a view has shown."""

    comparison: Comparison = "none"
    """``none``: not compared yet. ``failed``: the view has failed on Spark."""
    epoch: int = 0
    """Where the view was compared last; 0 before the first time."""
    since: int = 0
    """Of a view that differs: the first epoch at which it did."""
    reason: str = ""
    """Of a view that has failed on Spark: why."""


class LaneAgreement:
    """Sums up what Spark publishes of express views and compares it with the footers of the epochs.

    `begin` and `published` are called on one thread after the other, those of Spark; what they find is read on any.
    """

    _log = Logger()

    def __init__(self, results: ResultLog, log: EpochLogReader) -> None:
        self._results = results
        self._epochs = log
        self._views: dict[str, View] = {}
        self._checksums: dict[str, int] = {}
        self._lock = threading.Lock()
        self._agreements: dict[str, ViewAgreement] = {}
        self.comparisons = 0
        """Comparisons of one view at one version, so far."""
        self.differences = 0
        """Those of them that have found a difference."""

    def begin(self) -> None:
        """Sum up what stands published, before Spark publishes more; raises `EpochLogError`."""
        standing = read_standing(self._results, self._epochs)
        self._adopt(standing.program)
        for name, view in self._views.items():
            if (reason := standing.failed.get(name)) is not None:
                self._fail(name, reason)
            else:
                self._checksums[name] = changes_checksum(view, standing.views[name].rows())

    def published(self, published: Published) -> None:
        """Spark has published a version: add its changes, and compare."""
        if published.program is not None:
            self._adopt(published.program)
        for name in published.failed:
            if name in self._views:
                self._fail(name, published.failed[name])
        for name in self._checksums:
            if (rows := published.changes.get(name)) is not None:
                self._checksums[name] = (self._checksums[name] + changes_checksum(self._views[name], rows)) % MODULUS
        self._compare(published.to_epoch, checksums_of(published.footer))

    def of(self, view: str) -> ViewAgreement:
        """What is known of a view; one that is kept on one lane alone is never compared."""
        with self._lock:
            return self._agreements.get(view, ViewAgreement())

    def differing(self) -> dict[str, ViewAgreement]:
        """The views whose lanes differ."""
        with self._lock:
            return {name: each for name, each in self._agreements.items() if each.comparison == "differs"}

    def _adopt(self, program: Program) -> None:
        self._views = {view.name: view for view in program.views if view.on_spark}
        with self._lock:
            self._agreements = {name: each for name, each in self._agreements.items() if name in self._views}
            failed = {name for name, each in self._agreements.items() if each.comparison == "failed"}
        self._checksums = {name: self._checksums.get(name, 0) for name in self._views if name not in failed}

    def _fail(self, name: str, reason: str) -> None:
        self._checksums.pop(name, None)
        with self._lock:
            epoch = self._agreements.get(name, ViewAgreement()).epoch
            self._agreements[name] = ViewAgreement("failed", epoch, reason=reason)

    def _compare(self, epoch: int, express: Mapping[str, int]) -> None:
        for name, spark in self._checksums.items():
            if (early := express.get(name)) is None:
                continue
            before = self.of(name)
            is_equal = spark == early
            if is_equal:
                agreement = ViewAgreement("equal", epoch)
            else:
                agreement = ViewAgreement("differs", epoch, before.since or epoch)
            with self._lock:
                self._agreements[name] = agreement
                self.comparisons += 1
                self.differences += not is_equal
            if is_equal and before.comparison == "differs":
                self._log.info("view {view}: the lanes agree again at epoch {epoch}", view=name, epoch=epoch)
            elif not is_equal and before.comparison != "differs":
                self._log.error(
                    "view {view}: the lanes differ at epoch {epoch}: expected checksum {spark:016x} as Spark has it, "
                    "was {express:016x} in the express lane; Spark's answer is the one of record",
                    view=name,
                    epoch=epoch,
                    spark=spark,
                    express=early,
                )
