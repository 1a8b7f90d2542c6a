"""Runs in a container of its own and asks the others: a line of JSON in, a line of JSON out; sent there as text.

Nothing of the tests is imported here: what it needs is in the image.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import sys
from collections.abc import Callable
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

from deltabook.wire import text
from deltabook.wire.results import FrameDecoder

SECRETS = Path("/run/secrets")
PORTS = {"exchange": 4714, "runtime": 8080, "algo": 8081}
PATHS = {"exchange": "/v1/status", "runtime": "/v1/status", "algo": "/v1/strategies"}
PATIENCE_S = 5.0
FEED_PORT = 4711


def connection(service: str, timeout_s: float = PATIENCE_S) -> HTTPSConnection:
    """To a service's own port, over TLS."""
    trusted = ssl.create_default_context(cafile=str(SECRETS / "ca.pem"))
    return HTTPSConnection(service, PORTS[service], timeout=timeout_s, context=trusted)


def token(service: str) -> dict[str, str]:
    """The header that lets us in."""
    return {"Authorization": f"Bearer {(SECRETS / f'{service}.token').read_text().strip()}"}


def status(service: str) -> Any:
    """What a service says of itself."""
    asked = connection(service)
    try:
        asked.request("GET", PATHS[service], headers=token(service))
        answer = asked.getresponse()
        if answer.status != 200:
            raise OSError(f"expected 200, was {answer.status}")
        return json.load(answer)
    finally:
        asked.close()


def views(names: list[str]) -> list[str]:
    """The frames with which a change stream of these views begins, each a snapshot; in Base64."""
    asked = connection("runtime", 60.0)
    asked.request("GET", f"/v1/changes?views={','.join(names)}", headers=token("runtime"))
    answer = asked.getresponse()
    decoder = FrameDecoder()
    seen: set[str] = set()
    pieces: list[str] = []
    while seen < set(names):
        piece = answer.read1(1 << 16)
        if not piece:
            raise OSError("the stream has ended")
        pieces.append(base64.b64encode(piece).decode())
        seen |= {frame.header.view for frame in decoder.feed(piece)}
    asked.close()
    return pieces


def feed(begin: int, until: int) -> list[str]:
    """The lines of the feed from a number up to another."""
    lines: list[str] = []
    with socket.create_connection(("exchange", FEED_PORT), timeout=60) as opened:
        opened.sendall(text.encode_login(text.PassiveLogin("", begin)))
        told = opened.makefile("rb")
        _accepted(told.readline())
        while len(lines) <= until - begin:
            line = told.readline()
            if text.parse_feed_message(line).action != "H":
                lines.append(line.decode())
    return lines


def position() -> int:
    """Number of the newest message of the feed."""
    with socket.create_connection(("exchange", FEED_PORT), timeout=PATIENCE_S) as opened:
        opened.sendall(text.encode_login(text.PassiveLogin()))
        return _accepted(opened.makefile("rb").readline()).sequence - 1


def _accepted(line: bytes) -> text.Accepted:
    reply = text.parse_login_reply(line)
    if not isinstance(reply, text.Accepted):
        raise OSError(f"refused: {reply}")
    return reply


def main() -> None:
    """Answer until the input ends."""
    asked: dict[str, Callable[..., Any]] = {"status": status, "views": views, "feed": feed, "position": position}
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        try:
            answer: dict[str, Any] = {"answer": asked[what](*arguments)}
        except (OSError, ValueError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
