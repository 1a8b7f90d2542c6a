"""Negotiation of the content type of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.service.http.routes import Refusal

__all__ = ["chosen"]


def chosen(accept: str | None, offered: Sequence[str]) -> str:
    """Return the offered type with the highest quality, the first of several; raises `Refusal` if none is accepted.

    Source: RFC 9110, 12.5.1. Parameters of types are ignored.

    >>> chosen("text/*;q=0.5, application/json", ["text/plain; charset=utf-8", "application/json"])
    'application/json'
    >>> chosen(None, ["application/json", "application/vnd.apache.arrow.stream"])
    'application/json'
    """
    if accept is None or not accept.strip() or not offered:
        return offered[0] if offered else ""
    ranges = list(_ranges(accept))
    best, liked = max(((media, _quality(media, ranges)) for media in offered), key=lambda pair: pair[1])
    if not liked:
        raise Refusal(406, f"expected to answer with {' or '.join(offered)}, was asked for {accept[:80]}")
    return best


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    quality = min(max(float(value), 0.0), 1.0)
                except ValueError:
                    quality = 0.0
        if name:
            yield name, quality


def _quality(offered: str, ranges: Sequence[tuple[str, float]]) -> float:
    """Return the quality of the most specific range that matches the type."""
    name = offered.partition(";")[0]
    for wanted in (name, name.partition("/")[0] + "/*", "*/*"):
        qualities = [quality for range_, quality in ranges if range_ == wanted]
        if qualities:
            return max(qualities)
    return 0.0
