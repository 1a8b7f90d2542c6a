"""Checks of a run directory after a kill: it must agree with the feed up to its last epoch, exactly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deltabook.wire.text import FeedMessage
from runtime.epochs import EpochLogReader, SnapshotDirectory, add_up, read_segment
from runtime.service.rundir.upkeep import used_bytes
from tests.harness.moments import as_rows
from tests.integration._oracle import Replayed

__all__ = ["Held", "Rows"]

Rows = Counter[tuple[Any, ...]]


class Held:
    """Run directory that is checked after every kill; the oracle advances with it."""

    def __init__(
        self,
        directory: Path,
        views: Sequence[Path],
        express: Sequence[Path],
        told: Callable[[int, int], list[FeedMessage]],
    ) -> None:
        """Create the checks; ``express`` are views of that lane, ``told`` returns the feed's messages of a range of
        numbers.
        """
        self._directory = directory
        self._views, self._express = list(views), list(express)
        self._express_rows: dict[str, Rows] = {view.stem: Counter() for view in express}
        self._express_at = -1
        self._told = told
        self._oracle = Replayed()
        self.cuts: dict[int, int] = {}
        """Number of the last message of every epoch seen so far."""
        self.most_epochs = self.most_bytes = self.checked = 0

    def check(self, chance: random.Random) -> int:
        """Check the whole directory; return the number of the last message of the newest epoch."""
        newest = self._check_epochs()
        versions = self._versions()
        chosen = self._chosen(list(versions), chance)
        log = EpochLogReader(self._directory / "epochs")
        # The express lane's changes are in the epochs themselves: the rows of one epoch need all epochs before it.
        chosen_express = self._chosen(range(log.latest() + 1), chance) if self._express and not log.first() else set()
        for epoch in sorted(chosen | chosen_express):
            self._advance(self.cuts[epoch])
            answers = self.answers()
            if epoch in chosen:
                assert versions[epoch]() == {view.stem: answers[view.stem] for view in self._views}, f"version {epoch}"
            if epoch in chosen_express:
                rows = self._express_until(log, epoch)
                assert rows == {view.stem: answers[view.stem] for view in self._express}, f"express, epoch {epoch}"
            self.checked += 1
        if newest >= self._oracle.messages:
            self._advance(newest)
            self._check_relations()
        self.most_bytes = max(self.most_bytes, used_bytes(self._directory))
        return newest

    def answers(self) -> dict[str, Rows]:
        """Return the rows of the views after the messages that were last checked."""
        return self._oracle.answers([*self._views, *self._express])

    def _chosen(self, epochs: Sequence[int], chance: random.Random) -> set[int]:
        """Return the newest epoch ahead of the oracle, and two random ones."""
        after = [epoch for epoch in epochs if self.cuts.get(epoch, 0) > self._oracle.messages]
        return {*chance.sample(after, min(2, len(after))), *after[-1:]}

    def _express_until(self, log: EpochLogReader, epoch: int) -> dict[str, Rows]:
        for one in range(self._express_at + 1, epoch + 1):
            segment = log.read(one)
            for name, weights in self._express_rows.items():
                if (table := segment.rows(f"view/{name}")) is not None:
                    for row, weight in _weighted(table):
                        weights[row] += weight
                assert min(weights.values(), default=0) >= 0, f"{name} at {one} lacks rows that are removed"
        self._express_at = epoch
        return {name: +weights for name, weights in self._express_rows.items()}

    def _advance(self, sequence: int) -> None:
        if sequence > self._oracle.messages:
            self._oracle.feed(self._told(self._oracle.messages + 1, sequence))

    def _check_epochs(self) -> int:
        """Check that every message is in exactly one epoch, and that epochs never change; return the last message."""
        log = EpochLogReader(self._directory / "epochs")
        first, latest = log.first(), log.latest()
        self.most_epochs = max(self.most_epochs, latest - first + 1)
        before: int | None = 0 if first == 0 else self.cuts.get(first - 1)
        for epoch in range(first, latest + 1):
            footer = log.read(epoch).footer
            cut = footer.cuts["feed"].sequence if "feed" in footer.cuts else 0
            if before is not None:
                assert footer.messages == cut - before, f"epoch {epoch}"
            assert self.cuts.setdefault(epoch, cut) == cut, f"epoch {epoch} was cut again"
            before = cut
        return before or 0

    def _versions(self) -> dict[int, Callable[[], dict[str, Rows]]]:
        """Return the published versions that can be read: by number, the function that returns the rows."""
        results = self._directory / "results"
        fulls = sorted(results.glob("[0-9]*.full"))
        base = int(fulls[0].stem) if fulls else 0
        spans: list[tuple[int, Path]] = []
        at = base
        for path in sorted(results.glob("[0-9]*.result")):
            begin, end = map(int, path.stem.split("-"))
            if begin >= base:
                assert begin == at, f"a hole before {path.name}"
                at = end
                spans.append((end, path))

        def rows(version: int) -> dict[str, Rows]:
            held: dict[str, Rows] = {view.stem: Counter() for view in self._views}
            for path in [*fulls[:1], *(path for end, path in spans if end <= version)]:
                segment = read_segment(path)
                for name, weights in held.items():
                    if (table := segment.rows(name)) is not None:
                        for row, weight in _weighted(table):
                            weights[row] += weight
            for name, weights in held.items():
                assert min(weights.values(), default=0) >= 0, f"{name} at {version} lacks rows that are removed"
                held[name] = +weights
            return held

        return {version: (lambda v=version: rows(v)) for version, _ in spans}  # type: ignore[misc]

    def _check_relations(self) -> None:
        """Check that the newest snapshot and the epochs after it add up to the live rows."""
        log = EpochLogReader(self._directory / "epochs")
        base = SnapshotDirectory(self._directory / "snapshots").newest(log.latest())
        begin = base.footer.to_epoch if base else 0
        assert base or log.first() <= 1, "nothing stands for the epochs that are gone"
        for relation, expected in (
            ("bids", self._oracle.relation("B")),
            ("asks", self._oracle.relation("S")),
            ("trades", self._oracle.retained_trades()),
        ):
            table = add_up(log, relation, begin, log.latest(), base=base)
            assert (Counter() if table is None else as_rows(table)) == Counter(expected), relation


def _weighted(table: Any) -> list[tuple[tuple[Any, ...], int]]:
    *columns, weights = (column.to_pylist() for column in table.columns)
    rows = zip(*columns, strict=True) if columns else ()
    exact = (tuple(v if v is None or isinstance(v, str) else int(v) for v in row) for row in rows)
    return list(zip(exact, weights, strict=True))
