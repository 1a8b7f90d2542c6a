"""Origins of the ingest for a script's declarations.

Order books that read the same file with the same options share one origin: the file is read once, and its messages
count once. Every other stream has an origin of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, cast

import msgspec

from runtime.compiler import StreamDeclaration
from runtime.compiler.declarations import DeclaredFile
from runtime.engine.ingest import EpochWriter, Origin
from runtime.epochs import Cut
from runtime.native.cache import default_kernels
from runtime.plan import DerivedInput
from runtime.relations import TRACE_SCHEMA, Adaptor, BookStream, RowAdaptor, TraceAdaptor
from runtime.service.errors import ServiceError
from runtime.service.inputs.event_time import TIME_OPTION, time_of
from runtime.service.scripts.options import Options, policies, stream_codec, stream_schema
from runtime.sources import FileSource, Position

__all__ = ["script_inputs", "script_origins", "script_times"]

_OF_A_STREAM: Final = {"book", "deterministic", "validate"}
"""Options of an order book that may differ between streams of one origin."""


def script_origins(
    declarations: Sequence[StreamDeclaration],
    writer: EpochWriter,
    columns: Mapping[str, frozenset[str]] | None = None,
    *,
    numbered: bool = False,
) -> dict[int, Origin]:
    """Return the origins that fill these relations, each with its position at the end of the writer's last epoch.

    ``columns`` maps each relation to the columns that are read, None for all; other columns are not parsed. With
    ``numbered``, each row of a stream with deletions begins with its order number, as in DBToaster's files. Raises
    `ServiceError` for an unknown adaptor or option, `MissingFileError` for a missing file.
    """
    groups: dict[tuple[str, ...], list[StreamDeclaration]] = {}
    for declaration in declarations:
        groups.setdefault(_sharing(declaration), []).append(declaration)
    origins: dict[int, Origin] = {}
    for origin_id, (key, group) in enumerate(sorted(groups.items())):
        name = "|".join(key)
        cut = writer.recovered.cuts.get(name, Cut("", 0, 0)) if writer.recovered else Cut("", 0, 0)
        first = group[0]
        options = Options(first)
        path = _path(first)
        codec = stream_codec(options, path)
        adaptor: Adaptor
        if first.adaptor == "orderbook":
            adaptor = _book_adaptor(group, options, writer, f"origin/{origin_id}", cut)
        else:
            adaptor = _row_adaptor(first, options, None if columns is None else columns[first.name], numbered=numbered)
        source = FileSource(path, origin_id, codec=codec)
        start = Position(str(path), cut.sequence + 1, cut.offset, cut.tuples)
        origins[origin_id] = Origin(origin_id, name, source, adaptor, start, first=first.is_table)
    return origins


def script_inputs(declarations: Sequence[StreamDeclaration]) -> tuple[DerivedInput, ...]:
    """Return the relations that derived streams may read: all except order books, whose rows have no time.

    Tables, and streams with deletions, can only be joined by lookups. Raises `ServiceError` for an invalid time column.
    """
    inputs = []
    for declaration in declarations:
        if declaration.adaptor != "orderbook":
            relation = declaration.relation()
            is_looked_up = declaration.is_table or Options(declaration).flag("deletions")
            inputs.append(DerivedInput(relation, "" if is_looked_up else time_of(relation, declaration.options)))
    return tuple(inputs)


def script_times(declarations: Sequence[StreamDeclaration]) -> dict[str, str]:
    """Return stream → its time column, for streams whose rows advance event time; raises the errors of `time_of`."""
    times = {each.name: time_of(each.relation(), each.options) for each in declarations if not each.is_table}
    return {name: column for name, column in times.items() if column}


def _sharing(declaration: StreamDeclaration) -> tuple[str, ...]:
    """Return the key by which streams share an origin."""
    path = str(_path(declaration))
    if declaration.adaptor == "orderbook":
        brokers = declaration.options.get("brokers", "10")
        others = sorted(f"{k}={v}" for k, v in declaration.options.items() if k not in _OF_A_STREAM | {"brokers"})
        return (path, "orderbook", brokers, str(declaration.is_table), *others)
    return (path, declaration.adaptor, declaration.name)


def _path(declaration: StreamDeclaration) -> Path:
    if not isinstance(declaration.source, DeclaredFile):
        raise ServiceError(
            f"expected stream {declaration.name} to read a FILE, was a SOCKET at "
            f"{declaration.source.host}:{declaration.source.port}; live feeds are read by `deltabook runtime`"
        )
    return declaration.source.path


def _book_adaptor(
    group: Sequence[StreamDeclaration], options: Options, writer: EpochWriter, name: str, cut: Cut
) -> Adaptor:
    """Return the adaptor of order books that share an origin."""
    for declaration in group:
        if declaration.delimiter != b"\n":
            raise ServiceError(
                f"expected LINE DELIMITED for orderbook of {declaration.name}, was {declaration.delimiter!r} DELIMITED"
            )
    brokers = options.number("brokers", 10)
    schema = msgspec.structs.replace(TRACE_SCHEMA, **policies(options))
    streams = [BookStream(d.relation(), _book(d)) for d in group]
    for known in _OF_A_STREAM:
        options.text(known)
    options.end()
    return TraceAdaptor(
        writer.space, name, streams, brokers, messages=cut.sequence, schema=schema, kernels=default_kernels()
    )


def _row_adaptor(
    declaration: StreamDeclaration, options: Options, columns: frozenset[str] | None, *, numbered: bool
) -> RowAdaptor:
    """Return the adaptor of a stream whose tuples are its rows."""
    deletions = options.flag("deletions")
    options.text(TIME_OPTION)
    schema = stream_schema(declaration, options, deletions=deletions, numbered=numbered)
    return RowAdaptor(declaration.relation(), schema, deletions=deletions, columns=columns)


def _book(declaration: StreamDeclaration) -> Literal["bids", "asks"]:
    book = declaration.options.get("book", "bids").lower()
    if book not in ("bids", "asks"):
        raise ServiceError(f"expected book := 'bids' or 'asks' for {declaration.name}, was {book!r}")
    return cast(Literal["bids", "asks"], book)
