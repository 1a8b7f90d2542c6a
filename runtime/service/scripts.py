"""From a script's declarations to origins of the ingest.

Streams that read the same file in the same way share one origin: it is read once, and its messages count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, cast

from runtime.compiler import StreamDeclaration
from runtime.compiler.declarations import FileSource
from runtime.engine import EpochWriter, Origin
from runtime.epochs import Cut
from runtime.relations import Adaptor, BookStream, RowAdaptor, TraceAdaptor
from runtime.service.errors import ServiceError
from runtime.sources import FileSource as FileReader
from runtime.sources import Position

__all__ = ["script_origins"]

_ADAPTORS: Final = ("csv", "orderbook")
_BOOK_OPTIONS: Final = {"book", "brokers", "deterministic", "validate"}
_CSV_OPTIONS: Final = {"delimiter", "fields", "deletions", "schema", "eventtype"}
_YES: Final = {"yes", "true", "1"}


def script_origins(declarations: Sequence[StreamDeclaration], writer: EpochWriter) -> dict[int, Origin]:
    """The origins that fill these relations, each to go on where the writer's last epoch ended.

    Raises `ServiceError` for a source or adaptor that there is none of, `MissingFileError` for a file that is not
    there.
    """
    groups: dict[tuple[str, ...], list[StreamDeclaration]] = {}
    for declaration in declarations:
        groups.setdefault(_sharing(declaration), []).append(declaration)
    origins: dict[int, Origin] = {}
    for origin_id, (key, group) in enumerate(sorted(groups.items())):
        name = "|".join(key)
        cut = writer.recovered.cuts.get(name, Cut("", 0, 0)) if writer.recovered else Cut("", 0, 0)
        adaptor = _adaptor(group, writer, f"origin/{origin_id}", cut)
        path = _path(group[0])
        source = FileReader(path, origin_id)
        start = Position(session=str(path), sequence=cut.sequence + 1, offset=cut.offset)
        origins[origin_id] = Origin(origin_id, name, source, adaptor, start, first=group[0].is_table)
    return origins


def _sharing(declaration: StreamDeclaration) -> tuple[str, ...]:
    """What streams must have in common to be read together."""
    path = str(_path(declaration))
    if declaration.adaptor == "orderbook":
        return (path, "orderbook", declaration.options.get("brokers", "10"), str(declaration.is_table))
    return (path, declaration.adaptor, declaration.name)


def _path(declaration: StreamDeclaration) -> Path:
    if not isinstance(declaration.source, FileSource):
        raise ServiceError(
            f"expected stream {declaration.name} to read a FILE, was a SOCKET at "
            f"{declaration.source.host}:{declaration.source.port}; live feeds are read by `deltabook runtime`"
        )
    return declaration.source.path


def _adaptor(group: Sequence[StreamDeclaration], writer: EpochWriter, name: str, cut: Cut) -> Adaptor:
    first = group[0]
    if first.adaptor == "orderbook":
        streams = [BookStream(d.relation(), _book(d)) for d in group]
        brokers = _brokers(first)
        return TraceAdaptor(writer.space, name, streams, brokers, messages=cut.sequence)
    if first.adaptor == "csv":
        _known_options(first, _CSV_OPTIONS)
        delimiter = first.options.get("delimiter", first.options.get("fields", ",")).encode()
        deletions = first.options.get("deletions", "false").lower() in _YES
        return RowAdaptor(first.relation(), delimiter, deletions=deletions)
    raise ServiceError(f"expected an adaptor out of {', '.join(_ADAPTORS)} for {first.name}, was {first.adaptor!r}")


def _known_options(declaration: StreamDeclaration, known: set[str]) -> None:
    unknown = sorted(set(declaration.options) - known)
    if unknown:
        raise ServiceError(
            f"expected options out of {', '.join(sorted(known))} for {declaration.adaptor} of {declaration.name}, "
            f"was {', '.join(unknown)}"
        )


def _book(declaration: StreamDeclaration) -> Literal["bids", "asks"]:
    _known_options(declaration, _BOOK_OPTIONS)
    book = declaration.options.get("book", "bids").lower()
    if book not in ("bids", "asks"):
        raise ServiceError(f"expected book := 'bids' or 'asks' for {declaration.name}, was {book!r}")
    return cast(Literal["bids", "asks"], book)


def _brokers(declaration: StreamDeclaration) -> int:
    text = declaration.options.get("brokers", "10")
    if not text.isdigit() or int(text) < 1:
        raise ServiceError(f"expected brokers of 1 or more for {declaration.name}, was {text!r}")
    return int(text)
