"""Comparison of the two lanes: checksums of express views are compared at every version that Spark publishes.

```
express lane ──rows of the epoch──▶ committer ──checksums in the footer of each epoch────┐
Spark ──changes from version to version──▶ `LaneAgreement.published`: sum of its own ────┴─▶ equal, or an alarm
```

A version of Spark ends with an epoch, and the footer of that epoch has the checksums of the express lane's views.
Therefore no checksums of the epochs in between are kept, and no checksum has to survive a restart. After a restart,
Spark's checksum begins with the rows of the result log, and the express lane's checksum with the restored results of
that lane.

A view is not compared at an epoch whose footer does not have its checksum, because the view or the whole express lane
has failed, or because the epoch is of a release without checksums. A view that has failed on Spark is not compared
either. Both kinds of failure are reported elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec
from twisted.logger import Logger

from runtime.epochs import EpochLogReader, ResultLog, checksums_of
from runtime.plan import Program, View
from runtime.spark.published_state import read_published_state
from runtime.views.checksum import MODULUS, changes_checksum

if TYPE_CHECKING:
    from runtime.spark.lane import Published

__all__ = ["LaneAgreement", "ViewAgreement"]

Comparison = Literal["none", "equal", "differs", "failed"]


class ViewAgreement(msgspec.Struct, frozen=True):
    """Result of the last comparison of a view."""

    comparison: Comparison = "none"
    """Outcome: ``none`` if the view is not compared yet, ``failed`` if it has failed on Spark."""
    epoch: int = 0
    """Epoch of the last comparison; 0 before the first one."""
    since: int = 0
    """First epoch at which the lanes differed, if they differ."""
    reason: str = ""
    """Reason why the view failed on Spark; empty if it did not."""


class LaneAgreement:
    """Comparer of the checksums of express views on Spark with those in the footers of the epochs.

    `begin` and `published` run on Spark's threads, one after the other; results may be read on any thread.
    """

    _log = Logger()

    def __init__(self, results: ResultLog, log: EpochLogReader) -> None:
        self._results = results
        self._epochs = log
        self._views: dict[str, View] = {}
        self._checksums: dict[str, int] = {}
        self._is_behind = False  # True if the checksums lack a version, after an error
        self._lock = threading.Lock()
        self._agreements: dict[str, ViewAgreement] = {}
        self.comparisons = 0
        """Number of comparisons so far; one comparison is of one view at one version."""
        self.differences = 0
        """Number of comparisons that showed a difference."""

    def begin(self) -> None:
        """Compute the checksums of the published results, before Spark publishes more.

        Raises `EpochLogError` if a log is damaged.
        """
        state = read_published_state(self._results, self._epochs)
        self._adopt(state.program)
        for name, view in self._views.items():
            if (reason := state.failed.get(name)) is not None:
                self._fail(name, reason)
            else:
                self._checksums[name] = changes_checksum(view, state.views[name].rows())

    def published(self, published: Published) -> None:
        """Add the changes of a version that Spark has published, and compare.

        The version is published even if its comparison fails: an error is logged, and the next comparison begins with
        the published results.
        """
        try:
            if self._is_behind:
                self.begin()
            else:
                self._add(published)
            self._is_behind = False
            self._compare(published.to_epoch, checksums_of(published.footer))
        except Exception:  # noqa: BLE001 (the published version must still reach its subscribers)
            self._is_behind = True
            self._log.failure("the lanes are not compared at epoch {epoch}", epoch=published.to_epoch)

    def _add(self, published: Published) -> None:
        if published.program is not None:
            self._adopt(published.program)
        for name in published.failed:
            if name in self._views:
                self._fail(name, published.failed[name])
        for name in self._checksums:
            if (rows := published.changes.get(name)) is not None:
                self._checksums[name] = (self._checksums[name] + changes_checksum(self._views[name], rows)) % MODULUS

    def of(self, view: str) -> ViewAgreement:
        """Return the last comparison of a view; a view that only one lane maintains is never compared."""
        with self._lock:
            return self._agreements.get(view, ViewAgreement())

    def differing(self) -> dict[str, ViewAgreement]:
        """Return the views whose lanes differ."""
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
            if (own := express.get(name)) is None:
                continue
            before = self.of(name)
            is_equal = spark == own
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
                    express=own,
                )
