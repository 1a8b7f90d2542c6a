"""The processes of a point: Spark's cluster, feeds and runtimes, from the first ready line to the last end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from bench.cluster.feed_process import Play, Played
from bench.cluster.meter import Part, Process, processes, spent_s
from bench.cluster.plan import VIEWS, Point
from bench.cluster.recording import Recording
from bench.cluster.versions import Versions, covered_ns
from bench.trading.loop import deltabook, running
from queries import query_path

__all__ = ["Feed", "System", "started"]

_LOOK_S: Final = 0.05
_EXECUTOR_MEMORY: Final = "512m"
_WORKER_MEMORY: Final = "1g"
_MANY: Final = "1000000"


class Feed:
    """A process that plays a recording, and the origin under which its messages are known."""

    def __init__(self, path: Path, session: str, origin: str) -> None:
        self.origin = origin
        self.last = 0
        """Number of the last sent message."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.cluster.feed_process", str(path), session],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.port = int(json.loads(self._read())["port"])

    def begin(self, play: Play) -> None:
        """Request to send messages; `played` must follow."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(play) + b"\n")
        self._process.stdin.flush()

    def played(self) -> Played:
        """Return the report on the messages when they are sent."""
        played = msgspec.json.decode(self._read(), type=Played)
        self.last = played.stamps[-1][0]
        return played

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> bytes:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"expected an answer of a feed, was {self._process.stderr.read()[-500:]!r}")
        return line


class System:
    """A running point."""

    def __init__(self, directory: Path, feeds: list[Feed], roots: dict[int, Part]) -> None:
        """Make a system; ``directory`` is that of the runtime with the views."""
        self.feeds = feeds
        self.versions = Versions(directory)
        self._roots = roots

    def spent_s(self, before: Mapping[int, Process]) -> dict[Part, float]:
        """Return the processor seconds by role since ``before``, an earlier process table."""
        return spent_s(self._roots, before, processes())

    def play(self, messages: int, rate: float, patience_s: float) -> tuple[list[Played], int]:
        """Send messages, distributed over the feeds; return what was sent, and when all of it was published.

        Raises `RuntimeError` if the messages are not published in time.
        """
        share = messages // len(self.feeds)
        for feed in self.feeds:
            feed.begin(Play(share, rate / len(self.feeds)))
        played = [feed.played() for feed in self.feeds]
        last = {feed.origin: feed.last for feed in self.feeds}
        deadline = time.monotonic() + patience_s
        while True:
            self.versions.look()
            done = covered_ns(self.versions.all[-1:], last)
            if done is not None:
                found = covered_ns(self.versions.all, last)
                assert found is not None
                return played, found
            if time.monotonic() > deadline:
                newest = self.versions.all[-1].cuts if self.versions.all else {}
                raise RuntimeError(f"expected a version with {last} within {patience_s:.0f} s, was {newest}")
            time.sleep(_LOOK_S)


@contextmanager
def started(point: Point, recording: Recording, folder: Path, report: Callable[[str], None]) -> Iterator[System]:
    """Start all processes in the order of their dependencies, and end all of them afterwards."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        roots: dict[int, Part] = {}
        master = "local[2]"
        if point.workers:
            report(f"a cluster of {point.workers} workers starts")
            command = deltabook("cluster", "local", "--workers", str(point.workers), "--cores", "1")
            command += ["--executor-memory", _WORKER_MEMORY, "--dir", str(folder / "spark")]
            cluster = stack.enter_context(running("cluster", command, folder))
            roots[cluster.pid] = "daemon"
            assert cluster.ready is not None
            master = f"spark://127.0.0.1:{cluster.ready.ports['master']}"
        feeds: list[Feed] = []
        origins: list[str] = []
        if point.runtimes == 1:
            feeds.append(_feed(stack, recording.whole, "bench", "feed"))
            origins = ["--feed", f"127.0.0.1:{feeds[0].port}"]
        else:
            for name, path in zip("ab", recording.halves, strict=True):
                feeds.append(_feed(stack, path, f"bench{name}", f"{name}/feed"))
                command = deltabook("runtime", "--feed", f"127.0.0.1:{feeds[-1].port}", "--dir", str(folder / name))
                upstream = stack.enter_context(running(f"upstream-{name}", command, folder))
                roots[upstream.pid] = "upstream"
                origins += ["--upstream", f"{name}={folder / name}"]
        report("the runtime with the views starts")
        command = deltabook("runtime", *origins, "--dir", str(folder / "main"), *_views(point, master))
        main = stack.enter_context(running("runtime", command, folder))
        roots[main.pid] = "runtime"
        yield System(folder / "main", feeds, roots)


def _feed(stack: ExitStack, path: Path, session: str, origin: str) -> Feed:
    feed = Feed(path, session, origin)
    stack.callback(feed.close)
    return feed


def _views(point: Point, master: str) -> list[str]:
    files = ",".join(str(query_path(name)) for name in VIEWS)
    options = ["--views", files, "--master", master, "--shards", str(point.shards)]
    options += ["--snapshot-results", _MANY]  # results are measured, so none is retired
    return options if not point.workers else [*options, "--executor-memory", _EXECUTOR_MEMORY]
