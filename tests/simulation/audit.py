"""Checks of everything that was ever visible: epochs, results and files, against plain Python."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa

from runtime.compiler import Program, decode_program
from runtime.epochs import Cut, EpochLogReader, Footer, Segment, SnapshotDirectory, read_segment
from runtime.epochs.snapshots import VIEW_SECTION
from runtime.relations import Retention
from runtime.service.results.hub import Hub
from tests.generators.programs import normal
from tests.simulation.book import Book, Row
from tests.simulation.disk import Platter, SimulatedDisk
from tests.simulation.faults import Faults
from tests.simulation.market import SESSION, Market
from tests.simulation.process import RUN
from tests.simulation.trace import Trace
from tests.simulation.views import ANSWERS

__all__ = ["Audit", "AuditError", "add_rows", "difference"]

_EPOCHS, _RESULTS = RUN / "epochs", RUN / "results"


class AuditError(AssertionError):
    """A check of the audit failed."""


class Audit:
    """Reads the disk independently after every step; data that was visible once must remain."""

    def __init__(self, platter: Platter, market: Market, table: bytes, retention: Retention, trace: Trace) -> None:
        self._platter = platter
        self._disk = SimulatedDisk(platter, Faults(random.Random(0), trace))
        self._log = EpochLogReader(_EPOCHS, self._disk)
        self._snapshots = SnapshotDirectory(RUN / "snapshots", self._disk)
        self._market = market
        self._table = table
        self._retention = retention
        self._book = Book(market.messages, retention)
        self._result_book = Book(market.messages, retention)
        self._relations: dict[str, Counter[Row]] = {}
        self._sums: dict[str, int] = {}
        """File name → checksum of its visible bytes."""
        self._cuts: list[tuple[int, int]] = []
        """Feed's sequence and table's offset, by epoch."""
        self._time_ns = 0
        """Time of the newest epoch."""
        self._programs: dict[int, Program] = {}
        self._results: dict[str, Counter[Row]] = {}
        self._reads_file = False
        self._is_express_broken = False
        self._express_results: dict[str, Counter[Row]] = {}
        self._history: dict[int, dict[str, Counter[Row]]] = {}
        """Rows of every view, by version."""
        self._seen = (0, 0)
        self.epochs = 0
        self.messages = 0
        self.version = 0
        self.promised = 0
        """Newest version that the runtime regards as durable."""
        self.versions = 0
        self.fulls = 0

    def look(self) -> None:
        """Check the data that became visible since the last call."""
        seen = self._platter.version(_EPOCHS), self._platter.version(_RESULTS)
        if seen == self._seen:
            return
        self._seen = seen
        while self._disk.exists(self._log.path(self.epochs)):
            self._epoch(self._log.read(self.epochs))
        while (path := self._next_result()) is not None:
            self._result(path)
        for name in self._disk.names(_RESULTS):
            if name.endswith(".full") and name[0] != ".":
                self._full(name)

    def _next_result(self) -> str | None:
        prefix = f"{self.version:012d}-"
        found = [name for name in self._disk.names(_RESULTS) if name.startswith(prefix)]
        if len(found) > 1:
            raise AuditError(f"expected one result behind version {self.version}, was {sorted(found)}")
        return found[0] if found else None

    def _epoch(self, segment: Segment) -> None:
        segment.verify()
        footer, epoch = segment.footer, self.epochs
        self._sums[segment.path.name] = zlib.crc32(self._disk.read(segment.path))
        if footer.time_ns < self._time_ns:
            raise AuditError(f"expected epoch {epoch} not before {self._time_ns} ns, was {footer}")
        self._time_ns = footer.time_ns
        feed = footer.cuts.get("feed", Cut("", 0, 0))
        self._reads_file = feed.session == "feed"
        table = footer.cuts.get("brokers", Cut("", 0, 0))
        before, rows = self._cuts[-1] if self._cuts else (0, 0)
        if footer.to_epoch != epoch or feed.sequence < before or table.offset < rows:
            raise AuditError(f"expected epoch {epoch} behind message {before} and byte {rows}, was {footer}")
        if feed.sequence and feed.session not in {SESSION, "feed"}:
            raise AuditError(f"expected a cut in session {SESSION}, was {feed}")
        self._expect_whole_request(feed.sequence)
        self._cuts.append((feed.sequence, table.offset))
        good = sum(message is not None for message in self._market.messages[before : feed.sequence])
        good += self._table[rows : table.offset].count(b"\n")
        if footer.messages != good:
            raise AuditError(f"expected {good} messages in epoch {epoch}, was {footer.messages}: {footer}")
        if footer.control:
            self._programs[epoch] = decode_program(footer.control)
        self._add(segment)
        self._book.advance(feed.sequence)
        expected = self._book.relations() | {"brokers": Counter(self.brokers(table.offset).items())}
        for name, held in expected.items():
            found = self._relations.get(name, Counter())
            if found != held:
                raise AuditError(f"relation {name} at epoch {epoch}: {difference(found, held)}")
        self._express(segment)
        self.epochs += 1
        self.messages += footer.messages

    def _expect_whole_request(self, sequence: int) -> None:
        """Check that an epoch does not end between two messages of one request, which have the same time."""
        both = self._market.messages[sequence - 1 : sequence + 1] if sequence else []
        if len(both) == 2 and both[0] and both[1] and both[0].time_ns == both[1].time_ns:
            raise AuditError(f"expected an epoch to end with a request, was behind message {sequence}")

    def _express(self, segment: Segment) -> None:
        """Check the sections of the express lane, which are committed with the epoch."""
        epoch = self.epochs
        self._is_express_broken |= any(key.startswith("express/failed/") for key in segment.footer.attributes)
        if self._is_express_broken:
            return  # from here on sections do not add up
        program = self._programs[max(self._programs)]
        names = {view.name for view in program.views if view.lane == "express"} if epoch else set()
        self._express_results = {name: self._express_results.get(name, Counter()) for name in names}
        for section in segment.footer.sections:
            if section.name.startswith(VIEW_SECTION):
                add_rows(self._express_results[section.name.removeprefix(VIEW_SECTION)], segment.rows(section.name))
        self._failed(segment.footer)
        brokers = self.brokers(self._cuts[epoch][1])
        for name, found in self._express_results.items():
            expected = ANSWERS[name](self._book, brokers)
            if found != expected:
                raise AuditError(f"section of {name} at epoch {epoch}: {difference(found, expected)}")

    def _add(self, segment: Segment) -> None:
        for section in segment.footer.sections:
            if section.name.startswith(VIEW_SECTION):
                continue
            held = self._relations.setdefault(section.name, Counter())
            add_rows(held, segment.rows(section.name))

    def cut(self, epoch: int) -> tuple[int, int] | None:
        """Return the feed's sequence and the table's offset at the end of an epoch; None if the epoch was not seen."""
        return self._cuts[epoch] if epoch < len(self._cuts) else None

    def brokers(self, offset: int) -> dict[int, str]:
        """Return the brokers of the table up to an offset."""
        lines = self._table[:offset].decode().splitlines()
        return {int(number): name for number, name in (line.split(",") for line in lines)}

    def _result(self, name: str) -> None:
        segment = read_segment(_RESULTS / name, self._disk)
        segment.verify()
        footer = segment.footer
        if footer.from_epoch != self.version or footer.to_epoch >= self.epochs:
            raise AuditError(f"expected a result from {self.version} to {self.epochs - 1} at most, was {footer}")
        self._sums[name] = zlib.crc32(self._disk.read(segment.path))
        self._failed(footer)
        program = self._programs[max(epoch for epoch in self._programs if epoch <= footer.from_epoch + 1)]
        names = {view.name for view in program.views if view.lane == "spark" or view.on_spark}
        self._results = {name: held for name, held in self._results.items() if name in names}
        for section in footer.sections:
            if section.name not in names:
                raise AuditError(f"expected changes of {sorted(names)} in {name}, was {section.name}")
            add_rows(self._results.setdefault(section.name, Counter()), segment.rows(section.name))
        self.version = footer.to_epoch
        self.versions += 1
        sequence, offset = self._cuts[self.version]
        self._result_book.advance(sequence)
        brokers = self.brokers(offset)
        for view in sorted(names):
            expected, found = ANSWERS[view](self._result_book, brokers), self._results.get(view, Counter())
            if found != expected:
                raise AuditError(f"view {view} at version {self.version}: {difference(found, expected)}")
        self._history[self.version] = {view: Counter(self._results.get(view, ())) for view in names}

    def _full(self, name: str) -> None:
        """Check that a full result is the sum of the results up to its version, whatever process made it."""
        data = self._disk.read(_RESULTS / name)
        if self._sums.get(name) == (checksum := zlib.crc32(data)):
            return
        self._sums[name] = checksum
        segment = read_segment(_RESULTS / name, self._disk)
        segment.verify()
        self.fulls += 1
        expected = self._history[segment.footer.to_epoch]
        for view, held in expected.items():
            found: Counter[Row] = Counter()
            if segment.rows(view) is not None:
                add_rows(found, segment.rows(view))
            if found != held:
                raise AuditError(f"full result of {view} at {segment.footer.to_epoch}: {difference(found, held)}")

    def _failed(self, footer: Footer) -> None:
        failed = {key: text for key, text in footer.attributes.items() if key.startswith("failed/")}
        if failed:
            raise AuditError(f"expected no view to fail, was {failed}")

    def reopened(self, *, is_start: bool = True) -> None:
        """Check after a recovery that exactly the earlier visible data is present, byte for byte.

        After the end of a process, a file may remain that a failing disk could neither complete nor remove.
        """
        self.look()
        first = self._first()
        hidden = [n for n in self._disk.names(_EPOCHS) if n[0] == "." and n.endswith(".segment")]
        hidden += [n for n in self._disk.names(_RESULTS) if n[0] == "."]
        if hidden and is_start:
            raise AuditError(f"expected nothing left of what was not committed, was {hidden}")
        for epoch in range(first, self.epochs):
            self._unchanged(_EPOCHS / self._log.path(epoch).name)
        names = [name for name in self._disk.names(_RESULTS) if name[0].isdigit()]
        for name in names:
            self._unchanged(_RESULTS / name)
        newest = self._newest_result()
        if newest != self.version:
            raise AuditError(f"expected version {self.version} as the newest result, was {newest} of {names}")
        self.promised = self.version

    def _newest_result(self) -> int:
        names = [name for name in self._disk.names(_RESULTS) if name[0].isdigit()]
        return max((int(name.partition(".")[0].rpartition("-")[2]) for name in names), default=0)

    def crashed(self) -> None:
        """Process a crash: a visible result may be gone, unless it was reported as durable."""
        newest = self._newest_result()
        if newest < self.promised:
            raise AuditError(f"expected version {self.promised} to survive, was {newest}")
        if newest < self.version:
            self.version = newest
            self._results = {name: Counter(held) for name, held in self._history.get(newest, {}).items()}
            self._result_book = Book(self._market.messages, self._retention)
            self._result_book.advance(self._cuts[newest][0] if newest else 0)

    def _first(self) -> int:
        """Return the first remaining epoch, and check that a snapshot covers the earlier ones."""
        first = self._log.first()
        # The newest epoch stays even if there is a snapshot of it.
        if first and not {first - 1, first} & set(self._snapshots.complete(first)):
            raise AuditError(f"expected a snapshot of epoch {first - 1}, as the log begins behind it, was none")
        return first

    def hub(self, hub: Hub) -> None:
        """Check the rows of every view of a hub at its version."""
        for view in hub.views:
            if view.lane != "spark":
                continue
            found: Counter[Row] = Counter()
            add_rows(found, hub.result(view.name).rows())
            if found != self._history[hub.version].get(view.name):
                raise AuditError(f"hub's {view.name} at version {hub.version}: was {found}")

    def _unchanged(self, path: Path) -> None:
        data = self._disk.read(path)
        if zlib.crc32(data) != self._sums.get(path.name):
            raise AuditError(f"expected {path.name} as it was, was another file")

    def is_cut_at(self, sequence: int) -> bool:
        """Return True if the newest epoch ends after this message and the whole table."""
        return bool(self._cuts) and self._cuts[-1] == (sequence, len(self._table))

    def finished(self) -> None:
        """Check that everything was published."""
        last = max((n for n, m in enumerate(self._market.messages, 1) if m is not None), default=0)
        sequence, offset = self._cuts[-1]
        if (sequence, offset) != (last, len(self._table)):
            raise AuditError(f"expected a cut behind message {last} and byte {len(self._table)}, was {self._cuts[-1]}")
        if self.version != self.epochs - 1:
            raise AuditError(f"expected version {self.epochs - 1} published, was {self.version}")
        self.reopened(is_start=False)
        self._letters()

    def _letters(self) -> None:
        path = RUN / "dead-letters.jsonl"
        lines = bytes(self._disk.read(path)).splitlines() if self._disk.exists(path) else []
        found = [msgspec.json.decode(line)["data"] for line in lines]
        # Malformed messages after the last cut count only for a file that has ended, not for a feed that continues.
        last = len(self._market.lines) if self._reads_file else self._cuts[-1][0]
        expected = [
            line.decode().rstrip("\n")
            for line, message in zip(self._market.lines[:last], self._market.messages, strict=False)
            if message is None
        ]
        if found != expected:
            raise AuditError(f"expected dead letters {expected}, was {found}")


def add_rows(held: Counter[Row], table: pa.Table | None) -> None:
    assert table is not None
    for *values, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        row = normal(values)
        held[row] += weight
        if not held[row]:
            del held[row]


def difference(found: Counter[Row], expected: Counter[Row]) -> str:
    missing = {row: count - found[row] for row, count in expected.items() if count != found[row]}
    extra = {row: count for row, count in found.items() if row not in expected}
    return f"missing {missing}, not expected {extra}"
