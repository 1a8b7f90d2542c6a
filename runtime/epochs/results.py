"""Result log: changes of views, with one durable segment for each published version.

```
000000000120.full                        every view's rows at version 120
000000000115-000000000120.result         changes from version 115 to 120
000000000120-000000000131.result …
```

A result covers the epochs ``(from, to]`` and has a table for each view, with the view's columns and ``weight``.
Publishing is idempotent: a version that exists already is not changed, so that a repeated batch is harmless. A reader
that starts at a full result need not read the results before it; the results after it are contiguous.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from runtime.epochs.disk import LOCAL_DISK, Disk
from runtime.epochs.errors import EpochLogError, MissingSegmentError, TornSegmentError
from runtime.epochs.segment import Footer, Segment, read_segment, write_segment

__all__ = ["ResultLog"]

_SUFFIX: Final = ".result"
_FULL_SUFFIX: Final = ".full"

Span = tuple[int, int]


class ResultLog:
    """Result segments in one directory.

    One thread publishes, another one may retire, and any number of threads read: a lock protects the list of results.
    """

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK, *, fence: Callable[[], None] = lambda: None) -> None:
        """Open the log; raise `MissingSegmentError` if a result is missing.

        ``fence`` is called before anything is published, and raises if another process has taken the directory.
        """
        self.directory = directory
        self._fence = fence
        self.torn: list[str] = []
        """Damage of the full results that were skipped."""
        self._disk = disk
        self._lock = threading.Lock()
        disk.make_directory(directory)
        for name in disk.names(directory):
            if name.startswith(".") and name.endswith((_SUFFIX, _FULL_SUFFIX)):
                disk.unlink(directory / name)
        self._full = 0
        self._spans = self._begin()
        disk.sync_directory(directory)  # results that readers see from here on must outlive a crash

    def _begin(self) -> list[Span]:
        """Find the newest whole full result and all results after it; remove leftovers of an interrupted `retire`."""
        spans = self._spans_in(self.directory, self._disk)
        start = len(spans)
        while start and (start == len(spans) or spans[start - 1][1] == spans[start][0]):
            start -= 1
        chain = spans[start:]
        begin, end = (chain[0][0], chain[-1][1]) if chain else (0, 0)
        fulls = self._fulls()
        usable = [v for v in fulls if v > end or v == begin or v in {to for _, to in chain}]
        self._full = next((version for version in usable if self._intact(version) is not None), 0)
        if self._full < begin or (fulls and not chain and not self._full):
            before = spans[start - 1][1] if start else 0
            results = [*map(_interval, chain[:1]), *self.torn]
            raise MissingSegmentError(
                f"expected a result from epoch {before} in {self.directory}, was {'; '.join(results)}"
            )
        if self._full > end:  # leftovers of an interrupted `retire`: all of them precede the full one
            start, chain = len(spans), []
        for span in spans[:start]:
            self._disk.unlink(self._path(span))
        return chain

    @classmethod
    def versions_in(cls, directory: Path, disk: Disk = LOCAL_DISK) -> list[int]:
        """Return the versions published in a directory, ascending, and change nothing there."""
        return [to_epoch for _, to_epoch in cls._spans_in(directory, disk)]

    @classmethod
    def newest_in(cls, directory: Path, disk: Disk = LOCAL_DISK) -> int:
        """Return the newest version in a directory, 0 for none, and change nothing there."""
        return max([*cls.versions_in(directory, disk), *cls._fulls_in(directory, disk)], default=0)

    @classmethod
    def damage_in(cls, directory: Path, disk: Disk = LOCAL_DISK) -> tuple[dict[Path, str], list[Path], int]:
        """Return the damage in a directory by file, the files to remove, and the newest version that then remains.

        The files to remove are the damaged ones, and intact results after a damaged one. If a result is missing and no
        file is damaged, the damage is reported for the directory. Nothing is changed.
        """
        spans, bad = cls._spans_in(directory, disk), dict[Path, str]()
        fulls = cls._fulls_in(directory, disk)
        paths = {span: directory / f"{span[0]:012d}-{span[1]:012d}{_SUFFIX}" for span in spans}
        paths |= {(-1, version): directory / f"{version:012d}{_FULL_SUFFIX}" for version in fulls}
        for (begin, end), path in paths.items():
            try:
                _read(path, (max(begin, 0), end), disk)
            except (EpochLogError, OSError) as error:
                bad[path] = str(error)
        ends = [0]
        for base in [0, *(version for version in fulls if paths[-1, version] not in bad)]:
            end = base
            for span in spans:
                if span[0] == end and paths[span] not in bad:
                    end = span[1]
            ends.append(end)
        version = max(ends)
        beyond = [path for (begin, end), path in paths.items() if end > version]
        if beyond and not bad:  # a result is missing
            bad[directory] = f"expected a result from epoch {version} in {directory}, was none"
        return bad, sorted({path for path in bad if path != directory} | set(beyond)), version

    @staticmethod
    def _spans_in(directory: Path, disk: Disk) -> list[Span]:
        names = [name for name in disk.names(directory) if name[0].isdigit() and name.endswith(_SUFFIX)]
        spans = [name.removesuffix(_SUFFIX).split("-") for name in names]
        return sorted((int(from_epoch), int(to_epoch)) for from_epoch, to_epoch in spans)

    @staticmethod
    def _fulls_in(directory: Path, disk: Disk) -> list[int]:
        """Return the versions of full results, whole or torn, ascending."""
        names = [name for name in disk.names(directory) if name[0].isdigit() and name.endswith(_FULL_SUFFIX)]
        return sorted(int(name.removesuffix(_FULL_SUFFIX)) for name in names)

    def latest(self) -> int:
        """Return the newest published version, 0 for none."""
        with self._lock:
            return self._spans[-1][1] if self._spans else self._full

    def since_full(self) -> int:
        """Return the number of results that a reader has to add to the newest full result: those after it."""
        with self._lock:
            return sum(1 for from_epoch, _ in self._spans if from_epoch >= self._full)

    def behind(self, version: int) -> list[Span] | None:
        """Return the spans of the results after a version, in order; None if the version is unknown or retired."""
        with self._lock:
            if version == (self._spans[-1][1] if self._spans else self._full):
                return []
            places = [place for place, (from_epoch, _) in enumerate(self._spans) if from_epoch == version]
            return self._spans[places[0] :] if places else None

    def read(self, span: Span) -> Segment:
        """Return the result of a span; raise `EpochLogError` for damage, `FileNotFoundError` if it is retired."""
        return self._read(self._path(span), span)

    def publish(
        self, from_epoch: int, to_epoch: int, changes: Mapping[str, Iterable[pa.RecordBatch]], footer: Footer
    ) -> bool:
        """Make the changes of ``(from, to]`` durable; return False, and do nothing, if they are published already.

        Raise `EpochLogError` if the changes do not continue the newest ones.
        """
        self._fence()
        latest = self.latest()
        if to_epoch <= latest:
            return False
        if from_epoch != latest:
            raise EpochLogError(f"expected a result from epoch {latest}, was ({from_epoch}, {to_epoch}]")
        footer = msgspec.structs.replace(footer, from_epoch=from_epoch, to_epoch=to_epoch)
        self._write(self._path((from_epoch, to_epoch)), changes, footer)
        with self._lock:
            self._spans.append((from_epoch, to_epoch))
        return True

    def put_full(self, tables: Mapping[str, Iterable[pa.RecordBatch]], footer: Footer) -> None:
        """Make every view's rows at a version, ``footer.to_epoch``, durable as a full result.

        Raise `EpochLogError` if the version is not published.
        """
        self._fence()
        version = footer.to_epoch
        with self._lock:
            if version not in {to for _, to in self._spans}:
                raise EpochLogError(f"expected a published version in {self.directory}, was {version}")
        self._write(self._full_path(version), tables, footer)
        with self._lock:
            self._full = version

    def read_all(self) -> Iterator[Segment]:
        """Yield the newest full result, if there is one, and every result after it in order, each of them checked."""
        with self._lock:
            full, spans = self._full, list(self._spans)
        if full:
            yield self._read(self._full_path(full), (0, full))
        for span in spans:
            if span[0] >= full:
                yield self._read(self._path(span), span)

    def retire(self, passed: int, bases: int = 2) -> int:
        """Remove the results before the newest ``bases`` full results, oldest first; return the number of bytes freed.

        ``passed`` is the newest version whose batch is never run again; newer full results do not count. If ``bases``
        is 2, the older full result can be used if the newer one is torn. Nothing is removed if fewer than ``bases``
        full results are whole.
        """
        self._disk.sync_directory(self.directory)  # the name of a full result may not be durable yet
        intact = [full for full in self._fulls() if full <= passed and self._intact(full) is not None][:bases]
        if len(intact) < bases:
            return 0
        base = intact[-1]
        with self._lock:
            self._full = max(self._full, base)
            gone = [span for span in self._spans if span[1] <= base]
            self._spans = [span for span in self._spans if span[1] > base]
        paths = [*map(self._path, gone), *(self._full_path(v) for v in reversed(self._fulls()) if v < base)]
        freed = 0
        for path in paths:
            freed += self._disk.size(path)
            self._disk.unlink(path)
        self._disk.sync_directory(self.directory)
        return freed

    def _fulls(self) -> list[int]:
        """Return the versions of full results, whole or torn, the newest first."""
        return self._fulls_in(self.directory, self._disk)[::-1]

    def _intact(self, version: int) -> Segment | None:
        """Return the full result of a version; if it is torn, add the damage to `torn` and return None."""
        try:
            return self._read(self._full_path(version), (0, version))
        except (EpochLogError, OSError) as error:
            self.torn.append(str(error))
            return None

    def _read(self, path: Path, span: Span) -> Segment:
        return _read(path, span, self._disk)

    def _write(self, path: Path, tables: Mapping[str, Iterable[pa.RecordBatch]], footer: Footer) -> None:
        hidden = path.with_name(f".{path.name}")
        try:
            write_segment(self._disk, hidden, tables, footer)
            self._disk.rename(hidden, path)
        except OSError:
            with suppress(OSError):  # otherwise a partial file fills the disk until the next start removes it
                self._disk.unlink(hidden)
            raise
        self._disk.sync_directory(self.directory)

    def _path(self, span: Span) -> Path:
        return self.directory / f"{span[0]:012d}-{span[1]:012d}{_SUFFIX}"

    def _full_path(self, version: int) -> Path:
        return self.directory / f"{version:012d}{_FULL_SUFFIX}"


def _read(path: Path, span: Span, disk: Disk) -> Segment:
    segment = read_segment(path, disk)
    if (span_read := (segment.footer.from_epoch, segment.footer.to_epoch)) != span:
        raise TornSegmentError(f"expected {_interval(span)} at {path}, was {_interval(span_read)}")
    segment.verify()
    return segment


def _interval(span: Span) -> str:
    return f"({span[0]}, {span[1]}]"
