"""Table of routes: requests, their parameters and their answers.

The site and its description (`openapi`) are built from the same table, so that site and description cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, unquote

import msgspec
from twisted.web.http import Request

from deltabook.wire.strict_json import decode_strictly

__all__ = [
    "ARROW",
    "FRAMES",
    "JSON",
    "TEXT",
    "Answer",
    "Body",
    "Call",
    "Handled",
    "Method",
    "Parameter",
    "Refusal",
    "Reply",
    "Route",
    "Routes",
    "json_reply",
]

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
ARROW: Final = "application/vnd.apache.arrow.stream"
FRAMES: Final = "application/vnd.deltabook.frames"

Method = Literal["GET", "POST", "DELETE"]

_MOST_ARGUMENTS: Final = 32
"""Greatest number of parameters in a query."""
_SHOWN: Final = 80
"""Greatest number of characters of a request that an error repeats."""


class Refusal(Exception):
    """Refusal of a request, which is answered with a status of 400 or more and one line of text."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


class Body(msgspec.Struct, frozen=True):
    """Body of an answer that is generated piece by piece while it is sent."""

    pieces: Iterator[bytes]
    """Iterator of the pieces; each piece is generated when the connection has room for it."""
    held_bytes: int
    """Number of bytes in memory until the last piece is sent."""


class Reply(msgspec.Struct, frozen=True):
    """Answer to a request."""

    status: int
    """HTTP status."""
    body: bytes | Body
    """Whole body, or its pieces."""
    content_type: str = JSON
    """Content type of the body."""
    headers: Mapping[str, str] = {}
    """Further headers."""


class Parameter(msgspec.Struct, frozen=True):
    """Parameter in the path or in the query."""

    name: str
    """Name of the parameter."""
    type: Any
    """Python type with its bounds, by which values are checked and described."""
    what: str
    """Description."""
    default: Any = msgspec.UNSET
    """Default; a parameter without one is required."""


class Answer(msgspec.Struct, frozen=True):
    """Answer that a route may give."""

    status: int
    """HTTP status."""
    what: str
    """Description."""
    body: Any = str
    """Type of the JSON; str for text."""
    media: tuple[str, ...] = (TEXT,)
    """Content types; empty for an answer without a body."""


class Call:
    """Request of a route, with its values checked."""

    def __init__(
        self, request: Request, path: Mapping[str, Any], query: Mapping[str, Any], body: Any, media: str
    ) -> None:
        self.request = request
        self.path = path
        """Values in the path."""
        self.query = query
        """Values in the query, with their defaults."""
        self.body = body
        """Decoded record of a POST; None for other requests."""
        self.media = media
        """Negotiated content type of the successful answer."""


Handled = Reply | int | Awaitable[Reply]
"""Result of a handler: a reply, an awaitable of a reply, or `NOT_DONE_YET` if the handler itself writes to the
request."""


class Route(msgspec.Struct, frozen=True):
    """Method of a path, with its parameters, its answers and its handler."""

    method: Method
    """Method of the request."""
    path: str
    """Path, with the names of values in braces, each a whole segment."""
    name: str
    """Name of the operation, for generated clients."""
    what: str
    """Description in one line."""
    answers: tuple[Answer, ...]
    """Answers, the successful one first, without the answers that every route may give."""
    call: Callable[[Call], Handled]
    """Handler of the requests."""
    parameters: tuple[Parameter, ...] = ()
    """Parameters in the query."""
    values: tuple[Parameter, ...] = ()
    """Parameters in the path."""
    body: Any = None
    """Type of the posted record."""
    example: Any = None
    """Example of the posted record."""
    leads_to: Mapping[str, tuple[str, str]] = {}
    """Operation that a successful answer makes possible → a value in its path, and the place of the value in the
    answer."""
    endless: bool = False
    """True if the answer has no end, or the connection leaves HTTP."""

    @property
    def media(self) -> tuple[str, ...]:
        """Content types of the successful answer."""
        return self.answers[0].media

    def queried(self, query: bytes) -> dict[str, Any]:
        """Return the values in the query; raises `Refusal` for unknown parameters and invalid values."""
        given = _arguments(query)
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise Refusal(400, f"expected parameters out of {listed}, was {name[:_SHOWN]!r}")
        return {parameter.name: _value(parameter, given.get(parameter.name)) for parameter in self.parameters}

    def posted(self, content: bytes, content_type: str | None) -> Any:
        """Return the decoded body, None for a route without a body; raises `Refusal` for a body of another form."""
        if self.body is None:
            return None
        if content_type is not None and content_type.partition(";")[0].strip().lower() != JSON:
            raise Refusal(415, f"expected a body of {JSON}, was one of {content_type[:_SHOWN]}")
        try:
            return _decoded(content, self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            kind = self.body.__name__
            raise Refusal(400, f"expected {kind} as JSON, was {content[:_SHOWN]!r}: {error}") from None


class Routes:
    """All routes of a site."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        """Routes in the order of the description."""
        self._tree: dict[Any, Any] = {}
        for route in self.routes:
            node = self._tree
            for segment in route.path.strip("/").split("/"):
                node = node.setdefault(None if segment.startswith("{") else segment, {})
            methods = node.setdefault(_METHODS, {})
            if route.method in methods:
                raise ValueError(f"expected one route a method, was a second {route.method} {route.path}")
            methods[route.method] = route

    @property
    def paths(self) -> str:
        """All paths as text, for messages."""
        return ", ".join(dict.fromkeys(route.path for route in self.routes))

    def match(self, path: bytes) -> tuple[dict[str, Route], tuple[str, ...]]:
        """Return the methods of a path, and the values in the path; raises `Refusal` for an unknown path."""
        segments = [unquote(part, errors="replace") for part in path.decode("ascii", "replace").split("/")[1:]]
        if len(segments) > 1 and not segments[-1]:
            segments.pop()
        node, values = self._tree, []
        for segment in segments:
            below = node.get(segment)
            if below is None and None in node:
                below = node[None]
                values.append(segment)
            if below is None:
                break
            node = below
        else:
            if methods := node.get(_METHODS):
                return methods, tuple(values)
        shown = path[:_SHOWN].decode("ascii", "replace")
        raise Refusal(404, f"expected one of {self.paths}, was {shown}")


_METHODS: Final = object()
"""Key of the methods of a path in the tree. The other keys are names of segments, and None for a value."""


def json_reply(record: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a reply with a record as JSON."""
    return Reply(status, msgspec.json.encode(record), JSON, headers or {})


def _decoded(content: bytes, kind: Any) -> Any:
    """Decode a record from JSON, in which 3.0 is a whole number; raises the errors of msgspec."""
    try:
        return decode_strictly(content, kind)
    except msgspec.ValidationError:
        return msgspec.convert(_with_integers(decode_strictly(content, Any)), type=kind)


def _with_integers(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_integers(item) for name, item in value.items()}
    return value


def _arguments(query: bytes) -> dict[str, str]:
    """Return name → value; raises `Refusal` for a repeated name, or for bytes that are not text."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_ARGUMENTS
        )
    except ValueError:
        raise Refusal(400, f"expected at most {_MOST_ARGUMENTS} parameters in UTF-8, was {query[:_SHOWN]!r}") from None
    arguments: dict[str, str] = {}
    for name, value in pairs:
        if name in arguments:
            raise Refusal(400, f"expected each parameter once, was {name[:_SHOWN]!r} twice")
        arguments[name] = value
    return arguments


def _value(parameter: Parameter, text: str | None) -> Any:
    if text is None:
        if parameter.default is msgspec.UNSET:
            raise Refusal(400, f"expected {parameter.name} ({parameter.what}), was none")
        return parameter.default
    try:
        return msgspec.convert(text, type=parameter.type, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"expected {parameter.name} ({parameter.what}), was {text[:_SHOWN]!r}: {error}") from None
