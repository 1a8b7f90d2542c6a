"""Messages of a question over HTTP: any SELECT over relations and views, as they are at one epoch.

``POST /v1/ask`` takes a `Question` and answers with an `Answered`, or with the rows as an Arrow stream to a client that
accepts ``application/vnd.apache.arrow.stream``; then the epoch stands in the schema's metadata as ``deltabook.epoch``,
and in both cases in the header ``deltabook-epoch``. A refusal is one line of text.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

__all__ = ["ASK_PATH", "LONGEST_QUESTION", "Answered", "AnsweredColumn", "Question"]

ASK_PATH: Final = "/v1/ask"
LONGEST_QUESTION: Final = 100_000
"""Characters."""


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A SELECT in DuckDB's SQL."""

    sql: Annotated[str, Meta(min_length=1, max_length=LONGEST_QUESTION)]
    """May end with ``AS OF EPOCH n``."""
    epoch: Annotated[int, Meta(ge=0)] | None = None
    """The epoch of which it asks; null: the newest at which all that it reads is there."""


class AnsweredColumn(msgspec.Struct, frozen=True):
    """A column of an answer."""

    name: str
    type: str
    """DuckDB's name of it."""


class Answered(msgspec.Struct, frozen=True):
    """The rows of an answer, in the order that the SELECT gives them."""

    epoch: int
    """All that the SELECT reads is as it was at the end of this epoch."""
    columns: tuple[AnsweredColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    """Exact numbers have as many digits as they need; times are text in ISO 8601, bytes are in base64."""
