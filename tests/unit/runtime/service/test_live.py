"""A live runtime falls silent while its views are not what the market is; without Spark, on a clock of its own."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from deltabook.wire.results import FrameDecoder, encode_rows
from runtime.compiler import NamedSelect
from runtime.engine.express import Update
from runtime.engine.ingest import OriginCounters
from runtime.epochs import Cut, Footer
from runtime.formats import RawBuffer
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError
from runtime.service.health.metrics import EngineFigures
from runtime.service.live import LiveRuntime
from runtime.service.subscriptions import Listener, Message, arrow_frame
from runtime.sources import Position

VIEWS = [NamedSelect("volumes", "SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol")]


class Pool:
    """Runs each call at once, or never."""

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs

    def callInThreadWithCallback(self, on_result: Any, call: Any, *args: Any, **named: Any) -> None:
        if self._hangs:
            return
        try:
            result = call(*args, **named)
        except Exception:  # noqa: BLE001 (as a thread pool does)
            on_result(False, Failure())  # type: ignore[no-untyped-call, unused-ignore]  # as below
        else:
            on_result(True, result)


class Reactor(Clock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    hangs = False

    def callFromThread(self, call: Any, *args: Any) -> None:
        call(*args)

    def getThreadPool(self) -> Pool:
        return Pool(hangs=self.hangs)


class Source:
    session = "S1"
    is_connected = True

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def codec_at(self, position: Position) -> None:
        del position

    def open(self, sink: object, position: Position) -> None:
        del sink, position


class Taking:
    in_flight = 0

    def offer(self, raw: RawBuffer, size: int = 1) -> bool:
        return bool(raw)


class Connection(Listener):
    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._kinds: list[str] = []

    def write(self, message: Message) -> None:
        self._kinds += [frame.header.kind for frame in self._decoder.feed(message.encoded(arrow_frame))]

    def flush(self) -> None: ...

    def finish(self) -> None: ...

    def heard(self) -> list[str]:
        kinds, self._kinds = self._kinds, []
        return kinds


def test_no_heartbeats_while_the_feed_is_lost_or_spark_lags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
    runtime = LiveRuntime(reactor, LiveConfig(directory=tmp_path, feed=("127.0.0.1", 1)), VIEWS, lambda _: None)
    monkeypatch.setattr(runtime.parts.spark, "_is_up", True)
    early = Connection()
    runtime.parts.hub.subscribe(["volumes"], early).catch_up()  # type: ignore[union-attr]  # there is room
    runtime.beat()
    assert early.heard() == ["snapshot", "heartbeat"]

    monkeypatch.setattr(Source, "is_connected", False)
    runtime.beat()
    late = Connection()
    runtime.parts.hub.subscribe(["volumes"], late).catch_up()  # type: ignore[union-attr]  # there is room
    assert early.heard() == late.heard() == []
    monkeypatch.setattr(Source, "is_connected", True)
    runtime.beat()
    assert (early.heard(), late.heard()) == (["heartbeat"], ["snapshot", "heartbeat"])

    reactor.advance(10.5)  # epoch 1, begun with the directory, is not published
    runtime.beat()
    assert early.heard() == []
    runtime.parts.hub.publish(Footer(0, 1), {"volumes": pa.table({"symbol": ["A"], "v": [1], "weight": [1]})}, {})
    assert early.heard() == []
    runtime.beat()
    assert early.heard() == ["changes", "heartbeat"]


def test_a_claim_that_cannot_be_read_for_once_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is another's ends everything, and nothing is said in the directory any more."""
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
    reasons: list[str] = []
    runtime = LiveRuntime(reactor, LiveConfig(directory=tmp_path, feed=("127.0.0.1", 1)), VIEWS, reasons.append)

    def unread() -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(runtime.parts.directory.claim, "check", unread)
        runtime.beat()
    assert (reasons, (tmp_path / "beat").exists()) == ([], True)
    (tmp_path / "beat").unlink()
    (tmp_path / "claim").unlink()
    runtime.beat()
    assert "fenced" in reasons[0]
    assert not (tmp_path / "beat").exists()


def test_a_disk_that_hangs_holds_up_no_heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim is looked at on another thread."""
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
    reasons: list[str] = []
    runtime = LiveRuntime(reactor, LiveConfig(directory=tmp_path, feed=("127.0.0.1", 1)), VIEWS, reasons.append)
    monkeypatch.setattr(runtime.parts.spark, "_is_up", True)
    connection = Connection()
    runtime.parts.hub.subscribe(["volumes"], connection).catch_up()  # type: ignore[union-attr]  # there is room
    connection.heard()
    reactor.hangs = True
    (tmp_path / "claim").unlink()
    for _ in range(3):
        runtime.beat()
    assert (connection.heard(), reasons) == (["heartbeat"] * 3, [])


def test_the_status_says_what_became_of_tuples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By origin, with the figures that status lines carry."""
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
    runtime = LiveRuntime(reactor, LiveConfig(directory=tmp_path, feed=("127.0.0.1", 1)), VIEWS, lambda _: None)
    figures, status = runtime.figures(), msgspec.to_builtins(runtime.status())
    assert (figures["nulled_values"], figures["waiting_bytes"]) == (0, 0)
    assert status.pop("origins") == {"feed": msgspec.to_builtins(OriginCounters())}
    assert status.pop("engine") == msgspec.to_builtins(EngineFigures())
    assert status.pop("upstreams") == {}
    assert status.pop("streams") == {}
    assert status.pop("spark_ui_port") is None
    assert status.keys() == figures.keys()


def test_lags_are_known_while_something_is_published_or_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
    views = [*VIEWS, NamedSelect("fast", VIEWS[0].sql, lane="express")]
    runtime = LiveRuntime(reactor, LiveConfig(directory=tmp_path, feed=("127.0.0.1", 1)), views, lambda _: None)
    assert (runtime.figures()["spark"], runtime.figures()["lag_ms"]) == ("starting", None)
    monkeypatch.setattr(runtime.parts.spark, "_is_up", True)

    def lags() -> tuple[object, object]:
        figures = runtime.figures()
        return figures["lag_ms"], figures["express_lag_ms"]

    reactor.advance(2.0)
    assert lags() == (2000.0, None), "epoch 1, begun with the directory, waits for Spark"
    sink: Any = Taking()
    feed = runtime.parts.inputs.feed
    assert feed is not None
    feed.gate.open(sink)
    assert feed.gate.offer(RawBuffer(0, 1, b"12345", 0))
    reactor.advance(0.5)
    runtime._updated(Update(1, 1, {"feed": Cut("S1", 1, 5)}, {}, {}), {})
    assert lags()[1] == 500.0
    reactor.advance(10.5)
    assert lags() == (13_000.0, None)


def test_changes_are_encoded_for_those_who_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the thread that says them, and only of views that somebody follows."""
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    calls: list[tuple[Any, ...]] = []
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
    views = [NamedSelect(name, VIEWS[0].sql, lane="express") for name in ("fast", "other")]
    runtime = LiveRuntime(reactor, LiveConfig(directory=tmp_path, feed=("127.0.0.1", 1)), views, lambda _: None)
    monkeypatch.setattr(reactor, "callFromThread", lambda *call: calls.append(call))
    written: list[bytes] = []
    listener: Any = SimpleNamespace(
        write=lambda message: written.append(message.encoded(arrow_frame)), flush=list, reads_arrow=True
    )
    subscription = runtime.parts.hub.subscribe(["fast"], listener)
    assert subscription is not None
    subscription.catch_up()
    written.clear()
    table = runtime.parts.hub.result("fast").rows()
    values = {"symbol": ["ACME"], "v": [1], "weight": [1]}
    row = pa.table([pa.array(values[each.name]).cast(each.type) for each in table.schema], schema=table.schema)
    runtime.on_update(Update(1, 1, {}, {"fast": row, "other": row}, {}))
    call, *arguments = calls[0]
    assert arguments[-1] == {"fast": encode_rows(row)}
    call(*arguments)
    (frame,) = FrameDecoder().feed(b"".join(written))
    assert frame.rows is not None
    assert frame.rows.equals(row)
    runtime.parts.hub.unsubscribe(subscription)
    runtime.on_update(Update(2, 1, {}, {"fast": row}, {}))
    assert calls[2][-1] == {}, "nobody follows it any more"


def test_a_version_reaches_the_hub_before_it_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is durable: Spark does not give it again if the comparison takes long, or the process is ending."""
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
    runtime = LiveRuntime(reactor, LiveConfig(directory=tmp_path, feed=("127.0.0.1", 1)), VIEWS, lambda _: None)
    versions: list[int] = []
    monkeypatch.setattr(runtime.parts.agreement, "published", lambda _: versions.append(runtime.parts.hub.version))
    published: Any = SimpleNamespace(
        from_epoch=0, to_epoch=1, changes={}, failed={}, footer=Footer(0, 1), program=None, seconds=0.1
    )
    runtime.on_published(published)
    assert versions == [1]


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_start_that_is_refused_leaves_no_directory(tmp_path: Path, is_taken: bool) -> None:
    """So that another try is not taken for a restart of what was begun."""
    reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
    directory = tmp_path / "runs" / "one"
    views = [*VIEWS, NamedSelect("more", "SELECT SUM(volume) AS v FROM asks")]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1] if is_taken else 0
        said = f"expected a free port, was 127.0.0.1:{port}" if is_taken else "expected at most 1 view"
        config = LiveConfig(directory=directory, feed=("127.0.0.1", 1), http_port=port, most_views=1)
        with pytest.raises(ServiceError, match=said):
            LiveRuntime(reactor, config, views, lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_spark_runs_for_views_of_its_lane_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", Source)
    express = [NamedSelect(view.name, view.sql, lane="express") for view in VIEWS]

    def begun(name: str, views: list[NamedSelect], runs_spark: bool | None) -> LiveRuntime:
        config = LiveConfig(directory=tmp_path / name, feed=("127.0.0.1", 1), runs_spark=runs_spark)
        reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
        return LiveRuntime(reactor, config, views, lambda _: None)

    assert begun("spark", VIEWS, None).parts.lanes == ("spark", "express")
    assert begun("express", express, None).parts.lanes == ("express",)
    assert begun("both", express, True).parts.lanes == ("spark", "express")
    with pytest.raises(ServiceError, match="expected views of the express lane for --no-spark, was 'volumes'"):
        begun("none", VIEWS, False)
