"""The way of a raw buffer, from the socket to a subscriber, has the calls that docs/architecture.md lists."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from twisted.internet.testing import StringTransport

import runtime
from runtime.compiler import NamedSelect
from runtime.engine.ingest import IngestConfig
from runtime.service.config import LiveConfig
from runtime.service.live import LiveRuntime
from runtime.service.subscriptions import Listener, Message, arrow_frame
from tests.generators.reader_lab import QueueReactor

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "architecture.md"
REPOSITORY: Final = Path(runtime.__file__).parents[1]
PACKAGES: Final = tuple(f"{REPOSITORY / name}/" for name in ("runtime", "deltabook"))
VIEW: Final = NamedSelect("volumes", "SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol", lane="express")
COMPUTES: Final = frozenset({
    "InputFormatter.format", "Origin.take", "FeedAdaptor.apply", "OpenEpoch.add", "OpenEpoch.take",
    "ShardState.step_tables", "encode_rows",
})  # fmt: skip
"""What is asked to do something with the value, and gives it back or keeps it."""
HANDS_OVER: Final = COMPUTES | {
    "RunningNode.accept", "RunningNode.take", "RunningContext.emit", "LiveRuntime._updated", "Turn.plan",
    "_Subscriber.write",
}  # fmt: skip
"""Where the value goes into a container, or to another thread."""


class _Reactor(QueueReactor):
    """Connects to what the test is."""

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30) -> Any:
        self.factory = factory


class _Subscriber(Listener):
    """A connection over HTTP."""

    reads_arrow = True

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def write(self, message: Message) -> None:
        self.frames.append(message.encoded(arrow_frame))

    def flush(self) -> None:
        """Frames are there."""

    def finish(self) -> None:
        """Never."""


class _Trace:
    """The functions of the repository that are on the stack wherever the value is handed over, in order."""

    def __init__(self) -> None:
        self.is_on = False
        self.names: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if self.is_on and event == "call" and frame.f_code.co_qualname in HANDS_OVER:
            stack: list[str] = []
            up: FrameType | None = frame
            while up is not None:
                name = up.f_code.co_qualname
                if up.f_code.co_filename.startswith(PACKAGES) and not name.endswith("comp>"):
                    stack.append(name)
                up = up.f_back
            self.names |= dict.fromkeys(reversed(stack))


@pytest.fixture
def trace() -> Any:
    made = _Trace()
    threading.setprofile(made)
    sys.setprofile(made)
    yield made
    sys.setprofile(None)
    threading.setprofile(None)


def way_of_a_buffer(directory: Path, trace: _Trace) -> list[str]:
    """Give a runtime two requests of a feed, of which the first is whole, and wait for the frame."""
    reactor = _Reactor()
    config = LiveConfig(directory, feed=("127.0.0.1", 1), runs_spark=False, ingest=IngestConfig(workers=1))
    live = LiveRuntime(reactor, config, [VIEW], lambda reason: None)
    started: list[object] = []
    live.start().addBoth(started.append)

    def until(is_so: Callable[[], object]) -> None:
        while not is_so():
            assert reactor.turn(), "expected something to happen"

    until(lambda: started and hasattr(reactor, "factory"))
    protocol: Any = reactor.factory.buildProtocol(None)
    protocol.makeConnection(StringTransport())  # type: ignore[no-untyped-call]
    protocol.dataReceived(b"A,S1,1\n")
    subscriber = _Subscriber()
    subscription = live.parts.hub.subscribe(["volumes"], subscriber)
    assert subscription is not None
    subscription.catch_up()
    snapshots = len(subscriber.frames)
    trace.is_on = True
    protocol.dataReceived(b"1,0,1,1,B,5,100,ACME\n2,1,2,1,B,6,100,ACME\n")
    reactor.advance(0)
    until(lambda: len(subscriber.frames) > snapshots)
    trace.is_on = False
    stopped: list[object] = []
    live.stop(is_clean=False).addBoth(stopped.append)
    until(lambda: stopped)
    return [name for name in trace.names if name != "Workers._run"]


def documented() -> tuple[list[str], list[str]]:
    """The calls that hand the value on, in the order of the document, and those that compute with it."""
    section = DOCUMENT.read_text().split("## The way of a raw buffer\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+|–) \| `([^`]+)` \|", section, re.MULTILINE)
    return [name for number, name in rows if number != "–"], [name for number, name in rows if number == "–"]


def test_the_way_of_a_buffer_has_the_calls_of_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trace: _Trace
) -> None:
    """Who adds a call adds it there, and asks whether it has to be."""
    monkeypatch.setenv("DELTABOOK_NATIVE", "off")
    names = way_of_a_buffer(tmp_path, trace)
    handed_on, computed = documented()
    assert [name for name in names if name not in COMPUTES] == handed_on
    assert [name for name in names if name in COMPUTES] == computed
