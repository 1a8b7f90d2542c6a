"""OpenAPI description of the service, generated from the table of routes and the records that they use."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import msgspec

from runtime.service.http.limits import SiteLimits
from runtime.service.http.routes import JSON, TEXT, Answer, Parameter, Route, Routes

__all__ = ["described"]

_TEMPLATE: Final = "#/components/schemas/{name}"
_LINE: Final[dict[str, Any]] = {"type": "string", "description": "one line with the expected and the actual value"}
_BYTES: Final[dict[str, Any]] = {"type": "string", "contentEncoding": "binary"}
_HEADER: Final = {"schema": {"type": "string"}}
_ABOUT: Final = """\
Views of a runtime: their definitions, their results and their changes.

A runtime without a token only answers programs of its own machine, which must address it by a name of this machine; a
runtime with a token answers every client that sends the token (`Authorization: Bearer TOKEN`). A refusal is one line of
text: expected X, was Y. `HEAD` is answered wherever `GET` is, `OPTIONS` everywhere. Exact numbers have as many digits
as they need, in JSON too: a client that reads JSON's numbers as floats needs `integers=string`. A client that accepts
`application/vnd.apache.arrow.stream` gets rows as an Arrow IPC stream.
"""
_ANSWERS_OF_ALL: Final = (
    (400, "the request is invalid; the line has the expected and the actual value"),
    (401, "the token is wrong or missing"),
    (403, "the request is from another machine or from a page, or is not addressed to a name of this machine"),
    (429, "too many requests; `Retry-After` is the number of seconds to wait"),
    (500, "an error in the runtime; its log has the details"),
    (503, "too many connections or answers at once"),
)
"""Status and description of the answers that every route may give."""
_WITH_HEADERS: Final = {429: ("Retry-After",), 401: ("WWW-Authenticate",), 405: ("Allow",)}
"""Status → headers of its answers."""


def described(routes: Routes, limits: SiteLimits, *, has_token: bool) -> dict[str, Any]:
    """Return the description in OpenAPI 3.1; ``has_token`` is True if requests need the token."""
    kinds = list(dict.fromkeys(kind for route in routes.routes for kind in _kinds(route)))
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind, limits)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Deltabook runtime",
            "version": _version(),
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}] if has_token else [],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _kinds(route: Route) -> Iterator[Any]:
    """Yield the types of a route that need a schema."""
    yield from (parameter.type for parameter in (*route.values, *route.parameters))
    if route.body is not None:
        yield route.body
    yield from (answer.body for answer in route.answers if answer.body is not None)


def _operation(route: Route, by_kind: dict[Any, Any], limits: SiteLimits) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.what,
        "parameters": [
            *(_parameter(value, "path", by_kind) for value in route.values),
            *(_parameter(parameter, "query", by_kind) for parameter in route.parameters),
        ],
        "responses": {str(answer.status): _answer(answer, by_kind) for answer in _answers(route, limits)},
    }
    if route.body is not None:
        content = {"schema": by_kind[route.body]}
        if route.example is not None:
            content["example"] = msgspec.to_builtins(route.example)
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    if route.leads_to:
        operation["responses"][str(route.answers[0].status)]["links"] = {
            name: {"operationId": name, "parameters": {value: f"$response.body#{where}"}}
            for name, (value, where) in route.leads_to.items()
        }
    return operation


def _answers(route: Route, limits: SiteLimits) -> list[Answer]:
    """Return the answers of the route and those that every route may give, by status."""
    by_status = {status: Answer(status, what) for status, what in _ANSWERS_OF_ALL}
    by_status[405] = Answer(405, "the path has other methods: `Allow`")
    by_status[414] = Answer(414, f"path and query are longer than {limits.target_bytes} bytes")
    if route.media:
        by_status[406] = Answer(406, "no acceptable content type")
    if route.body is not None:
        by_status[413] = Answer(413, f"the body is longer than {limits.body_bytes} bytes")
        by_status[415] = Answer(415, f"the body is not {JSON}")
    by_status |= {answer.status: answer for answer in route.answers}
    return [by_status[status] for status in sorted(by_status)]


def _answer(answer: Answer, by_kind: dict[Any, Any]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": answer.what}
    if answer.media:
        response["content"] = {media: {"schema": _schema(answer, media, by_kind)} for media in answer.media}
    names = ("Location",) if answer.status == 201 else _WITH_HEADERS.get(answer.status, ())
    if names:
        response["headers"] = dict.fromkeys(names, _HEADER)
    return response


def _schema(answer: Answer, media: str, by_kind: dict[Any, Any]) -> Any:
    if media == JSON:
        return by_kind[answer.body]
    if media.startswith(TEXT.partition(";")[0]) or answer.body is str:
        return _LINE if answer.status >= 400 else {"type": "string"}
    return _BYTES


def _parameter(parameter: Parameter, where: str, by_kind: dict[Any, Any]) -> dict[str, Any]:
    schema = by_kind[parameter.type]
    is_required = parameter.default is msgspec.UNSET
    if not is_required:
        schema = {**schema, "default": parameter.default}
    return {
        "name": parameter.name,
        "in": where,
        "required": is_required,
        "description": parameter.what,
        "schema": schema,
    }


def _version() -> str:
    try:
        return version("deltabook")
    except PackageNotFoundError:  # run from the tree without being installed
        return "0"
