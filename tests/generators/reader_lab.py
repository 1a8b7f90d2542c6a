"""Live runtime of the express lane whose feed and readers a test controls; no port, no Spark, no waiting."""

from __future__ import annotations

import queue
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from deltabook.wire.catalogue import AddViews, NewView
from deltabook.wire.readers import FileConnection, NewColumn, NewReader
from runtime.compiler import NamedSelect
from runtime.formats import RawBuffer
from runtime.service.catalogue import Control
from runtime.service.config import LiveConfig
from runtime.service.live import LiveRuntime
from runtime.service.waiting import epoch_of
from runtime.sources import BufferSink, Position, Source

__all__ = ["COLUMNS", "FeedInHand", "ReaderLab", "file_reader"]

COLUMNS = (NewColumn("t", "int64"), NewColumn("symbol", "string"), NewColumn("price", "int64"))
_WAIT_SECONDS = 30.0
_LOOK_SECONDS = 0.005
_MOST_LOOKS = 10_000


def file_reader(name: str, path: str, **more: Any) -> NewReader:
    """Return a reader of a CSV file with `COLUMNS`."""
    return NewReader(name, FileConnection(path), **{"columns": COLUMNS, **more})


class _Port:
    def getHost(self) -> Any:
        return self

    port = 1

    def stopListening(self) -> None: ...


class _Pool:
    def callInThreadWithCallback(self, done: Callable[..., None], call: Callable[..., Any], *args: Any) -> None:
        try:
            result = call(*args)
        except Exception:  # noqa: BLE001 (as a thread pool does)
            done(False, Failure())  # type: ignore[no-untyped-call, unused-ignore]
        else:
            done(True, result)


class QueueReactor(Clock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    """Reactor on the test's thread: calls of other threads run while the test waits."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self._calls: queue.SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]]] = queue.SimpleQueue()

    def callFromThread(self, call: Callable[..., Any], *args: Any) -> None:
        self._calls.put((call, args))

    def listenTCP(self, *_: Any, **__: Any) -> _Port:
        return _Port()

    listenSSL = listenTCP

    def getThreadPool(self) -> _Pool:
        return _Pool()

    def turn(self, wait_s: float = _WAIT_SECONDS) -> bool:
        """Run the next call; return False if there is none in that time."""
        try:
            call, args = self._calls.get(timeout=wait_s)
        except queue.Empty:
            return False
        call(*args)
        return True


class FeedInHand(Source):
    """Feed of the runtime that a test controls."""

    session = "S1"
    is_connected = True
    opened: list[FeedInHand] = []  # noqa: RUF012 (what a test's runtime makes)

    def __init__(self, *_: Any, **__: Any) -> None:
        self.position = Position()
        self._number = 0
        FeedInHand.opened.append(self)

    def open(self, sink: BufferSink, position: Position) -> None:
        self._sink, self.position, self._offset = sink, position, position.offset

    def say(self, *lines: str) -> None:
        """Send lines of the text feed, without their sequence numbers."""
        data = "".join(f"{line}\n" for line in lines).encode()
        self._number += 1
        assert self._sink.offer(RawBuffer(0, self._number, data, self._offset))
        self._offset += len(data)

    def finish(self) -> None:
        """End the session, as after the exchange has closed the connection."""
        self.is_connected = False
        self._sink.end_of_stream(0)

    def resume(self) -> None: ...

    def close(self) -> None: ...


class ReaderLab:
    """Runtime on a directory; another `ReaderLab` on the same directory continues where the first one ended."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, files: Path, **config: Any) -> None:
        monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", FeedInHand)
        FeedInHand.opened.clear()
        self.reactor: Any = QueueReactor()
        self.failures: list[str] = []
        selects = [
            NamedSelect("bid_volume", "SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol", lane="express")
        ]
        given = {"reader_directories": (files,), "runs_spark": False, **config}
        is_new = not directory.exists()
        self.runtime = LiveRuntime(
            self.reactor,
            LiveConfig(directory=directory, feed=("127.0.0.1", 1), **given),
            selects if is_new else [],
            self.failures.append,
        )
        self.control = Control(self.runtime.parts.hub, self.runtime.parts.catalogue)
        self.wait(self.runtime.start())
        self.feed = FeedInHand.opened[0]
        while not hasattr(self.feed, "_sink"):
            self.reactor.turn()

    def wait(self, waited_for: Deferred[Any] | Coroutine[Any, Any, Any]) -> Any:
        """Wait for a result, and return or raise it."""
        results: list[Any] = []
        wanted = waited_for if isinstance(waited_for, Deferred) else Deferred.fromCoroutine(waited_for)
        wanted.addBoth(results.append)
        while not results:
            assert self.reactor.turn(), "expected it to end, nothing happens"
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    def until(self, is_so: Callable[[], bool]) -> None:
        """Close an epoch whenever the reactor has nothing to do, until a condition holds."""
        for _ in range(_MOST_LOOKS):
            if is_so():
                return
            if not self.reactor.turn(_LOOK_SECONDS):
                self.runtime.parts.ingest.request_barrier()
        raise AssertionError(f"expected it to be so, was {self.runtime.parts.readers.list()} and {self.failures}")

    def seal(self) -> None:
        """Close the epoch."""
        self.wait(epoch_of(self.reactor, lambda sealed: self.runtime.parts.ingest.at_cut(dict, sealed)))

    def add(self, wanted: NewReader) -> Any:
        """Add a reader; return the status and its result."""
        return self.wait(self.runtime.parts.readers.add(wanted))

    def drop(self, name: str, **how: Any) -> Any:
        return self.wait(self.runtime.parts.readers.drop(name, 30.0, **how))

    def view(self, name: str, sql: str, *readers: str) -> None:
        """Add a view of the express lane."""
        self.wait(self.control.add(AddViews((NewView(name, sql, lane="express", readers=readers),))))

    def rows(self, view: str) -> Counter[tuple[Any, ...]]:
        """Return the rows of a view."""
        table = self.runtime.parts.hub.result(view).rows()
        weights = table.column("weight").to_pylist()
        rows = zip(*[table.column(name).to_pylist() for name in table.column_names if name != "weight"], strict=True)
        return Counter(dict(zip(rows, weights, strict=True)))

    def state(self, name: str) -> Any:
        """Return the state of a reader, None if it is unknown."""
        return next((each for each in self.runtime.parts.readers.list().readers if each.name == name), None)

    def stop(self) -> None:
        """Stop without sealing, like a killed process."""
        self.wait(self.runtime.stop(is_clean=False))
