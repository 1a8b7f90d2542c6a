"""Options of the streams of scripts, and of readers: format, schema and codec.

An option that is not common to all streams has the name of a field of the stream's format, and sets this field.
Therefore a new format needs no change in this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from runtime.compiler import StreamDeclaration
from runtime.formats import (
    FormatError,
    Limits,
    Malformed,
    Pushdown,
    Schema,
    SchemaError,
    format_kind,
    format_named,
    format_names,
)
from runtime.formats.codecs import Codec
from runtime.formats.format import Format
from runtime.plan import Column, ColumnType
from runtime.relations import row_schema
from runtime.service.errors import ServiceError
from runtime.sources import codec_by_suffix

__all__ = ["Options", "policies", "stream_codec", "stream_schema"]

_YES: Final = {
    **dict.fromkeys(("yes", "true", "on", "1"), True),
    **dict.fromkeys(("no", "false", "off", "0"), False),
}
"""Value of an option that is yes or no → True for yes."""
_LARGEST: Final = 10**18
"""Greatest whole number of an option."""
_LINE: Final = b"\n"
_DELIMITER: Final = "tuple_delimiter"
_SHORT: Final = {"delimiter", "fields"}
"""DBToaster's names for the field delimiter of csv."""
_WITHOUT_PATHS: Final = ("csv", "native", "itch")
"""Formats whose fields are found without paths."""
_IGNORED: Final = "schema"
"""Option of DBToaster's adaptors that repeats the declaration."""
_WRITTEN: Final[dict[ColumnType, tuple[str, ...]]] = {
    "int64": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    "int128": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    "float64": ("float32", "float64", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
    "string": ("string", "char"),
    "timestamp": ("timestamp(s)", "timestamp(ms)", "timestamp(us)"),
}
"""Column type → input types whose values it can represent."""


class Options:
    """Options of one declaration; each option is taken once, and options that are never taken are unknown."""

    def __init__(self, declaration: StreamDeclaration) -> None:
        self._declaration = declaration
        self._left = dict(declaration.options)
        self._known: set[str] = set()

    @property
    def stream(self) -> str:
        """Name of the stream."""
        return self._declaration.name

    def given(self, *names: str) -> str:
        """Return the first of these options that is given, else the empty string."""
        return next((name for name in names if name in self._declaration.options), "")

    def text(self, name: str, default: str = "") -> str:
        """Take an option as text."""
        self._known.add(name)
        return self._left.pop(name, default)

    def choice(self, name: str, *choices: str) -> str:
        """Take an option with one of these values, in lower case; the first is the default."""
        text = self.text(name, choices[0]).lower()
        if text not in choices:
            raise self.error(name, " or ".join(repr(choice) for choice in choices if choice), text)
        return text

    def flag(self, name: str) -> bool:
        """Take an option that is yes or no, in one of the spellings of `_YES`; no if it is not given."""
        text = self.text(name)
        if not text:
            return False
        if text.lower() not in _YES:
            raise self.error(name, "yes or no", text)
        return _YES[text.lower()]

    def number(self, name: str, default: int) -> int:
        """Take an option that is a whole number from 1 to `_LARGEST`."""
        text = self.text(name)
        if not text:
            return default
        if not text.isdecimal() or len(text) > len(str(_LARGEST)) or not 1 <= int(text) <= _LARGEST:
            raise self.error(name, f"a whole number from 1 to {_LARGEST}", text[:80])
        return int(text)

    def by_column(self, prefix: str, columns: Mapping[str, Column]) -> dict[str, str]:
        """Take the options ``prefix.column`` of single columns; return column → value.

        Raise `ServiceError` for unknown columns.
        """
        self._known.add(f"{prefix}.COLUMN")
        options = {}
        for name in [n for n in self._left if n.startswith(f"{prefix}.")]:
            column = name.partition(".")[2]
            if column not in columns:
                known = ", ".join(f"{prefix}.{column}" for column in columns)
                raise ServiceError(f"expected an option out of {known} for {self._declaration.name}, was {name}")
            options[column] = self._left.pop(name)
        return options

    def rest(self, known: Collection[str]) -> dict[str, str]:
        """Take all remaining options, whose names must be known."""
        self._known.update(known)
        taken = {name: self._left.pop(name) for name in list(self._left) if name in known}
        self.end()
        return taken

    def end(self) -> None:
        """Raise `ServiceError` if options are left."""
        if self._left:
            raise ServiceError(
                f"expected options out of {', '.join(sorted(self._known))} for {self._declaration.adaptor} of "
                f"{self._declaration.name}, was {', '.join(sorted(self._left))}"
            )

    def error(self, name: str, expected: str, was: str) -> ServiceError:
        """Return the error for a value of an option."""
        return ServiceError(f"expected {name} := {expected} for {self._declaration.name}, was {was}")


def stream_schema(
    declaration: StreamDeclaration, options: Options, *, deletions: bool, numbered: bool = False
) -> Schema:
    """Return the schema of the rows of a stream whose adaptor is a format.

    Raises `ServiceError` for options that do not fit. With ``numbered`` and ``deletions`` each row begins with its
    order number, as in DBToaster's files.
    """
    columns = {column.name: column for column in declaration.columns}
    settings: dict[str, Any] = policies(options)
    if "null" in declaration.options:
        settings["null_values"] = (options.text("null"),)
    else:
        options.text("null")
    types = options.by_column("type", columns)
    for name, type_ in types.items():
        written = _WRITTEN.get(columns[name].type, ()) if not columns[name].scale else ()
        if type_ not in written:
            if not written:
                raise ServiceError(
                    f"expected no type.{name} for {options.stream}, as only one type fits the column, was {type_}"
                )
            raise options.error(f"type.{name}", " or ".join(written), type_)
    types = {**declaration.written, **types}
    paths = options.by_column("path", columns)
    if paths and declaration.adaptor in _WITHOUT_PATHS:
        raise ServiceError(
            f"expected no path.{min(paths)} for {options.stream}, as {declaration.adaptor} has no paths, was "
            f"{paths[min(paths)]}"
        )
    options.text(_IGNORED)
    options.choice("eventtype", "insert")  # DBToaster's adaptors can also read a file of deletions
    try:
        format_ = _format(declaration, options)
        schema = row_schema(
            declaration.relation(),
            format_,
            deletions=deletions,
            numbered=numbered,
            types=types,
            paths=paths,
            **settings,
        )
        schema.format.indexer(schema, Pushdown())  # reports, before the start, a schema that the format cannot read
        return schema
    except FormatError as error:
        raise ServiceError(f"stream {declaration.name}: {error}") from None


def policies(options: Options) -> dict[str, Any]:
    """Return the policies for malformed tuples and values, and the greatest length of a tuple."""
    limits = Limits()
    malformed = options.choice("malformed", "dead_letter", "skip", "fail")
    nullable = options.text("malformed_nullable", "null").lower()
    if nullable not in ("null", malformed):
        raise options.error("malformed_nullable", f"'null', or {malformed!r} like malformed,", nullable)
    return {
        "malformed": Malformed(malformed),
        "malformed_nullable": Malformed(nullable),
        "limits": msgspec.structs.replace(limits, tuple_bytes=options.number("tuple_bytes", limits.tuple_bytes)),
    }


def stream_codec(options: Options, path: Path) -> Codec | None:
    """Return the codec of a stream's file, by its options or else by the file's suffix; None for an uncompressed file.

    Raises `ServiceError` for options of a codec if there is no codec.
    """
    name = options.choice("codec", "", "gzip", "zstd", "lz4")
    mode = options.choice("codec_mode", "sequential", "per_buffer")
    default = Codec("gzip")
    limit = options.number("codec_limit", default.limit_bytes)
    ratio = options.number("codec_ratio", default.most_ratio)
    by_suffix = codec_by_suffix(path)
    if not name and by_suffix is None:
        if given := options.given("codec_mode", "codec_limit", "codec_ratio"):
            raise ServiceError(
                f"expected {given} for {options.stream} only with a codec, was none: {path.name} has no suffix of one"
            )
        return None
    return msgspec.convert(
        {
            "name": name or (by_suffix.name if by_suffix else ""),
            "mode": mode,
            "limit_bytes": limit,
            "most_ratio": ratio,
        },
        Codec,
    )


def _format(declaration: StreamDeclaration, options: Options) -> Format:
    """Return the declared format, created with the options that are left."""
    if declaration.adaptor not in format_names():
        known = ", ".join(sorted([*format_names(), "orderbook"]))
        raise ServiceError(f"expected an adaptor out of {known} for {declaration.name}, was {declaration.adaptor!r}")
    fields = {field.name for field in msgspec.structs.fields(format_kind(declaration.adaptor))}
    named = options.rest(fields | (_SHORT if declaration.adaptor == "csv" else set()))
    if _DELIMITER in named and declaration.delimiter != _LINE:
        raise SchemaError(f"expected {_DELIMITER} or DELIMITED, was both: {declaration.delimiter!r} DELIMITED")
    if _DELIMITER in fields:
        named.setdefault(_DELIMITER, "".join([f"\\x{byte:02x}" for byte in declaration.delimiter]))
    elif declaration.delimiter != _LINE:
        raise SchemaError(f"expected LINE DELIMITED for {declaration.adaptor}, was {declaration.delimiter!r} DELIMITED")
    return format_named(declaration.adaptor, named)
