"""Messages over HTTP about a runtime, its views and ad-hoc questions; messages with changes of views are in `results`.

``GET`` of `STATUS_PATH` answers with a `RuntimeStatus`, of `STATISTICS_PATH` with a `Statistics`, of `VIEWS_PATH` with
`ViewLine`s, of ``/v1/views/NAME`` with a `Result`. ``POST`` to ``/v1/views/NAME/cursor`` takes a `NewCursor` and
answers with a `Cursor`, ``GET`` of ``/v1/cursors/ID?page=N`` with a `Page`. A client that accepts
``application/vnd.apache.arrow.stream`` gets the rows as Arrow: exact decimals are Arrow's decimals then, and the other
fields are in the schema's metadata.

In JSON an exact number has as many digits as it needs. A client that reads numbers as floats should use
``?integers=string``.

``POST /v1/ask`` takes a `Question` and answers with an `Answered`. A client that accepts
``application/vnd.apache.arrow.stream`` gets the rows as an Arrow stream instead, with the epoch in the schema's
metadata as ``deltabook.epoch``. In both cases the epoch is also in the header ``deltabook-epoch``. A refusal is one
line of text.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

__all__ = [
    "ASK_PATH",
    "CURSORS_PATH",
    "LAST_EPOCH",
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
"""Default number of rows of a page."""
LONGEST_PAGE_ROWS: Final = 100_000

Value = str | bool | int | float | None
"""Value of a row in JSON. A date or a time is text in ISO 8601."""


class ColumnLine(msgspec.Struct, frozen=True):
    """A column of a view."""

    name: str
    type: Literal["int64", "int128", "float64", "string", "bool", "date", "timestamp"]
    nullable: bool = False
    """True if the column may contain NULL."""
    scale: int = 0
    """Number of digits after the decimal point of an exact number."""


class RecordLine(msgspec.Struct, frozen=True):
    """State of an express view's record, which is the result of the same view on Spark; if both results differ, the
    record is authoritative.
    """

    epoch: int
    """Newest epoch that Spark has published."""
    behind_epochs: int
    """Number of epochs that the express lane has published and Spark has not."""
    comparison: Literal["none", "equal", "differs", "failed"]
    """Result of the last comparison of both lanes' results, at an epoch that both lanes have published. ``none``: there
    was none yet. ``failed``: the view has failed on Spark.
    """
    compared_epoch: int
    """Epoch of the last comparison; 0 before the first."""
    differs_since: int
    """First epoch at which the results differed; 0 if they do not differ."""
    failed: str | None
    """Reason why the view has failed on Spark; null if it has not."""


class ViewLine(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """Description of a view."""

    name: str
    view_class: str
    """Class: linear, multilinear, ordered or reevaluated; ``stream`` for a derived stream."""
    lane: Literal["spark", "express", "stream"]
    """Lane whose versions subscribers read; ``stream`` for a derived stream, whose rows come at the end of an epoch."""
    reason: str
    """Reason for the class."""
    columns: tuple[ColumnLine, ...]
    rows: int
    """Number of different rows of its result."""
    epoch: int
    """Newest epoch that its lane has published."""
    step: int
    """Version of a view of the express lane. 0: the epoch is the version."""
    since: int
    """First epoch of the view."""
    failed: str | None
    """Reason why the view has failed; null if it has not."""
    sql: str = ""
    """SELECT of the view, as it was given."""
    record: RecordLine | None = None
    """State of an express view's record on Spark; null if Spark maintains none."""
    reads: tuple[str, ...] = ()
    """Relations and views that the SELECT names; empty for a view that an earlier version of the runtime added."""


class Result(msgspec.Struct, frozen=True):
    """Full result of a view at its newest version; a row that the result has several times is repeated.

    Rows are sorted by their columns from the left, NULL first.
    """

    view: str
    epoch: int
    """Newest epoch that the result contains completely."""
    step: int
    """Version of the express lane, see `ViewLine`."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


class NewCursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to page through a view's result."""

    rows: Annotated[int, Meta(ge=1, le=LONGEST_PAGE_ROWS)] = PAGE_ROWS
    """Number of rows of each page except the last."""
    is_sorted: bool = True
    """True if rows are sorted by the columns from the left, NULL first; otherwise their order is fixed while the cursor
    lives.
    """


class Cursor(msgspec.Struct, frozen=True):
    """Result of a view at one version; it stays the same when the view changes."""

    id: str
    view: str
    epoch: int
    """Newest epoch that the result contains completely."""
    step: int
    """Version of the express lane, see `ViewLine`."""
    columns: tuple[ColumnLine, ...]
    rows: int
    """Number of rows, repeated ones included."""
    page_rows: int
    pages: int
    """Number of pages, at least 1: a result without rows has one empty page."""
    unused_s: float
    """Time in seconds without use after which the cursor is closed."""


class Page(msgspec.Struct, frozen=True):
    """Some of a cursor's rows; the same page always has the same rows."""

    cursor: str
    view: str
    epoch: int
    step: int
    page: int
    """Number of the page, from 0."""
    pages: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


class OriginLine(msgspec.Struct, frozen=True):
    """Counts of an origin's tuples since the runtime started; tuples that were read twice count twice."""

    tuples: int
    """Number of tuples: good, bad and filtered out."""
    bad: int
    """Number of malformed tuples."""
    skipped: int
    """Number of malformed tuples that no dead letter describes."""
    nulled: int
    """Number of malformed values that became NULL."""
    filtered: int
    """Number of tuples excluded by a condition."""
    repeats: int
    """Number of raw buffers that came too early and were repeated."""
    ring_slots: int
    """Size of the ring of raw buffers that wait to be parsed in order, in slots of 64 buffers."""
    held_bytes: int
    """Bytes of incomplete tuples, whose rest has not been received yet."""
    failure: str
    """Reason why the origin has failed; empty if it has not."""


class EngineLine(msgspec.Struct, frozen=True):
    """Figures of the engine."""

    queries_running: int
    queries_failed: int
    tasks: int
    """Number of calls of pipelines with inputs since the runtime started."""
    tasks_per_s: float
    tuples_per_s: float
    """Tuples per second that pipelines have emitted, over the last seconds."""
    expired_inputs: int
    """Number of inputs of pipelines that were skipped because their query had ended."""
    busiest: str
    """Pipeline whose calls took the most time; empty if there was none."""
    barriers: int
    barrier_p50_us: int
    """Median duration of a barrier in microseconds, to a factor of 2."""
    barrier_p99_us: int


class StreamLine(msgspec.Struct, frozen=True):
    """State of a derived stream at the end of an epoch."""

    rows: int = 0
    """Number of its rows."""
    held: int = 0
    """Number of rows of its inputs, and of groups of open windows, that wait for their event time."""
    state: int = 0
    """Number of rows of lookup tables, and of keys whose last row is stored."""
    late: int = 0
    """Number of rows that came too late since the stream was created; each is a dead letter."""
    watermark: int | None = None
    """Time in nanoseconds before which no further row of the stream is expected; null before the first row."""
    failed: str = ""
    """Reason why the stream has ended; empty if it has not."""


class UpstreamLine(msgspec.Struct, frozen=True):
    """State of an upstream: another runtime whose epochs this one reads."""

    directory: str
    """Run directory of the upstream."""
    state: Literal["waiting", "reading", "silent", "disconnected", "paused"]
    """State of the upstream. ``waiting``: there is no log yet. ``silent``: no process seems to run on it.
    ``disconnected``: the upstream has lost a connection to its own sources. ``paused``: the upstream has paused its
    input.
    """
    epoch: int
    """Newest epoch of the upstream up to which all changes are in a committed epoch here; -1: none."""
    newest: int
    """Newest epoch of its log."""
    lag_epochs: int
    """Number of its epochs that are not in a committed epoch here."""
    lag_ms: float | None
    """Delay of the upstream's newest epoch in milliseconds: from its sealing in the upstream to the sealing of the
    epoch that contains it in this runtime, each by the clock of the runtime that seals. While no epoch of this runtime
    contains it, the delay so far. Null if nothing has come for a while.
    """
    epochs: int
    """Number of epochs read since the start."""
    messages: int
    """Number of messages in these epochs."""
    rows: int
    """Number of rows in these epochs."""
    bytes: int
    """Number of bytes of these epochs."""
    busy_s: float
    """Processor time, in seconds, of the thread that reads the epochs."""


class RuntimeStatus(msgspec.Struct, frozen=True):
    """State of a runtime; an answer may have further fields."""

    epoch: int
    """Newest sealed epoch."""
    published_epoch: int
    """Newest epoch that every lane has published."""
    express_epoch: int
    """Newest epoch that the express lane's versions contain completely."""
    express_step: int
    """Version of the express lane, see `ViewLine`."""
    feed_sequence: int
    """Number of the feed's message up to which everything is applied."""
    lag_ms: float | None
    """Milliseconds from an epoch's end to its results on Spark; if Spark has published nothing lately, the time since
    the end of the oldest unpublished epoch. Null if there is no such epoch, and while Spark does not run.
    """
    express_lag_ms: float | None
    """Milliseconds from a message's arrival to the express lane's version that contains the message."""
    messages: int
    """Number of well-formed messages in sealed epochs."""
    rows_per_s: float
    """Messages applied per second, over the last seconds."""
    views: int
    failed_views: int
    view_updates: int
    """Number of published changes of views since the runtime started."""
    dead_letters: int
    """Number of malformed tuples in sealed epochs."""
    backlog: int
    """Number of raw buffers that were received and are not applied yet."""
    waiting_bytes: int
    """Bytes of raw buffers between sources and epochs."""
    disk_bytes: int
    """Size of the run directory in bytes when it was last measured."""
    paused: int
    """1 while the feed is paused."""
    origins: dict[str, OriginLine]
    engine: EngineLine
    upstreams: dict[str, UpstreamLine] = {}
    streams: dict[str, StreamLine] = {}
    """Derived streams, by name."""
    disconnected: int = 0
    """Number of connections to the feed and the upstreams that are lost."""
    feed_ended: int = 0
    """1 once the feed has ended and all its messages are sealed: results are served, and views and readers cannot
    change before a restart.
    """
    upstreams_silent: int = 0
    """Number of upstreams whose state is not ``reading``."""
    lanes_differ: int = 0
    """Number of express views whose rows differ from those of Spark, which are authoritative."""
    lane_comparisons: int = 0
    """Number of comparisons of a view with Spark's version, since the start."""
    lane_differences: int = 0
    """Number of these comparisons that found different rows."""


class ViewFigures(msgspec.Struct, frozen=True):
    """Figures of a view."""

    name: str
    lane: Literal["spark", "express", "stream"]
    rows: int
    """Number of different rows of its result."""
    changed_rows: int
    """Number of rows added and removed since the runtime started."""
    epoch: int
    """Newest epoch that the result contains completely."""
    step: int
    behind_epochs: int
    """Number of sealed epochs that the result does not contain."""
    lag_ms: float | None
    """Lag of its lane in milliseconds; null if nothing was published lately."""
    failed: str | None


class CursorFigures(msgspec.Struct, frozen=True):
    """Figures of the cursors."""

    open: int
    held_bytes: int
    """Bytes of the results of all cursors; a result shared by several cursors counts once."""
    opened: int
    """Number of cursors opened since the runtime started."""
    expired: int
    """Number of cursors closed because they were unused or too old."""
    evicted: int
    """Number of cursors closed to make room for others."""


class SiteLine(msgspec.Struct, frozen=True):
    """Figures of the HTTP port."""

    connections: int
    """Number of open connections."""
    refused_connections: int
    requests: int
    refused_requests: int
    """Number of requests answered with a status of 400 or more."""
    failed_requests: int
    """Number of requests answered with a status of 500 or more."""
    held_bytes: int
    """Bytes of answers that are being sent."""


class PostgresLine(msgspec.Struct, frozen=True):
    """Figures of the port that speaks PostgreSQL's protocol."""

    connections: int
    """Number of open connections."""
    sessions: int
    """Number of sessions admitted since the start."""
    refused_connections: int
    questions: int
    failed_statements: int
    cancelled_statements: int
    subscribers: int
    """Number of present subscribers."""
    copied_rows: int
    """Number of rows sent by COPY, including to subscribers that have ended."""
    held_bytes: int
    """Bytes of answers, including those of open cursors."""


class Statistics(msgspec.Struct, frozen=True):
    """Figures of a runtime."""

    now_ns: int
    """The runtime's clock in nanoseconds since the UTC epoch."""
    up_s: float
    """Seconds since the runtime began to serve."""
    epoch: int
    """Newest sealed epoch."""
    memory_bytes: int
    """Memory of the process in bytes, without Spark's."""
    views: tuple[ViewFigures, ...]
    subscribers: int
    cursors: CursorFigures
    site: SiteLine
    origins: dict[str, OriginLine]
    engine: EngineLine
    postgres: PostgresLine | None = None
    """Figures of the port for PostgreSQL's clients; null if there is none."""


ASK_PATH: Final = "/v1/ask"
LAST_EPOCH: Final = 2**63 - 1
"""Largest number that an epoch can have."""
LONGEST_QUESTION: Final = 100_000
"""Largest number of characters of a question."""


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A SELECT in DuckDB's SQL."""

    sql: Annotated[str, Meta(min_length=1, max_length=LONGEST_QUESTION)]
    """Text of the SELECT, which may end with ``AS OF EPOCH n``."""
    epoch: Annotated[int, Meta(ge=0, le=LAST_EPOCH)] | None = None
    """Epoch of the data; null: the newest at which everything that the SELECT reads is available."""


class AnsweredColumn(msgspec.Struct, frozen=True):
    """A column of an answer."""

    name: str
    type: str
    """DuckDB's name of the type."""


class Answered(msgspec.Struct, frozen=True):
    """Rows of an answer, in the order of the SELECT."""

    epoch: int
    """Epoch at whose end the data is read."""
    columns: tuple[AnsweredColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    """Rows; exact numbers have as many digits as they need, times are text in ISO 8601, bytes are in base64."""
