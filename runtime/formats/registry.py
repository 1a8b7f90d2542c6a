"""Formats by name, with options as text, for scripts, commands and configuration files.

The formats of this package are always available. Others are registered by `register_format`, or as entry points of the
group ``deltabook.formats``; an entry point names a class with a documented field for each option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from threading import Lock
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from runtime.formats.errors import SchemaError
from runtime.formats.format import Format

__all__ = ["ENTRY_POINTS", "format_kind", "format_named", "format_names", "register_format"]

ENTRY_POINTS: Final = "deltabook.formats"
"""Group of entry points in which other packages name their formats."""
_OWN: Final = {
    "csv": "runtime.formats.csv:CsvFormat",
    "json": "runtime.formats.jsonlines:JsonFormat",
    "native": "runtime.formats.native:NativeFormat",
    "itch": "runtime.formats.itch:ItchFormat",
}
_ALIASES: Final = {("csv", "delimiter"): "field_delimiter", ("csv", "fields"): "field_delimiter"}
_WORDS: Final = {
    "yes": True,
    "true": True,
    "on": True,
    "1": True,
    "no": False,
    "false": False,
    "off": False,
    "0": False,
}
_ESCAPES: Final = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.?))", re.DOTALL)

_registered: Final[dict[str, Callable[..., Format]]] = {}
_lock: Final = Lock()


def register_format(name: str, kind: Callable[..., Format]) -> None:
    """Add a format; raise `SchemaError` for a name that is taken.

    ``kind`` is a frozen `msgspec.Struct` whose fields have the type bytes, bool, int, str or a `Literal` of texts.
    """
    with _lock:
        if name in _OWN or name in _registered:
            raise SchemaError(f"expected a new name of a format, was {name!r}, which is registered")
        _registered[name] = kind


def format_names() -> tuple[str, ...]:
    """Return the names that `format_kind` accepts."""
    return tuple(sorted({*_OWN, *_registered, *(point.name for point in entry_points(group=ENTRY_POINTS))}))


def format_kind(name: str) -> Any:
    """Return the class of a format; raise `SchemaError` for an unknown name or an entry point that cannot be loaded."""
    if (own := _OWN.get(name)) is not None:
        module, _, attribute = own.partition(":")
        return getattr(import_module(module), attribute)
    if (registered := _registered.get(name)) is not None:
        return registered
    points = tuple(entry_points(group=ENTRY_POINTS, name=name))
    if not points:
        raise SchemaError(f"expected a format out of {', '.join(format_names())}, was {name!r}")
    try:
        return points[0].load()
    except Exception as error:
        raise SchemaError(f"expected a format at the entry point {points[0].value!r}, was {error!r}") from error


def format_named(name: str, options: Mapping[str, str] | None = None) -> Format:
    r"""Return a format with options as text; raise `SchemaError` for an unknown name, option or value.

    An option of type bytes may contain ``\t``, ``\n``, ``\r``, ``\0``, ``\\`` and ``\xNN``.

    >>> format_named("csv", {"delimiter": ";", "tuple_delimiter": r"\r\n", "quoting": "yes"}).field_delimiter
    b';'
    """
    kind = format_kind(name)
    types = get_type_hints(kind)
    fields = {field.name: types[field.name] for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for option, text in (options or {}).items():
        field = _ALIASES.get((name, option), option)
        if field not in fields:
            raise SchemaError(f"expected options of {name} out of {', '.join(fields) or 'none'}, was {option!r}")
        if field in values:
            raise SchemaError(f"expected {field} of {name} once, was {option!r} again")
        values[field] = _value(f"{option} of {name}", text, fields[field])
    made: Format = kind(**values)
    return made


def _value(what: str, text: str, kind: Any) -> Any:
    if kind is bytes:
        return _unescaped(what, text)
    if kind is bool:
        if text.lower() not in _WORDS:
            raise SchemaError(f"expected yes or no for {what}, was {text!r}")
        return _WORDS[text.lower()]
    if kind is int:
        if re.fullmatch("-?[0-9]+", text) is None:
            raise SchemaError(f"expected a whole number for {what}, was {text!r}")
        return int(text)
    if get_origin(kind) is Literal and text not in get_args(kind):
        raise SchemaError(f"expected {' or '.join(map(str, get_args(kind)))} for {what}, was {text!r}")
    return text


def _unescaped(what: str, text: str) -> bytes:
    parts: list[bytes] = []
    place = 0
    for escape in _ESCAPE.finditer(text):
        code, letter = escape.groups()
        if code is None and letter not in _ESCAPES:
            raise SchemaError(f"expected \\t, \\n, \\r, \\0, \\\\ or \\xNN in {what}, was {text!r}")
        parts += (text[place : escape.start()].encode(), bytes.fromhex(code) if code else _ESCAPES[letter])
        place = escape.end()
    return b"".join([*parts, text[place:].encode()])
