# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Answers on their way: what is made piece by piece is made no faster than it is taken."""

from __future__ import annotations

from typing import Any

from twisted.internet.interfaces import IPullProducer
from twisted.logger import Logger
from twisted.web.http import Request
from zope.interface import implementer

from runtime.service.http.limits import SiteLimits
from runtime.service.http.routes import TEXT, Body, Refusal, Reply

__all__ = ["Sender"]


@implementer(IPullProducer)
class _Flow:
    """One answer that is sent piece by piece."""

    _log = Logger()

    def __init__(self, sender: Sender, request: Request, body: Body) -> None:
        self._sender, self._request, self._body = sender, request, body
        self._ended = False
        self._stalled: Any = None
        sender.held_bytes += body.held_bytes
        request.notifyFinish().addBoth(lambda _: self._end())
        self._watch()
        request.registerProducer(self, False)

    def resumeProducing(self) -> None:
        """There is room for a piece."""
        if self._ended:
            return
        self._watch()
        try:
            piece = next(self._body.pieces, None)
        except Exception:  # noqa: BLE001 - whatever goes wrong ends this answer and no other
            self._log.failure("an answer to {path}", path=self._request.path)
            self._abort()  # half an answer must not look like a whole one
            return
        if piece is not None:
            self._request.write(piece)
            return
        self._request.unregisterProducer()
        self._request.finish()

    def stopProducing(self) -> None:
        """The client is gone."""
        self._end()

    def _watch(self) -> None:
        if self._stalled is not None and self._stalled.active():
            self._stalled.reset(self._sender.limits.stalled_s)
        else:
            self._stalled = self._sender.reactor.callLater(self._sender.limits.stalled_s, self._abort)

    def _abort(self) -> None:
        channel: Any = self._request.channel
        if channel is not None:
            channel.forceAbortClient()
        self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._sender.held_bytes -= self._body.held_bytes
            if self._stalled.active():
                self._stalled.cancel()


class Sender:
    """Sends replies; counts what those hold that are on their way."""

    def __init__(self, limits: SiteLimits, reactor: Any) -> None:
        self.limits = limits
        self.reactor = reactor
        self.held_bytes = 0
        """Of all answers that are being sent piece by piece."""

    def send(self, request: Request, reply: Reply) -> None:
        """Send a reply as the whole answer."""
        body = reply.body
        is_wanted = request.method != b"HEAD"
        if isinstance(body, Body) and is_wanted and self.held_bytes + body.held_bytes > self.limits.answers_bytes:
            text = f"expected at most {self.limits.answers_bytes} bytes of answers on their way, was more: try later"
            return self.send(request, refused(Refusal(503, text, {"retry-after": "1"})))
        request.setResponseCode(reply.status)
        for name, value in reply.headers.items():
            request.setHeader(name, value)
        if reply.status != 204:
            request.setHeader("content-type", reply.content_type)
        request.setHeader("cache-control", "no-store")
        request.setHeader("x-content-type-options", "nosniff")
        if isinstance(body, bytes):
            if reply.status != 204:
                request.setHeader("content-length", str(len(body)))
            request.write(body if is_wanted else b"")
            request.finish()
        elif is_wanted:
            _Flow(self, request, body)
        else:
            request.write(b"")
            request.finish()
        return None


def refused(refusal: Refusal) -> Reply:
    """One line of text."""
    text = " ".join(str(refusal).split())
    return Reply(refusal.status, text.encode("utf-8", "replace") + b"\n", TEXT, refusal.headers)
