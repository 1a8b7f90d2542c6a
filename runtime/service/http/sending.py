# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Sending of replies: long bodies are sent in pieces, which are generated no faster than the client reads them."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.interfaces import IPushProducer
from twisted.logger import Logger
from twisted.web.http import Request
from zope.interface import implementer

from runtime.service.http.limits import SiteLimits
from runtime.service.http.routes import TEXT, Body, Refusal, Reply

__all__ = ["Sender", "refused"]

_PIECE_BYTES: Final = 64 * 1024
"""Size in bytes above which a whole body is sent in pieces of this size."""
_NO_CONTENT: Final = 204


@implementer(IPushProducer)
class _Flow:
    """Producer of one answer that is sent piece by piece, as the connection has room."""

    _log = Logger()

    def __init__(self, sender: Sender, request: Request, body: Body) -> None:
        self._sender, self._request, self._body = sender, request, body
        self._is_full = self._has_ended = False
        sender.held_bytes += body.held_bytes
        self._stalled: Any = sender.reactor.callLater(sender.limits.stalled_s, self._abort)
        request.notifyFinish().addBoth(lambda _: self._end())
        request.registerProducer(self, True)
        self._send_pieces()

    def pauseProducing(self) -> None:
        """Pause, because the connection is full."""
        self._is_full = True

    def resumeProducing(self) -> None:
        """Resume, because the connection has room."""
        self._is_full = False
        self._send_pieces()

    def stopProducing(self) -> None:
        """Stop, because the client has disconnected."""
        self._end()

    def _send_pieces(self) -> None:
        while not self._is_full and not self._has_ended:
            self._stalled.reset(self._sender.limits.stalled_s)
            try:
                piece = next(self._body.pieces, None)
            except Exception:  # noqa: BLE001 - any error ends this answer and no other
                self._log.failure("an answer to {path} failed", path=self._request.path)
                self._abort()  # half an answer must not look like a whole one
                return
            if piece is None:
                self._request.unregisterProducer()
                self._request.finish()
                return
            self._request.write(piece)

    def _abort(self) -> None:
        channel: Any = self._request.channel
        self._end()
        if channel is not None:
            channel.transport.abortConnection()

    def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._sender.held_bytes -= self._body.held_bytes
            if self._stalled.active():
                self._stalled.cancel()


class Sender:
    """Sender of replies, which counts the memory of the replies that are being sent."""

    def __init__(self, limits: SiteLimits, reactor: Any) -> None:
        self.limits = limits
        self.reactor = reactor
        self.held_bytes = 0
        """Number of bytes in memory of all answers that are being sent piece by piece."""

    def send(self, request: Request, reply: Reply) -> None:
        """Send a reply; above the limit of all answers, send a refusal instead."""
        is_wanted = request.method != b"HEAD"
        length = len(reply.body) if isinstance(reply.body, bytes) else None
        body = _in_pieces(reply.body)
        if isinstance(body, Body) and is_wanted and self.held_bytes + body.held_bytes > self.limits.answers_bytes:
            text = f"expected at most {self.limits.answers_bytes} bytes of answers on their way, was more: try later"
            return self.send(request, refused(Refusal(503, text, {"retry-after": "1"})))
        request.setResponseCode(reply.status)
        for name, value in reply.headers.items():
            request.setHeader(name, value)
        request.setHeader("cache-control", "no-store")
        request.setHeader("x-content-type-options", "nosniff")
        if reply.status != _NO_CONTENT:
            request.setHeader("content-type", reply.content_type)
            if length is not None:
                request.setHeader("content-length", str(length))
        if isinstance(body, Body) and is_wanted:
            _Flow(self, request, body)
        else:
            request.write(body if isinstance(body, bytes) and is_wanted else b"")
            request.finish()
        return None


def _in_pieces(body: bytes | Body) -> bytes | Body:
    """Return a long body in pieces, so that the memory of answers to clients that do not read is counted."""
    if isinstance(body, Body) or len(body) <= _PIECE_BYTES:
        return body
    pieces = (body[begin : begin + _PIECE_BYTES] for begin in range(0, len(body), _PIECE_BYTES))
    return Body(pieces, len(body))


def refused(refusal: Refusal) -> Reply:
    """Return the reply of a refusal: one line of text."""
    text = " ".join(str(refusal).split())
    return Reply(refusal.status, text.encode("utf-8", "replace") + b"\n", TEXT, refusal.headers)
