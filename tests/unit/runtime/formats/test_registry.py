"""Formats are found by name, with options as text, and say what they know.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import msgspec
import pytest

from runtime.formats import registry
from runtime.formats.csv import CsvFormat, CsvIndexer
from runtime.formats.errors import SchemaError
from runtime.formats.registry import format_kind, format_named, format_names, register_format


class _Lines(msgspec.Struct, frozen=True):
    """A format of another package."""

    width: int = 1
    word: str = ""

    @property
    def name(self) -> str:
        return "lines"

    def indexer(self, schema: Any, pushdown: Any) -> CsvIndexer:
        return CsvIndexer(schema, CsvFormat(), pushdown)


def test_own_formats_by_name() -> None:
    """The formats of this package need no registration."""
    assert {"csv", "itch", "json", "native"} <= set(format_names())
    for name in ("csv", "itch", "json"):
        assert format_named(name).name == name
    assert format_kind("csv") is CsvFormat


def test_options_are_text() -> None:
    """Bytes with escapes, yes and no; ``delimiter`` is how scripts have always named the field delimiter."""
    options = {"delimiter": r"\t", "tuple_delimiter": r"\x7c\\\n", "quoting": "Yes", "header": "0", "escape": "~"}
    assert format_named("csv", options) == CsvFormat(b"|\\\n", b"\t", False, True, b"~")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cvs", {}, "expected a format out of .*csv.*, was 'cvs'"),
        ("csv", {"delimeter": ";"}, "expected options of csv out of tuple_delimiter, .*, was 'delimeter'"),
        ("csv", {"delimiter": ";", "field_delimiter": ";"}, "expected field_delimiter of csv once"),
        ("csv", {"header": "maybe"}, "expected yes or no for header of csv, was 'maybe'"),
        ("csv", {"delimiter": r"\q"}, "in delimiter of csv"),
        ("csv", {"delimiter": "ab"}, "field delimiter of one ASCII byte"),
        ("itch", {"midnight_ns": "noon"}, "expected a whole number for midnight_ns of itch, was 'noon'"),
    ],
)
def test_what_is_not_an_option(name: str, options: dict[str, str], message: str) -> None:
    """Errors name what would have been right."""
    with pytest.raises(SchemaError, match=message):
        format_named(name, options)


def test_a_format_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row 29: an entry point or a registration is all that a new format needs to be found."""
    points = EntryPoints([EntryPoint("lines", f"{__name__}:_Lines", registry.ENTRY_POINTS)])
    monkeypatch.setattr(EntryPoint, "load", lambda _: _Lines)
    monkeypatch.setattr(registry, "entry_points", points.select)
    assert "lines" in format_names()
    assert format_named("lines", {"width": "-3", "word": "x"}) == _Lines(-3, "x")


def test_an_entry_point_that_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other package raises is told with its name."""
    points = EntryPoints([EntryPoint("broken", "no_such_module_at_all:Format", registry.ENTRY_POINTS)])
    monkeypatch.setattr(registry, "entry_points", points.select)
    with pytest.raises(SchemaError, match="entry point 'no_such_module_at_all:Format'"):
        format_named("broken")


def test_a_name_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody replaces another's format."""
    monkeypatch.setattr(registry, "_registered", {})
    register_format("lines", _Lines)
    assert format_named("lines") == _Lines()
    for name in ("lines", "csv"):
        with pytest.raises(SchemaError, match=f"new name of a format, was '{name}'"):
            register_format(name, _Lines)
