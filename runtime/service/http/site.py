# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Site of the service: access control and limits, then a table of routes."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any, Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site
from twisted.web.server import Request as SiteRequest

from deltabook.wire.access import Access
from deltabook.wire.service import SiteLine
from deltabook.wire.site import CrowdedConnection, answer_and_close, answer_before_closing
from runtime.compiler import SqlError
from runtime.service.errors import ServiceError
from runtime.service.http.limits import Connections, Rates, SiteLimits, client_of
from runtime.service.http.routes import TEXT, Call, Refusal, Reply, Route, Routes
from runtime.service.http.rows import chosen
from runtime.service.http.sending import Sender, refused

__all__ = ["ResultsSite"]

_HOPELESS_BODIES: Final = 4
"""Multiple of the limit of a body above which a client that keeps sending is disconnected without an answer."""
_SHOWN_TO_PAGES: Final = "location, retry-after, deltabook-epoch, deltabook-step, deltabook-run"
"""Headers of answers that a page of another port may read; a browser hides all other headers from the page."""


class _Request(SiteRequest):
    """Request whose body is limited in size, and which must arrive within a timeout."""

    kept_bytes = 0
    is_too_long = False
    is_crowded = False
    refusal: Refusal | None = None
    _received_bytes = 0
    _late: Any = None

    def __init__(self, channel: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(channel, *arguments, **named)
        site: ResultsSite = channel.site
        site.begun += 1
        self._late = cast(Any, site.reactor).callLater(site.limits.request_s, self._too_late)

    def gotLength(self, length: int | None) -> None:
        """Prepare for the body; bodies of refused requests are not kept. See the base."""
        del length
        self.content = BytesIO()
        self.refusal = cast("ResultsSite", cast(Any, self.channel).site).refusal(cast(Request, self))

    def handleContentChunk(self, data: bytes) -> None:
        """Count and keep a chunk of the body; see the base."""
        site: ResultsSite = cast(Any, self.channel).site
        self._received_bytes += len(data)
        self.is_too_long = self._received_bytes > site.limits.body_bytes
        if self._received_bytes > _HOPELESS_BODIES * site.limits.body_bytes:
            cast(Any, self.channel).transport.abortConnection()
        elif self.is_too_long or self.refusal is not None or self.is_crowded:
            self._release()
        elif site.bodies_bytes + len(data) > site.limits.bodies_bytes:
            self.is_crowded = True
            self._release()
        else:
            self.kept_bytes += len(data)
            site.bodies_bytes += len(data)
            cast(Any, self.content).write(data)

    def process(self) -> None:
        """Stop the timeout of the arrival, and answer the request; see the base."""
        self._arrived()
        super().process()

    def connectionLost(self, reason: Failure) -> None:
        """Stop the timeout of the arrival, and release the body; see the base."""
        self._arrived()
        self._release()
        super().connectionLost(reason)

    def finish(self) -> None:
        """Release the body; see the base."""
        self._release()
        super().finish()

    def _release(self) -> None:
        """Release the body."""
        cast(Any, self.channel).site.bodies_bytes -= self.kept_bytes
        self.kept_bytes = 0
        self.content = BytesIO()

    def _arrived(self) -> None:
        if self._late is not None and self._late.active():
            self._late.cancel()
        self._late = None

    def _too_late(self) -> None:
        self._late = None
        channel = cast(Any, self.channel)
        if len(channel.requests) == 1:  # otherwise the answer to an earlier request is still being sent
            answer_and_close(channel.transport, 408, channel.site.late, channel.site.reactor)
        else:
            channel.transport.abortConnection()


class ResultsSite(Site):
    """Site of a table of routes, with limits for each client and for all clients together."""

    noisy = False

    def __init__(self, routes: Routes, access: Access, limits: SiteLimits, reactor: Any) -> None:
        super().__init__(
            _Root(routes, self),
            requestFactory=cast(Any, _Request),
            timeout=cast(Any, limits.idle_s),
            reactor=reactor,
            parsePOSTFormSubmission=False,
        )
        self.displayTracebacks = False
        self.limits = limits
        self.access = access
        self.rates = Rates(limits.requests_per_s, limits.burst, limits.clients, reactor.seconds)
        self.sender = Sender(limits, reactor)
        self.bodies_bytes = 0
        """Total size of all bodies that are arriving, in bytes."""
        self.begun = 0
        """Number of requests whose first line has arrived."""
        self.late = f"expected a whole request within {limits.request_s:g} s, was a slower one"
        """Answer to a request that takes too long to arrive."""
        self._connections = Connections(limits.connections, limits.connections_per_client)
        self._refused_connections = self._requests = self._refused = self._failed = 0

    def figures(self) -> SiteLine:
        """Return the current figures."""
        return SiteLine(
            connections=self._connections.open,
            refused_connections=self._refused_connections,
            requests=self._requests,
            refused_requests=self._refused,
            failed_requests=self._failed,
            held_bytes=self.sender.held_bytes,
        )

    def answered(self, status: int) -> None:
        """Count an answered request."""
        self._requests += 1
        self._refused += status >= 400
        self._failed += status == 500

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """Return a connection; above the limit, one that only reports the limit."""
        client = client_of(str(getattr(addr, "host", "")))
        if reason := self._connections.taken(client):
            self._refused_connections += 1
            return CrowdedConnection(reason, self.reactor)
        connection: Any = super().buildProtocol(addr)
        channel: Any = connection._channel
        lost, received = connection.connectionLost, connection.dataReceived
        # `_Request`, which has a timeout, is created when the first line of a request is complete. Without this timer,
        # a client that sends a byte before each idle timeout would keep the connection for ever.
        heads: list[Any] = []

        def arrived(data: bytes) -> None:
            begun = self.begun
            received(data)
            # A request that has begun has its own timeout. It may have been answered within the call, so that the
            # channel no longer has a request.
            if self.begun != begun or channel.requests or connection._channel is not channel:
                stop()
            elif not heads:
                heads.append(cast(Any, self.reactor).callLater(self.limits.request_s, late))

        def late() -> None:
            heads.clear()
            answer_and_close(channel.transport, 408, self.late, self.reactor)

        def stop() -> None:
            while heads:
                heads.pop().cancel()

        def ended(reason: Failure) -> None:
            stop()
            self._connections.lost(client)
            lost(reason)

        connection.connectionLost, connection.dataReceived = ended, arrived
        answer_before_closing(connection, self.reactor, self.limits.body_bytes)
        return connection

    def refusal(self, request: Request) -> Refusal | None:
        """Return the refusal of a request by rate or access, whatever its route; None if it is admitted."""
        host = str(getattr(request.getClientAddress(), "host", ""))
        wait_s = self.rates.wait_s(client_of(host))
        if wait_s:
            most = self.limits.requests_per_s
            text = f"expected at most {most:g} requests a second, was more: try again in {wait_s:.3f} s"
            return Refusal(429, text, {"retry-after": str(math.ceil(wait_s))})
        refused = self.access.refusal_of(request)
        if refused is None:
            return None
        return Refusal(*refused, {"www-authenticate": "Bearer"} if refused[0] == 401 else None)


class _Root(Resource):
    """Resource of all paths of the site."""

    isLeaf = True
    _log = Logger()

    def __init__(self, routes: Routes, site: ResultsSite) -> None:
        super().__init__()
        self._routes, self._site = routes, site

    def render(self, request: Request) -> int:
        """Answer a request, or begin the answer; see the base."""
        try:
            handled = self._handled(request)
        except Exception as error:  # noqa: BLE001 - every error is answered
            handled = self._error(request, error)
        if isinstance(handled, Reply):
            self._send(request, handled)
        elif not isinstance(handled, int):
            self._await(request, handled)
        return NOT_DONE_YET

    def _handled(self, request: Request) -> Any:
        origin = request.getHeader("origin")
        if self._site.access.is_page(origin):
            request.setHeader("access-control-allow-origin", str(origin))
            request.setHeader("access-control-expose-headers", _SHOWN_TO_PAGES)
            request.setHeader("vary", "origin")
        limits, arriving = self._site.limits, cast(_Request, request)
        if request.method == b"OPTIONS" and self._site.access.is_page(origin):
            return self._options(request)  # a browser's preflight has no token
        if arriving.refusal is not None:
            raise arriving.refusal
        if len(request.uri) > limits.target_bytes:
            raise Refusal(414, f"expected a path and query of at most {limits.target_bytes} bytes, was a longer one")
        methods, values = self._routes.match(request.path)
        if request.method == b"OPTIONS":
            return self._options(request)
        asked = request.method.decode("ascii", "replace")
        route = methods.get("GET" if asked == "HEAD" else asked)
        if route is None:
            raise Refusal(405, f"expected one of {_allowed(methods)}, was {asked[:80]}", {"allow": _allowed(methods)})
        if arriving.is_too_long:
            raise Refusal(413, f"expected a body of at most {limits.body_bytes} bytes, was a longer one")
        if arriving.is_crowded:
            text = f"expected at most {limits.bodies_bytes} bytes of bodies that arrive at once, was more: try later"
            raise Refusal(503, text, {"retry-after": "1"})
        return self._called(request, route, values)

    def _called(self, request: Request, route: Route, values: tuple[str, ...]) -> Any:
        query = route.queried(request.uri.partition(b"?")[2])
        body = route.posted(cast(Any, request.content).getvalue(), request.getHeader("content-type"))
        media = chosen(request.getHeader("accept"), route.media)
        path = dict(zip((value.name for value in route.values), values, strict=True))
        if route.endless and request.method == b"HEAD":
            return Reply(route.answers[0].status, b"", media)
        return route.call(Call(request, path, query, body, media))

    def _options(self, request: Request) -> Reply:
        """Return the methods of a path, for programs and for a browser's preflight."""
        methods = _allowed(self._routes.match(request.path)[0])
        headers = {"allow": methods}
        if self._site.access.is_page(request.getHeader("origin")):
            headers |= {
                "access-control-allow-methods": methods,
                "access-control-allow-headers": "authorization, content-type",
                "access-control-max-age": "600",
            }
        return Reply(204, b"", TEXT, headers)

    def _await(self, request: Request, handled: Any) -> None:
        """Send the reply of an awaitable once it is ready; the handler continues even if the client disconnects."""
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)

        def reply(result: Any) -> None:
            if isinstance(result, Failure):
                result = self._error(request, cast(Exception, result.value), result)
            if not gone:
                self._send(request, result)

        Deferred.fromCoroutine(handled).addBoth(reply)

    def _send(self, request: Request, reply: Reply) -> None:
        self._site.answered(reply.status)
        self._site.sender.send(request, reply)

    def _error(self, request: Request, error: Exception, failure: Failure | None = None) -> Reply:
        """Return the reply to an error: one line of text."""
        if isinstance(error, Refusal):
            return refused(error)
        if isinstance(error, SqlError):
            return refused(Refusal(422, str(error)))
        if isinstance(error, ServiceError):
            return refused(Refusal(404 if isinstance(error, LookupError) else 409, str(error)))
        self._log.failure("{method} {path} failed", failure, method=request.method, path=request.path)
        return refused(Refusal(500, f"expected an answer, was {type(error).__name__}: see the runtime's log"))


def _allowed(methods: dict[str, Route]) -> str:
    names = [*methods, "HEAD"] if "GET" in methods else [*methods]
    return ", ".join([*names, "OPTIONS"])
