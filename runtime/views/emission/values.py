"""Typed values of kernel source, and their representation in cells.

==========  =====================  ======================================================
type        a value in source      its words in cells
==========  =====================  ======================================================
int64       int64                  one
int128      wide (128 bits)        two, low one first
float64     float                  one, its bits (-0.0 is 0.0, so that equal values are equal words)
string      int64, its number      one
bool        int64, 0 or 1          one
date        int64, days            one
timestamp   int64, microseconds    one
==========  =====================  ======================================================

A nullable field has one more word, before the others: 1 if the value is NULL, otherwise 0. The other words of a NULL
are 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from runtime.native.structures import NullablePlace
from runtime.plan import ColumnType
from runtime.views.emission.kernel import KernelSource

__all__ = [
    "Field",
    "Value",
    "load_field",
    "load_fields",
    "load_value",
    "may_be_direct",
    "nullable_places",
    "places_of",
    "store_field",
    "store_value",
    "string_places",
    "words_of",
]


class Field(msgspec.Struct, frozen=True):
    """A column between nodes, or a key in a table."""

    name: str
    """Name of the column."""
    type: ColumnType
    """Type of its values."""
    nullable: bool = False
    """True if a value may be NULL."""

    @property
    def value_words(self) -> int:
        """Number of words without the NULL flag."""
        return 2 if self.type == "int128" else 1

    @property
    def words(self) -> int:
        """Number of words, including the NULL flag."""
        return self.value_words + self.nullable


def words_of(fields: Iterable[Field]) -> int:
    """Return the number of words of a row with these fields."""
    return sum(field.words for field in fields)


class Value(msgspec.Struct, frozen=True):
    """Piece of source that denotes a value: an identifier, a constant or an expression in parentheses."""

    text: str
    """Text of the piece of source."""
    type: ColumnType | None
    """Type of the value; None for a bare NULL."""
    null: str | None = None
    """Condition (0 or 1, or a truth value) that is true if the value is NULL; None if it never is."""
    bits: int = 63
    """Number of bits of an integer: its magnitude is less than 2 to this power."""
    is_word: bool = False
    """True if ``null`` is 0 or 1 and the value of a NULL is 0, as in cells; flag and value can then be copied
    unchanged.
    """
    overflow: str | None = None
    """Condition that is true if the value is out of range and therefore wrong; None if it never is.

    The overflow makes a row fail only where the value is used (`Emitter.used`), not in a branch that is not taken.
    """

    @property
    def wide_text(self) -> str:
        """Source of an integer value in 128 bits."""
        return self.text if self.type == "int128" else f"wide({self.text})"

    def word(self) -> str:
        """Return the source of the value as one word; for any type but int128."""
        return f"bits_of({self.text})" if self.type == "float64" else self.text


def load_value(w: KernelSource, field: Field, cells: str, place: str, null: str | None) -> Value:
    """Write the lines that read a field's value from cells at a place. ``null`` is the source of its NULL flag."""
    if field.type == "int128":
        return Value(w.assign("v", f"load_wide({cells}, {place})"), "int128", null, 126, True)
    text = f"{cells}[{place}]"
    text = f"float_of({text})" if field.type == "float64" else text
    return Value(w.assign("v", text), field.type, null, is_word=True)


def store_value(w: KernelSource, field: Field, value: Value, where: tuple[str, str, str]) -> None:
    """Write the lines that store a value, which is of the field's type; the value of a NULL is stored as 0.

    ``where`` has the cells, the place of the value in them, and the cell of the NULL flag (empty if not nullable).
    """
    cells, place, flag = where
    if field.type == "int128":
        line, zero = (f"store_wide({cells}, {place}, {each})" for each in (value.wide_text, "wide(0)"))
    else:
        line, zero = f"{cells}[{place}] = {value.word()}", f"{cells}[{place}] = 0"
    if not field.nullable or value.null is None or value.is_word:
        w.put(*([f"{flag} = {value.null or 0}"] if field.nullable else []), line)
        return
    w.put(f"{flag} = 1 if {value.null} else 0")
    with w.block(f"if {flag}:"):
        w.put(zero)
    with w.block("else:"):
        w.put(line)


def load_field(w: KernelSource, field: Field, cells: str, place: str) -> Value:
    """Write the lines that read a field's words from cells at a place."""
    if not field.nullable:
        return load_value(w, field, cells, place, None)
    null = w.assign("n", f"{cells}[{place}]")
    return load_value(w, field, cells, f"{place} + 1", null)


def store_field(w: KernelSource, field: Field, value: Value, cells: str, place: str) -> None:
    """Write the lines that store a value, which is of the field's type, in cells at a place."""
    store_value(w, field, value, (cells, f"{place} + 1" if field.nullable else place, f"{cells}[{place}]"))


def places_of(fields: Sequence[Field]) -> list[int]:
    """Return the place of each field's words in a row."""
    places, place = [], 0
    for field in fields:
        places.append(place)
        place += field.words
    return places


def load_fields(w: KernelSource, fields: Sequence[Field], cells: str, record: str) -> list[Value]:
    """Write the lines that read the fields at the beginning of a record from cells at a place; return their values."""
    return [
        load_field(w, field, cells, f"{record} + {place}")
        for field, place in zip(fields, places_of(fields), strict=True)
    ]


def nullable_places(fields: Sequence[Field]) -> tuple[NullablePlace, ...]:
    """Return the places of the values of the fields with which a record begins."""
    return tuple(
        NullablePlace(place + field.nullable, flag=place if field.nullable else -1, words=field.value_words)
        for field, place in zip(fields, places_of(fields), strict=True)
    )


def string_places(fields: Sequence[Field]) -> tuple[NullablePlace, ...]:
    """Return the places of strings among the fields with which a record begins, for `RecordStructure.string_places`."""
    places = zip(fields, nullable_places(fields), strict=True)
    return tuple(place for field, place in places if field.type == "string")


def may_be_direct(keys: Sequence[Field]) -> bool:
    """Return True if a key can be a direct index into its table: it has one word, an integer that may be dense."""
    return len(keys) == 1 and not keys[0].nullable and keys[0].type in ("int64", "string", "date", "bool")
