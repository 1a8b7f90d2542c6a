"""Creation of the source, the adaptor and the origin of a reader from the request for it.

A source is the stream of a server, or a file below one of the configured directories. Neither ``..`` in the name of a
file nor a link can lead out of these directories.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from deltabook.wire.readers import FileConnection, NewReader, SocketConnection
from runtime.compiler import StreamDeclaration
from runtime.compiler.declarations import DeclaredFile, DeclaredSocket
from runtime.engine.ingest import Inlet, Origin
from runtime.epochs import Cut
from runtime.formats import FormatError, InputFormatter
from runtime.formats.codecs import Codec
from runtime.plan import Relation
from runtime.relations import Adaptor, RecentRows, Retention, RowAdaptor
from runtime.service.errors import CatalogueError, ServiceError
from runtime.service.inputs.event_time import TIME_OPTION, time_of
from runtime.service.inputs.protocols import FeedProtocol, make_adaptor, make_source
from runtime.service.readers.foreign import AdaptorRequest, ForeignAdaptor, foreign_adaptor
from runtime.service.readers.kept import FEED_ADAPTOR, KeptReader, own_relation, space_of
from runtime.service.scripts.options import Options, stream_codec, stream_schema
from runtime.sources import Backoff, BufferSink, FileSource, Position, Source, TcpSource
from runtime.state import MemoryStore, ObjectSpace

__all__ = ["PlainStream", "Surroundings", "check_name", "make_origin", "try_out"]

_AGAIN_SECONDS: Final = 1.0
"""Time in seconds after which a plain stream is connected again after a loss."""


def file_below(given: str, directories: Sequence[Path]) -> Path:
    """Return the path of a file, given absolutely or relative to the first directory, with all links resolved.

    Raises `CatalogueError` for a path that is not a file below one of the directories.
    """
    if not directories:
        raise CatalogueError(f"expected a runtime with --reader-dir to read files, was one without: {given!r}")
    path = Path(given)
    if ".." in path.parts:
        raise CatalogueError(f"expected the name of a file without .., was {given!r}")
    known = " or ".join(map(str, directories))
    try:
        resolved = (directories[0] / path).resolve(strict=True)
        is_below = any(resolved.is_relative_to(directory.resolve()) for directory in directories)
        is_file = resolved.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CatalogueError(f"expected a file below {known}, was {given!r}: {reason}") from None
    if not is_below or not is_file:
        raise CatalogueError(f"expected a file below {known}, was {given!r}")
    return resolved


class FileBelow(FileSource):
    """File of a reader, whose path is checked each time that the file is opened."""

    def __init__(self, given: str, directories: Sequence[Path], origin_id: int, codec: Codec | None) -> None:
        super().__init__(Path(given), origin_id, codec=codec)
        self._given = given
        self._directories = tuple(directories)

    def open(self, sink: BufferSink, position: Position) -> None:
        """Open the file; raises `CatalogueError` if it is no longer inside the directories. See `FileSource`."""
        self._path = file_below(self._given, self._directories)
        super().open(sink, position)


class PlainStream(TcpSource):
    """Stream of a TCP server, read until the server ends it; one second after a loss the source connects again."""

    __slots__ = ()

    def __init__(self, reactor: Any, host: str, port: int, origin_id: int, **options: Any) -> None:
        super().__init__(reactor, host, port, origin_id, reconnects=True, **options)

    def ended(self, reason: str, *, is_clean: bool) -> None:
        """Report the end; a clean close by the server is the end of the stream. See `ConnectingSource`."""
        if is_clean:
            if self.sink is not None:
                self.sink.end_of_stream(self._origin_id)
            return
        self._reactor.callLater(_AGAIN_SECONDS, self._lost, reason)

    def _lost(self, reason: str) -> None:
        if not self.is_closed:
            super().ended(reason, is_clean=False)


_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_FEED_OPTIONS: Final = ("midnight_ns", "tick_units")
_LARGEST: Final = 1 << 62
"""Number above all numbers that options of a feed may have."""
_PATIENCE: Final = Backoff(longest_s=5.0, attempts=1 << 30)
"""Back-off of a reader, which never gives up, because its server may start long after the reader."""


class Surroundings(NamedTuple):
    """Parts of a runtime that readers use."""

    reactor: Any
    """Reactor on which connections are opened."""
    directories: Sequence[Path]
    """Directories whose files may be read."""
    retention: Retention
    """Default retention of a feed's trades."""


def check_name(name: str, what: str) -> None:
    """Raise `CatalogueError` for a name that needs quotes in SQL."""
    if not _NAME.fullmatch(name):
        raise CatalogueError(f"expected {what} of lower-case letters, digits and _, was {name!r}")


def make_origin(
    kept: KeptReader, space: ObjectSpace, around: Surroundings, cut: Cut, foreign: ForeignAdaptor | None = None
) -> tuple[Origin, Inlet]:
    """Return the origin of a reader whose rows up to the cut are in the space, and its inlet.

    ``foreign`` is the reader's adaptor if it has been created already. Raises `ServiceError` for a reader that
    `try_out` would have refused.
    """
    wanted, number = kept.wanted, kept.number
    adaptor, codec = (foreign, None) if foreign is not None else _adaptor(wanted, number, space, around, cut)
    if isinstance(adaptor, ForeignAdaptor):
        adaptor.bind(space, space_of(number))
    source = _source(wanted, number, around, codec)
    start = Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples)
    defer = around.reactor.callFromThread
    origin = Origin(number, wanted.name, source, adaptor, start, is_own=True, defer=defer)
    return origin, origin.inlet


def try_out(wanted: NewReader, around: Surroundings) -> ForeignAdaptor | None:
    """Raise `ServiceError` for an invalid reader; nothing is opened or kept.

    Returns the adaptor if it is an installed one, because a second attempt to create it might fail.
    """
    relation = own_relation(wanted)
    if relation is not None:
        check_name(relation.name, "the name of a relation")
        for column in relation.columns:
            check_name(column.name, f"columns of {relation.name}")
        names = [column.name for column in relation.columns]
        if not names or len(set(names)) < len(names):
            raise CatalogueError(f"expected columns of {relation.name} that differ, was {', '.join(names) or 'none'}")
    if isinstance(wanted.connection, FileConnection):
        file_below(wanted.connection.path, around.directories)
    elif wanted.adaptor != FEED_ADAPTOR and wanted.connection.delivery != "at-most-once":
        raise CatalogueError(
            f"expected delivery at-most-once of reader {wanted.name}, as the sender of a plain stream cannot repeat "
            "what was not read, was none"
        )
    space = ObjectSpace(MemoryStore())
    origin, _ = make_origin(KeptReader(1, wanted, 0), space, around, Cut("", 0, 0))
    try:
        InputFormatter(origin.adaptor.schema, origin.adaptor.pushdown)
    except FormatError as error:
        raise CatalogueError(f"reader {wanted.name}: {error}") from None
    filled = {each.name for each in origin.adaptor.relations}
    if relation is not None and filled != {relation.name}:
        raise CatalogueError(f"expected adaptor {wanted.adaptor} to fill {relation.name}, was {', '.join(filled)}")
    return origin.adaptor if isinstance(origin.adaptor, ForeignAdaptor) else None


def _source(wanted: NewReader, number: int, around: Surroundings, codec: Codec | None) -> Source:
    connection = wanted.connection
    if isinstance(connection, FileConnection):
        return FileBelow(connection.path, around.directories, number, codec)
    if wanted.adaptor == FEED_ADAPTOR:
        address = (connection.host, connection.port)
        return make_source(_protocol(wanted), around.reactor, address, number, _PATIENCE)
    return PlainStream(around.reactor, connection.host, connection.port, number, backoff=_PATIENCE)


def _adaptor(
    wanted: NewReader, number: int, space: ObjectSpace, around: Surroundings, cut: Cut
) -> tuple[Adaptor, Codec | None]:
    relation = own_relation(wanted)
    try:
        if relation is None:
            return _feed(wanted, number, space, around.retention, cut), None
        if wanted.adaptor == "rows":
            return _rows(wanted, relation, number, space, cut)
        if wanted.keep is not None:
            raise CatalogueError(
                f"expected no number of rows to keep, as adaptor {wanted.adaptor} keeps all, was {wanted.keep.rows}"
            )
        request = AdaptorRequest(relation, wanted.format, wanted.options)
        return foreign_adaptor(wanted.adaptor, request), None
    except (ValueError, OverflowError) as error:  # raised by formats, adaptors and values of options
        raise CatalogueError(f"reader {wanted.name}: {error}") from None


def _feed(wanted: NewReader, number: int, space: ObjectSpace, retention: Retention, cut: Cut) -> Adaptor:
    if wanted.columns or wanted.relation:
        raise CatalogueError(
            f"expected no columns and no relation for feed {wanted.name}, which fills the market's relations, was "
            f"{wanted.relation or ', '.join(column.name for column in wanted.columns)!r}"
        )
    if wanted.keep is not None:
        if wanted.keep.time_column not in ("", "t"):
            raise CatalogueError(f"expected t as the time of trades, was {wanted.keep.time_column!r}")
        retention = Retention(wanted.keep.rows, wanted.keep.time)
    framing = "file" if isinstance(wanted.connection, FileConnection) else "soupbin"
    prefix = f"{wanted.name}:"
    return make_adaptor(_protocol(wanted), space, space_of(number), retention, cut, prefix=prefix, framing=framing)  # type: ignore[arg-type]


def _protocol(wanted: NewReader) -> FeedProtocol:
    unknown = set(wanted.options) - set(_FEED_OPTIONS)
    if unknown or wanted.format not in ("", "text", "itch"):
        was = f"format {wanted.format}" if wanted.format not in ("", "text", "itch") else ", ".join(sorted(unknown))
        raise CatalogueError(f"expected a feed in text or itch with {', '.join(_FEED_OPTIONS)}, was {was}")
    try:
        numbers = {name: int(text) for name, text in wanted.options.items()}
        protocol = msgspec.convert({"name": wanted.format or "text", **numbers}, FeedProtocol)
    except ValueError as error:
        raise CatalogueError(f"expected whole numbers as options of feed {wanted.name}: {error}") from None
    if not 0 <= protocol.midnight_ns < _LARGEST or not 0 < protocol.tick_units < _LARGEST:
        raise CatalogueError(
            f"expected a midnight_ns of at least 0 and tick_units of at least 1 of feed {wanted.name}, "
            f"was {protocol.midnight_ns} and {protocol.tick_units}"
        )
    return protocol


def _rows(
    wanted: NewReader, relation: Relation, number: int, space: ObjectSpace, cut: Cut
) -> tuple[Adaptor, Codec | None]:
    declaration, connection = _declared(wanted, relation), wanted.connection
    options = Options(declaration)
    if isinstance(connection, FileConnection):
        codec = stream_codec(options, Path(connection.path))
    elif given := options.given("codec", "codec_mode", "codec_limit", "codec_ratio"):
        raise ServiceError(f"expected {given} for a file only, was given for reader {wanted.name} of a socket")
    else:
        codec = None
    deletions = options.flag("deletions")
    options.text(TIME_OPTION)  # taken, so that the option is not unknown; `time_of` checks the value
    if deletions and wanted.options.get(TIME_OPTION):
        raise CatalogueError(f"expected rows of reader {wanted.name} to be deleted or to have a time, was both")
    time_of(relation, wanted.options)
    schema = stream_schema(declaration, options, deletions=deletions)
    keep = wanted.keep
    if keep is None:
        return RowAdaptor(relation, schema, deletions=deletions), codec
    if deletions:
        raise CatalogueError(f"expected reader {wanted.name} to delete rows by its input or by `keep`, was both")
    times = [column.name for column in relation.columns if column.type == "int64"]
    if keep.time_column and keep.time_column not in times:
        raise CatalogueError(f"expected an int64 column as the time of {relation.name}, was {keep.time_column!r}")
    retention = Retention(keep.rows, keep.time if keep.time_column else 1 << 62)
    rows = RecentRows(space, space_of(number), relation, schema, retention, time=keep.time_column)
    return rows, codec


def _declared(wanted: NewReader, relation: Relation) -> StreamDeclaration:
    """Return the declaration that a script would have for the same input."""
    connection = wanted.connection
    source: DeclaredFile | DeclaredSocket
    if isinstance(connection, SocketConnection):
        source = DeclaredSocket(connection.host, connection.port)
    else:
        source = DeclaredFile(connection.path, (Path(connection.path),), wanted.name)
    return StreamDeclaration(
        name=relation.name,
        columns=relation.columns,
        source=source,
        delimiter=b"\n",
        adaptor=wanted.format or "csv",
        options=dict(wanted.options),
        is_table=False,
        position=(1, 1),
    )
