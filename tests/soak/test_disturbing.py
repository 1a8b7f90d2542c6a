"""Disturbances of a soak's runtime, on sockets and files of the test's own."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa

from deltabook.wire.results import CONTENT_TYPE, FrameHeader, encode_frame
from tests.soak.disturbing import Archive, FeedRelay, Subscriber

DEADLINE_S = 60.0


def test_a_cut_ends_both_ends_and_the_next_connection_works() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, FeedRelay(server.getsockname()[1]) as relay:
        server.settimeout(DEADLINE_S)
        for number in range(3):
            with socket.create_connection(("127.0.0.1", relay.port), DEADLINE_S) as client:
                upstream, _ = server.accept()
                with upstream:
                    upstream.settimeout(DEADLINE_S)
                    client.sendall(b"login")
                    assert upstream.recv(100) == b"login"
                    upstream.sendall(b"feed")
                    assert client.recv(100) == b"feed"
                    relay.cut()
                    assert (client.recv(100), upstream.recv(100)) == (b"", b"")
            assert relay.connections == number + 1


def test_files_that_retention_removes_stay_in_the_archive(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with Archive(run, tmp_path / "archive") as archive:
        for folder in ("epochs", "results"):
            (run / folder).mkdir(parents=True)
        for name in ("epochs/000000000000.segment", "results/000000000000-000000000002.result"):
            (run / name).write_text(name)
        (run / "epochs/.000000000001.segment").write_text("not published")
        (run / "results/000000000002.full").write_text("not a version's changes")
        archive.link()
        (run / "epochs/000000000000.segment").unlink()
    kept = sorted(str(path.relative_to(archive.directory)) for path in archive.directory.rglob("*.*"))
    assert kept == ["epochs/000000000000.segment", "results/000000000000-000000000002.result"]
    assert (archive.directory / kept[0]).read_text() == kept[0]


def table(**weights: int) -> pa.Table:
    return pa.table({"name": list(weights), "weight": list(weights.values())})


def test_a_subscriber_knows_what_it_saw_last() -> None:
    """A view that was dropped is no longer seen; the runtime may end before the subscriber leaves."""
    frames = [
        encode_frame(FrameHeader("snapshot", "v", 0, 4, {"feed": ("s", 40)}), table(a=2, b=1)),
        encode_frame(FrameHeader("snapshot", "gone", 0, 4, {"feed": ("s", 40)}), table(a=1)),
        encode_frame(FrameHeader("changes", "v", 4, 5, {"feed": ("s", 57)}), table(a=-1, b=-1, c=3)),
        encode_frame(FrameHeader("error", "gone", reason="dropped")),
        encode_frame(FrameHeader("heartbeat", "")),
    ]
    body = b"".join(frames)
    heads = f"HTTP/1.1 200 OK\r\nContent-Type: {CONTENT_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1000).startswith(b"GET /v1/changes?views=v,gone ")
                connection.sendall(heads + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))

        thread = threading.Thread(target=serve)
        thread.start()
        subscriber = Subscriber(server.getsockname()[1], ["v", "gone"])
        thread.join()
        seen = subscriber.leave()
    assert seen.keys() == {"v"}
    assert (seen["v"].epoch, seen["v"].sequence) == (5, 57)
    assert seen["v"].rows == Counter({("a",): 1, ("c",): 3})
