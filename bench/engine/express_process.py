"""``python -m bench.engine.express_process``: a runtime of express views alone, with a subscriber that records the
times of received frames.

The process prints a line of JSON when it has read the warm-up, and a second line, with the rows of all views, after the
last message. It writes for every received frame its view, the position of the feed and the time of the monotonic clock.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from twisted.internet import reactor as _reactor
from twisted.internet.task import LoopingCall

from bench.processes import print_line
from deltabook.wire.results import FrameHeader
from queries import query_path
from runtime.compiler import NamedSelect, read_script
from runtime.engine.ingest import IngestConfig
from runtime.service.config import LiveConfig
from runtime.service.interpreter import quicken
from runtime.service.live import LiveRuntime
from runtime.service.subscriptions import Listener, Message, arrow_frame

__all__ = ["VIEWS", "main"]

VIEWS: Final = ("axf", "bsp", "bsv", "mst", "psp", "vwap")
_WATCH_SECONDS: Final = 0.02
_LENGTHS: Final = struct.Struct("!II")
_header = msgspec.json.Decoder(FrameHeader)


class _Subscriber(Listener):
    """Listener that records the view, the position and the time of receipt of each frame of changes."""

    reads_arrow = True

    def __init__(self) -> None:
        self.frames: list[tuple[int, int, int]] = []

    def write(self, message: Message) -> None:
        now = time.monotonic_ns()
        message.encoded(arrow_frame)  # encoded as for every connection
        header = message.header
        if header.kind == "changes":
            self.frames.append((VIEWS.index(header.view), header.feed["feed"][1], now))

    def flush(self) -> None:
        """Do nothing, because frames are not collected."""

    def finish(self) -> None:
        raise RuntimeError("expected views that stay, was the end of all of them")


class _Run:
    """The runtime from its start to the last message."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._reactor: Any = _reactor
        self._options = options
        config = LiveConfig(
            directory=options.dir,
            feed=("127.0.0.1", options.port),
            epoch_ms=options.epoch_ms,
            ingest=IngestConfig(workers=options.workers),
            runs_spark=False,
        )
        selects = [NamedSelect(v, read_script(query_path(v)).selects[0].sql, lane="express") for v in VIEWS]
        self._runtime = LiveRuntime(self._reactor, config, selects, self._fail)
        self._subscriber = _Subscriber()
        self._reason: str | None = None
        self._begun = False
        self._watching = LoopingCall(self._watch)

    def run(self) -> int:
        quicken()
        self._reactor.callWhenRunning(self._start)
        self._reactor.run()
        if self._reason is not None:
            sys.stderr.write(self._reason + "\n")
        return 1 if self._reason is not None else 0

    def _start(self) -> None:
        subscription = self._runtime.parts.hub.subscribe(VIEWS, self._subscriber)
        assert subscription is not None
        subscription.catch_up()
        self._runtime.start().addCallbacks(self._started, self._failed)

    def _started(self, port: int) -> None:
        del port
        self._watching.start(_WATCH_SECONDS)

    def _watch(self) -> None:
        cut = self._runtime.parts.hub.cuts_of("express").get("feed")
        sequence = cut.sequence if cut else 0
        if not self._begun and sequence >= self._options.warm:
            self._begun = True
            print_line({"warm": sequence})
        if sequence >= self._options.warm + self._options.messages:
            self._watching.stop()
            self._reactor.callLater(0, self._finish)

    def _finish(self) -> None:
        answers = {view: self._runtime.parts.hub.result(view).rows().to_pylist() for view in VIEWS}
        np.save(self._options.frames, np.array(self._subscriber.frames, np.int64))
        steps = self._runtime.parts.hub.step("express")
        figures = {"steps": steps, "cpu_seconds": time.process_time()}
        plain = {view: [[_plain(x) for x in row.values()] for row in rows] for view, rows in answers.items()}
        print_line({**figures, "answers": plain})
        self._runtime.stop().addBoth(lambda _: self._reactor.stop())

    def _failed(self, failure: Any) -> None:
        self._fail(str(failure.value))

    def _fail(self, reason: str) -> None:
        self._reason = reason
        self._reactor.callLater(0, self._reactor.stop)


def _plain(value: Any) -> int | None:
    return None if value is None else int(value)


def main(arguments: list[str]) -> int:
    """Run the runtime to the last message and print the answers."""
    parser = argparse.ArgumentParser(prog="express_process")
    parser.add_argument("--dir", type=Path, required=True, help="run directory, new")
    parser.add_argument("--port", type=int, required=True, help="port of the feed")
    parser.add_argument("--warm", type=int, required=True, help="number of messages before the start")
    parser.add_argument("--messages", type=int, required=True, help="number of messages after the start")
    parser.add_argument("--workers", type=int, required=True, help="number of workers of the ingest")
    parser.add_argument("--epoch-ms", type=int, required=True, help="milliseconds between barriers")
    parser.add_argument("--frames", type=Path, required=True, help="file for the received frames")
    return _Run(parser.parse_args(arguments)).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
