"""Messages of a runtime about itself, its views and questions over HTTP, beside the changes of views (`results`).

``GET`` of `STATUS_PATH` answers with a `RuntimeStatus`, of `STATISTICS_PATH` with a `Statistics`, of `VIEWS_PATH` with
`ViewLine`s, of ``/v1/views/NAME`` with a `Result`. ``POST`` of ``/v1/views/NAME/cursor`` takes a `NewCursor` and
answers with a `Cursor`, ``GET`` of ``/v1/cursors/ID?page=N`` with a `Page`. Rows come as Arrow too, to a client that
accepts ``application/vnd.apache.arrow.stream``: then a column of an exact decimal is one of Arrow's, and what is beside
the rows stands in the schema's metadata.

In JSON an exact number has as many digits as it needs. A client that reads numbers as floats asks with
``?integers=string``.

``POST /v1/ask`` takes a `Question` and answers with an `Answered`, or with the rows as an Arrow stream to a client that
accepts ``application/vnd.apache.arrow.stream``; then the epoch stands in the schema's metadata as ``deltabook.epoch``,
and in both cases in the header ``deltabook-epoch``. A refusal is one line of text.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

__all__ = [
    "ASK_PATH",
    "CURSORS_PATH",
    "PAGE_ROWS",
    "STATISTICS_PATH",
    "STATUS_PATH",
    "VIEWS_PATH",
    "Answered",
    "AnsweredColumn",
    "ColumnLine",
    "Cursor",
    "CursorFigures",
    "NewCursor",
    "Page",
    "PostgresLine",
    "Question",
    "RecordLine",
    "Result",
    "RuntimeStatus",
    "SiteLine",
    "Statistics",
    "UpstreamLine",
    "ViewFigures",
    "ViewLine",
]

STATUS_PATH: Final = "/v1/status"
STATISTICS_PATH: Final = "/v1/statistics"
VIEWS_PATH: Final = "/v1/views"
CURSORS_PATH: Final = "/v1/cursors"
PAGE_ROWS: Final = 1_000
"""Rows of a page, if nothing else is said."""
LONGEST_PAGE_ROWS: Final = 100_000

Value = str | bool | int | float | None
"""Value of a row in JSON. A date or a time is text in ISO 8601."""


class ColumnLine(msgspec.Struct, frozen=True):
    """A column of a view."""

    name: str
    type: Literal["int64", "int128", "float64", "string", "bool", "date", "timestamp"]
    nullable: bool = False
    """True if NULL may stand in it."""
    scale: int = 0
    """Digits behind the decimal point of an exact number."""


class RecordLine(msgspec.Struct, frozen=True):
    """How an express view stands on Spark, which keeps it too: the version of record."""

    epoch: int
    """The newest epoch that Spark has published."""
    behind_epochs: int
    """Epochs that the express lane's version has and Spark's has not."""
    comparison: Literal["none", "equal", "differs", "failed"]
    """What the last comparison of the two found, at an epoch that both have. ``none``: there was none yet. ``failed``:
    the view has failed on Spark."""
    compared_epoch: int
    """Where they were compared last; 0 before the first time."""
    differs_since: int
    """First epoch at which the view differed, 0 if it does not."""
    failed: str | None
    """Why the view has failed on Spark; null if it has not."""


class ViewLine(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """A view that is kept."""

    name: str
    view_class: str
    """linear, multilinear, ordered or reevaluated; ``stream`` for a derived stream."""
    lane: Literal["spark", "express", "stream"]
    """The lane whose versions subscribers read; ``stream`` for a derived stream, whose rows come at the end of an
    epoch."""
    reason: str
    """Why it is in this class."""
    columns: tuple[ColumnLine, ...]
    rows: int
    """Different rows of its result."""
    epoch: int
    """The newest epoch that its lane has published."""
    step: int
    """Version of a view of the express lane. 0: the epoch is the version."""
    since: int
    """Its first epoch."""
    failed: str | None
    """Why it ended; null if it did not."""
    sql: str = ""
    """Its SELECT, as it was given."""
    record: RecordLine | None = None
    """State of an express view's record on Spark; null where Spark keeps none."""
    reads: tuple[str, ...] = ()
    """The relations and views that the SELECT names; none for a view that an earlier version of the runtime added."""


class Result(msgspec.Struct, frozen=True):
    """The full result of a view at its newest version, repeated rows as often as they are there.

    Rows are sorted by their columns from the left, NULL first.
    """

    view: str
    epoch: int
    """The newest epoch that is inside as a whole."""
    step: int
    """See `ViewLine`."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


class NewCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a view's result is to be paged through."""

    rows: Annotated[int, Meta(ge=1, le=LONGEST_PAGE_ROWS)] = PAGE_ROWS
    """Rows of each page but the last."""
    is_sorted: bool = True
    """By the columns from the left, NULL first; else in an order that stays as long as the cursor."""


class Cursor(msgspec.Struct, frozen=True):
    """A result that is kept as it was at one version, whatever becomes of its view."""

    id: str
    view: str
    epoch: int
    """The newest epoch that is inside as a whole."""
    step: int
    """See `ViewLine`."""
    columns: tuple[ColumnLine, ...]
    rows: int
    """In all, repeated ones as often as they are there."""
    page_rows: int
    pages: int
    """At least 1, which then is empty."""
    unused_s: float
    """It is closed when it was not used for so long."""


class Page(msgspec.Struct, frozen=True):
    """Some of a cursor's rows; the same page is the same rows each time."""

    cursor: str
    view: str
    epoch: int
    step: int
    page: int
    """From 0."""
    pages: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


class OriginLine(msgspec.Struct, frozen=True):
    """What became of the tuples of an origin since the runtime began; what was read twice counts twice."""

    tuples: int
    """Good, bad and filtered out."""
    bad: int
    """Malformed."""
    skipped: int
    """Those of them that no dead letter describes."""
    nulled: int
    """Malformed values that became NULL."""
    filtered: int
    """Left out by a condition."""
    repeats: int
    """Raw buffers that came too early and were repeated."""
    ring_slots: int
    held_bytes: int
    """Waiting for the rest of their tuple."""
    failure: str
    """Why the origin has failed; empty if it has not."""


class EngineLine(msgspec.Struct, frozen=True):
    """What the engine does."""

    queries_running: int
    queries_failed: int
    tasks: int
    """Calls of pipelines that took inputs, so far."""
    tasks_per_s: float
    tuples_per_s: float
    """That pipelines have emitted, of the last seconds."""
    expired_inputs: int
    """Skipped since their query had ended."""
    busiest: str
    """The pipeline whose calls took the most time; empty if there was none."""
    barriers: int
    barrier_p50_us: int
    """Half of them took no longer than this, to a factor of 2."""
    barrier_p99_us: int


class StreamLine(msgspec.Struct, frozen=True):
    """How a derived stream is, as of the end of an epoch."""

    rows: int = 0
    """Rows that are in it."""
    held: int = 0
    """Rows of its inputs, and groups of open windows, that wait for event time."""
    state: int = 0
    """Rows of tables that it looks up, and keys of which it knows the last row."""
    late: int = 0
    """Rows that came too late since it was created; each is a dead letter."""
    watermark: int | None = None
    """The time in nanoseconds before which no further row of it comes; null before the first."""
    failed: str = ""
    """Why it has ended; empty if it has not."""


class UpstreamLine(msgspec.Struct, frozen=True):
    """How an upstream is: another runtime whose epochs come in."""

    directory: str
    """Its run directory."""
    state: Literal["waiting", "reading", "silent", "disconnected", "paused"]
    """``waiting``: there is no log yet. ``silent``: nobody seems to run on it. ``disconnected``: it does not hear all
    that it reads. ``paused``: it lets nothing in."""
    epoch: int
    """Up to which of its epochs everything is in a committed epoch here; -1: none."""
    newest: int
    """The newest epoch of its log."""
    lag_epochs: int
    """Those in between."""
    lag_ms: float | None
    """From the sealing of an epoch there to that of the epoch here that holds it, of the newest one, by the clocks of
    both; of one that waits: so far. Null where nothing has come for a while."""
    epochs: int
    """Epochs that have come in since the start."""
    messages: int
    """Messages in them."""
    rows: int
    """Rows in them."""
    bytes: int
    """Bytes of these."""
    busy_s: float
    """Processor time of the thread that reads them."""


class RuntimeStatus(msgspec.Struct, frozen=True):
    """How a runtime stands; it may say more than this."""

    epoch: int
    """The newest that is sealed."""
    published_epoch: int
    """The newest that every lane has published."""
    express_epoch: int
    express_step: int
    feed_sequence: int
    """The feed's message up to which everything is applied."""
    lag_ms: float | None
    """From an epoch's end to its results on Spark; null when nothing was published lately."""
    express_lag_ms: float | None
    """From a message's arrival to the express lane's version with it."""
    messages: int
    rows_per_s: float
    views: int
    failed_views: int
    view_updates: int
    dead_letters: int
    backlog: int
    waiting_bytes: int
    disk_bytes: int
    paused: int
    """1 while the feed is held back."""
    origins: dict[str, OriginLine]
    engine: EngineLine
    upstreams: dict[str, UpstreamLine] = {}
    streams: dict[str, StreamLine] = {}
    """Derived streams, by name."""
    """By name."""
    disconnected: int = 0
    """How many of the feed and the upstreams are not heard."""
    feed_ended: int = 0
    """1 once the feed has ended and everything of it is sealed: results are served, views and readers change no more
    before a restart."""
    upstreams_silent: int = 0
    """Those of them that are not ``reading``."""
    lanes_differ: int = 0
    """Express views of which Spark, whose answer is the one of record, has other rows."""
    lane_comparisons: int = 0
    """Comparisons of a view at a version of Spark, since the start."""
    lane_differences: int = 0
    """Those of them that found different rows."""


class ViewFigures(msgspec.Struct, frozen=True):
    """Figures of a view."""

    name: str
    lane: Literal["spark", "express", "stream"]
    rows: int
    """Different rows of its result."""
    changed_rows: int
    """Rows added and removed since the runtime began."""
    epoch: int
    """The newest that is inside as a whole."""
    step: int
    behind_epochs: int
    """Epochs that are sealed and not inside."""
    lag_ms: float | None
    """Lag of its lane; null when nothing was published lately."""
    failed: str | None


class CursorFigures(msgspec.Struct, frozen=True):
    """Figures of the cursors."""

    open: int
    held_bytes: int
    """By the results of all of them; one result of several cursors counts once."""
    opened: int
    """Since the runtime began."""
    expired: int
    """Closed since they were not used, or were too old."""
    evicted: int
    """Closed to make room for others."""


class SiteLine(msgspec.Struct, frozen=True):
    """Figures of the port."""

    connections: int
    """Open now."""
    refused_connections: int
    requests: int
    refused_requests: int
    """Answered with a status of 400 or more."""
    failed_requests: int
    """Requests answered with a status of 500 or more."""
    held_bytes: int
    """Bytes of answers that are being sent."""


class PostgresLine(msgspec.Struct, frozen=True):
    """Figures of the port that speaks PostgreSQL's protocol."""

    connections: int
    """Open now."""
    sessions: int
    """That were let in since the start."""
    refused_connections: int
    questions: int
    failed_statements: int
    cancelled_statements: int
    subscribers: int
    """Now."""
    copied_rows: int
    """By COPY, those of subscribers that have ended among them."""
    held_bytes: int
    """Bytes of answers, those of open cursors included."""


class Statistics(msgspec.Struct, frozen=True):
    """What a runtime does and holds."""

    now_ns: int
    """The runtime's clock, nanoseconds since the UTC epoch."""
    up_s: float
    """Since it serves."""
    epoch: int
    """The newest that is sealed."""
    memory_bytes: int
    """Memory of the process, without Spark's."""
    views: tuple[ViewFigures, ...]
    subscribers: int
    cursors: CursorFigures
    site: SiteLine
    origins: dict[str, OriginLine]
    engine: EngineLine
    postgres: PostgresLine | None = None
    """Null where there is no port of PostgreSQL's clients."""


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
