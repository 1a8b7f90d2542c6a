"""The client over real sockets to a server that a test scripts: it goes on where it was, and gives up in time."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from deltabook.wire.catalogue import Changed
from deltabook.wire.http.blocking import BlockingPort
from deltabook.wire.http.peer import HttpPeer
from deltabook.wire.results import FrameHeader, encode_frame
from deltabook.wire.service import ColumnLine, Cursor, ViewLine
from runtime.client import (
    ClientError,
    ConnectionFailedError,
    GoneError,
    NotFoundError,
    Patience,
    ProtocolError,
    RefusedError,
    connect,
)
from runtime.client.changes import ChangeStream

LINE = ViewLine("v", "linear", "express", "why", (ColumnLine("a", "int64"),), 2, 7, 1, 1, None)
QUICK = Patience(silence_s=20, reconnect_s=1, first_s=0.001, most_s=0.002)
Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Gives one answer after another, and keeps what was asked."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        server = self

        class Asked(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                server.asked.append(f"{self.command} {self.path}")
                server.headers.append(dict(self.headers))
                server.bodies.append(self.rfile.read(int(self.headers.get("content-length", 0))))
                server.answers.pop(0)(self)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        self.address = f"127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def says(body: bytes, status: int = 200, **headers: str) -> Answer:
    """A whole answer."""

    def answer(asked: BaseHTTPRequestHandler) -> None:
        asked.send_response(status)
        for name, value in headers.items():
            asked.send_header(name.replace("_", "-"), value)
        asked.send_header("content-length", str(len(body)))
        asked.end_headers()
        asked.wfile.write(body)

    return answer


def streams(*frames: bytes, run: str = "r1") -> Answer:
    """Some frames, and then the connection is lost."""

    def answer(asked: BaseHTTPRequestHandler) -> None:
        asked.send_response(200)
        asked.send_header("deltabook-run", run)
        asked.send_header("transfer-encoding", "chunked")
        asked.end_headers()
        for frame in frames:
            asked.wfile.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")
        asked.close_connection = True

    return answer


def frame(kind: Any, begin: int, to: int, *rows: tuple[int, int], view: str = "v", reason: str = "") -> bytes:
    """A frame with a column ``a``."""
    table = pa.table({"a": pa.array([a for a, _ in rows], pa.int64()), "weight": [w for _, w in rows]})
    body = table if kind in {"snapshot", "changes"} else None
    return encode_frame(FrameHeader(kind, view, begin, to, {"feed": ("s", to)}, 5, reason), body)


def arrow(*values: int | None, kind: pa.DataType | None = None) -> bytes:
    """An Arrow stream with a column ``a``."""
    sink = pa.BufferOutputStream()
    table = pa.table({"a": pa.array(values, pa.int64() if kind is None else kind)})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_a_stream_goes_on_where_it_was_over_lost_connections(server: Server) -> None:
    server.answers = [
        streams(frame("snapshot", 0, 3, (1, 1)), frame("heartbeat", 0, 3, view=""), frame("changes", 3, 4, (2, 1))),
        says(b"busy\n", 503),
        streams(frame("progress", 4, 6), frame("changes", 6, 7, (2, -1))),
        streams(frame("error", 7, 8, reason="dropped at epoch 8")),
    ]
    with connect(server.address, patience=QUICK).changes(["v"]) as stream:
        told = list(stream)
    assert [(c.kind, c.from_epoch, c.to_epoch) for c in told] == [
        ("snapshot", 0, 3), ("changes", 3, 4), ("changes", 4, 7), ("ended", 7, 8),
    ]  # fmt: skip
    assert told[1].rows.to_pylist() == [{"a": 2, "weight": 1}]
    assert told[1].feed == {"feed": ("s", 4)}
    assert told[-1].reason == "dropped at epoch 8"
    assert stream.positions == {"v": 7}
    assert stream.run == "r1"
    assert server.asked == [
        "GET /v1/changes?views=v&by=epoch",
        "GET /v1/changes?views=v&by=epoch&from=v:4&run=r1",
        "GET /v1/changes?views=v&by=epoch&from=v:4&run=r1",
        "GET /v1/changes?views=v&by=epoch&from=v:7&run=r1",
    ]


def test_a_stream_of_another_day_begins_at_the_last_position(server: Server) -> None:
    server.answers = [streams(frame("changes", 5, 9, (1, 1))), streams(frame("snapshot", 0, 2, reason="another run"))]
    with connect(server.address, patience=QUICK).changes(["v", "w"], {"v": 5}, run="r0") as stream:
        assert next(stream).from_epoch == 5
        assert next(stream).reason == "another run"
        assert stream.positions == {"v": 2}
    assert server.asked[0] == "GET /v1/changes?views=v,w&by=epoch&from=v:5&run=r0"
    assert next(stream, None) is None, "it is closed"


def test_spans_that_do_not_follow_each_other_are_an_error(server: Server) -> None:
    server.answers = [streams(frame("snapshot", 0, 3), frame("changes", 4, 5, (1, 1)))]
    with connect(server.address, patience=QUICK).changes(["v"]) as stream:
        next(stream)
        with pytest.raises(ProtocolError, match="expected changes of v from epoch 3 on, was 4"):
            next(stream)


def test_by_version_nothing_is_resumed(server: Server) -> None:
    server.answers = [streams(frame("snapshot", 0, 3), frame("changes", 3, 3, (1, 1)))] * 2
    with connect(server.address, patience=QUICK).changes(["v"], by="version") as stream:
        assert [next(stream).kind for _ in range(3)] == ["snapshot", "changes", "snapshot"]
    assert server.asked == ["GET /v1/changes?views=v"] * 2
    with pytest.raises(ValueError, match="versions cannot be resumed"):
        connect(server.address).changes(["v"], 3, by="version")


def test_a_stream_that_is_refused_says_why_at_once(server: Server) -> None:
    server.answers = [says(b"expected ?views= with names out of a, was v\n", 404)]
    with pytest.raises(NotFoundError, match="names out of a, was v") as found:
        next(connect(server.address, patience=QUICK).changes(["v"]))
    assert found.value.status == 404


def test_a_stream_gives_up_when_nobody_answers_for_too_long(server: Server) -> None:
    server.close()
    times = iter(range(100))
    stream = connect(server.address, patience=QUICK).changes(["v"])
    stream._now_s, stream._sleep = lambda: float(next(times)), lambda _: None
    with pytest.raises(ConnectionFailedError, match="expected a runtime's results service at 127"):
        next(stream)
    assert stream.next(0.0) is None


def test_the_next_change_may_be_waited_for(server: Server) -> None:
    server.answers = [streams(frame("snapshot", 0, 3), frame("heartbeat", 0, 3, view="")), says(b"", 503)]
    with connect(server.address, patience=QUICK).changes(["v"]) as stream:
        change = stream.next(20)
        assert change is not None
        assert change.kind == "snapshot"


def test_decimals_are_exact(server: Server) -> None:
    field = pa.field("h", pa.decimal128(38, 0), metadata={"scale": "2"})
    ticks = pa.array([Decimal(12345678901234567890123), Decimal(-5), None], pa.decimal128(38, 0))
    table = pa.table([ticks, pa.array([1, 1, 1])], pa.schema([field, pa.field("weight", pa.int64())]))
    server.answers = [streams(encode_frame(FrameHeader("snapshot", "v", 0, 1), table))]
    with connect(server.address, patience=QUICK).changes(["v"]) as stream:
        values = next(stream).rows["h"].to_pylist()
    assert [str(value) for value in values] == ["123456789012345678901.23", "-0.05", "None"]


def test_rows_come_page_by_page_and_the_cursor_is_closed(server: Server) -> None:
    cursor = Cursor("c1", "v", 7, 1, LINE.columns, 3, 2, 2, 60.0)
    server.answers = [
        says(msgspec.json.encode([LINE])), says(msgspec.json.encode(cursor), 201), says(arrow(1, 2)), says(arrow(3)),
        says(b"", 204),
    ]  # fmt: skip
    with connect(server.address, token="0123456789abcdef") as client:
        assert list(client.view("v").rows(2)) == [(1,), (2,), (3,)]
    assert server.asked == [
        "GET /v1/views", "POST /v1/views/v/cursor", "GET /v1/cursors/c1?page=0", "GET /v1/cursors/c1?page=1",
        "DELETE /v1/cursors/c1",
    ]  # fmt: skip
    assert server.headers[1]["Authorization"] == "Bearer 0123456789abcdef"
    assert msgspec.json.decode(server.bodies[1]) == {"rows": 2, "is_sorted": True}


@pytest.mark.parametrize(("scale", "expected"), [(0, int), (2, Decimal)])
def test_sums_without_digits_behind_the_point_are_integers(server: Server, scale: int, expected: type) -> None:
    cursor = Cursor("c1", "v", 7, 1, LINE.columns, 2, 2, 1, 60.0)
    page = arrow(3, None, kind=pa.decimal128(38, scale))
    server.answers = [
        says(msgspec.json.encode([LINE])), says(msgspec.json.encode(cursor), 201), says(page), says(b"", 204),
    ]  # fmt: skip
    with connect(server.address) as client:
        (first,), second = client.view("v").rows()
    assert (first, type(first), second) == (3, expected, (None,))


def test_a_result_that_is_too_large_for_one_answer_is_paged(server: Server) -> None:
    cursor = Cursor("c1", "v", 7, 1, LINE.columns, 3, 100_000, 1, 60.0)
    server.answers = [
        says(msgspec.json.encode([LINE])), says(b"expected at most 5 bytes, was 9\n", 413),
        says(msgspec.json.encode(cursor), 201), says(arrow(1, 2, 3)), says(b"closed already\n", 410),
    ]  # fmt: skip
    assert connect(server.address).view("v").to_arrow().to_pydict() == {"a": [1, 2, 3]}


def test_a_table_may_be_a_data_frame(server: Server) -> None:
    pytest.importorskip("pandas")
    server.answers = [says(msgspec.json.encode([LINE])), says(arrow(4, 5))]
    assert connect(server.address).view("v").to_pandas()["a"].tolist() == [4, 5]


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFoundError), (410, GoneError), (409, RefusedError), (401, RefusedError)]
)
def test_refusals_say_what_the_runtime_says(server: Server, status: int, kind: type[RefusedError]) -> None:
    server.answers = [says(b"expected something else\n", status)]
    with pytest.raises(kind, match=r"^expected something else$"):
        connect(server.address).drop_view("v")


def test_an_answer_that_is_none_is_an_error_of_the_client(server: Server) -> None:
    server.answers = [says(b"<html>")]
    with pytest.raises(ProtocolError, match="/v1/views, was b'<html>'"):
        connect(server.address).views()
    server.answers = [says(msgspec.json.encode([LINE]))]
    with pytest.raises(NotFoundError, match="expected one of the views v, was 'w'"):
        connect(server.address).view("w")


def test_a_question_is_retried_on_a_closed_connection_only(server: Server) -> None:
    def closes(asked: BaseHTTPRequestHandler) -> None:
        says(b"[]")(asked)
        asked.close_connection = True

    def hangs_up(asked: BaseHTTPRequestHandler) -> None:
        asked.close_connection = True

    server.answers = [closes, says(b"[]"), hangs_up, says(b"{}")]
    client = connect(server.address)
    assert client.views() == client.views() == ()
    with pytest.raises(ConnectionFailedError):
        client.add_view("v", "SELECT 1")
    assert server.asked[2:] == ["POST /v1/views"]


def test_a_change_is_not_sent_over_a_closed_connection(server: Server) -> None:
    """As it does on whoever asks nothing for a minute."""

    def closes(asked: BaseHTTPRequestHandler) -> None:
        says(b"[]")(asked)
        asked.close_connection = True

    server.answers = [closes, says(msgspec.json.encode(Changed(1, 1, ())))]
    client = connect(server.address)
    assert client.views() == ()
    kept = client._port._kept
    assert kept is not None
    select.select([kept.sock], [], [], 20)
    assert client.add_view("v", "SELECT 1").epoch == 1


def test_a_closed_stream_makes_no_further_attempt() -> None:
    """Another thread may close the stream while it waits to connect again."""
    waits: list[float] = []

    def closes(seconds: float) -> None:
        waits.append(seconds)
        stream.close()

    port = BlockingPort(HttpPeer.of("a runtime", "127.0.0.1:1"), 1.0)
    stream = ChangeStream(port, ["v"], None, "epoch", patience=QUICK, sleep=closes)
    assert list(stream) == []
    assert len(waits) == 1


def test_a_stream_whose_views_have_ended_is_disconnected(server: Server) -> None:
    server.answers = [streams(frame("error", 0, 3, reason="dropped"))]
    with ChangeStream(BlockingPort(HttpPeer.of("a runtime", server.address), 1.0), ["v"], None, "epoch") as stream:
        change = stream.next(20)
        assert change is not None
        assert (change.kind, change.reason) == ("ended", "dropped")
        assert stream.next(20) is None
        assert stream._connection is None


def test_a_stream_that_ends_at_once_rests_before_it_reconnects(server: Server) -> None:
    rests: list[float] = []
    server.answers = [*[streams()] * 5, streams(frame("snapshot", 0, 3, (1, 1)), frame("error", 3, 4))]
    port = BlockingPort(HttpPeer.of("a runtime", server.address), 20)
    patience = Patience(silence_s=20, first_s=1, most_s=4)
    told = list(ChangeStream(port, ["v"], None, "epoch", patience=patience, sleep=rests.append))
    assert [change.kind for change in told] == ["snapshot", "ended"]
    assert [most / 2 <= rest <= most for rest, most in zip(rests, [1, 2, 4, 4, 4], strict=True)] == [True] * 5


@pytest.mark.parametrize("address", ["results.example:1", "http://10.0.0.1:1"])
def test_a_token_is_not_shown_to_everybody_on_the_way(address: str) -> None:
    with pytest.raises(ValueError, match="expected TLS to send a token to another machine"):
        connect(address, token="0123456789abcdef")
    for safe in ("localhost:1", "[::1]:1", f"https://{address.rpartition('//')[2]}"):
        connect(safe, token="0123456789abcdef")


@pytest.mark.parametrize("address", ["", "host", "host:", ":80", "ftp://a:1", "a:99999", "a:b"])
def test_an_address_is_checked_before_anything_is_sent(address: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT, was"):
        connect(address)


def test_every_error_is_one_of_the_client() -> None:
    for error in (ConnectionFailedError, GoneError, NotFoundError, ProtocolError, RefusedError):
        assert issubclass(error, ClientError)


def answer_stream(metadata: dict[str, str] | None) -> bytes:
    """An Arrow stream with two rows."""
    table = pa.table({"a": [1, 2], "d": pa.array([Decimal("1.5"), None], pa.decimal128(10, 1))})
    table = table.replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


ARROW_STREAM = "application/vnd.apache.arrow.stream"


def test_a_question_has_an_answer_with_its_epoch(server: Server) -> None:
    server.answers.append(says(answer_stream({"deltabook.epoch": "9"}), content_type=ARROW_STREAM))
    with connect(server.address) as client:
        answer = client.ask("SELECT a, d FROM t", epoch=9)
    assert (answer.epoch, answer.columns, answer.rows()) == (9, ("a", "d"), [(1, Decimal("1.5")), (2, None)])
    assert (server.asked, json_of(server.bodies[0])) == (["POST /v1/ask"], {"sql": "SELECT a, d FROM t", "epoch": 9})
    assert server.headers[0]["Accept"] == ARROW_STREAM


@pytest.mark.parametrize(
    ("body", "kind"), [(b"{}", "application/json"), (b"x", ARROW_STREAM), (answer_stream(None), ARROW_STREAM)]
)
def test_an_answer_that_is_none_is_an_error(server: Server, body: bytes, kind: str) -> None:
    server.answers.append(says(body, content_type=kind))
    with connect(server.address) as client, pytest.raises(ProtocolError, match="expected an"):
        client.ask("SELECT 1")


def test_a_question_that_is_refused_has_the_runtimes_words(server: Server) -> None:
    server.answers.append(says(b"question:1:8: no such column\n", 422))
    server.answers.append(says(b"retired\n", 410))
    with connect(server.address) as client:
        with pytest.raises(RefusedError, match="question:1:8: no such column"):
            client.ask("SELECT x")
        with pytest.raises(GoneError):
            client.ask("SELECT 1 AS OF EPOCH 2")


def json_of(body: bytes) -> Any:
    """A body as JSON."""
    return msgspec.json.decode(body)
