"""Rows as the body of an answer, in JSON or as an Arrow stream, and the negotiation of the content type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from runtime.service.http.routes import ARROW, JSON, Body, Parameter, Refusal, Reply
from runtime.service.results.materialised import FullRows

__all__ = ["INTEGERS", "chosen", "rows_reply"]


def chosen(accept: str | None, offered: Sequence[str]) -> str:
    """Return the offered type that the client prefers, the first of equals; raises `Refusal` if none is accepted.

    Source: RFC 9110, 12.5.1. Parameters of types are ignored.

    >>> chosen("text/*;q=0.5, application/json", ["text/plain; charset=utf-8", "application/json"])
    'application/json'
    >>> chosen(None, ["application/json", "application/vnd.apache.arrow.stream"])
    'application/json'
    """
    if accept is None or not accept.strip() or not offered:
        return offered[0] if offered else ""
    ranges = list(_ranges(accept))
    best, quality = max(((media, _quality(media, ranges)) for media in offered), key=lambda pair: pair[1])
    if not quality:
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
                    number = float(value)
                    quality = min(number, 1.0) if number > 0 else 0.0  # 0 for NaN too
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


_NUMBERS: Final = msgspec.json.Encoder(decimal_format="number")
_PIECE_ROWS: Final = 16 * 1024
"""Number of rows of a piece of an Arrow stream."""
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""Mark at the end of an Arrow stream."""
_BESIDE: Final = ("cursor", "view", "epoch", "step", "page", "pages")
"""Entries of a reply that become metadata of the schema of an Arrow stream, as ``deltabook.NAME``."""

INTEGERS: Final = Parameter(
    "integers",
    Literal["number", "string"],
    "how exact numbers are written in JSON; string: a client that reads numbers as floats loses no digits",
    "number",
)


def rows_reply(
    rows: FullRows, begin: int, end: int, beside: Mapping[str, Any], *, media: str, integers: str = "number"
) -> Reply:
    """Return a reply with the rows at these positions; ``beside`` has the reply's other entries."""
    headers = {f"deltabook-{name}": str(beside[name]) for name in ("epoch", "step")}
    if media != ARROW:
        names = [column.name for column in rows.columns]
        values = rows.json(begin, end, as_text=integers == "string")
        return Reply(200, _NUMBERS.encode({**beside, "columns": names, "rows": values}), JSON, headers)
    metadata = {f"deltabook.{name}": str(beside[name]) for name in _BESIDE if name in beside}
    pieces = _pieces(rows, begin, end, metadata)
    if end - begin <= _PIECE_ROWS:
        return Reply(200, b"".join(pieces), ARROW, headers)
    share = (end - begin) / max(1, len(rows))
    return Reply(200, Body(pieces, int(rows.nbytes * share)), ARROW, headers)


def _pieces(rows: FullRows, begin: int, end: int, metadata: Mapping[str, str]) -> Iterator[bytes]:
    """Yield an Arrow stream piece by piece; a record batch is encoded only when the connection has room for it."""
    schema = rows.arrow(0, 0).schema.with_metadata(dict(metadata))
    yield schema.serialize().to_pybytes()
    for first in range(begin, end, _PIECE_ROWS):
        table = rows.arrow(first, min(first + _PIECE_ROWS, end))
        for batch in table.combine_chunks().to_batches():
            yield batch.serialize().to_pybytes()
    yield _END_OF_STREAM
