"""Order words: int64 words whose lexicographic order is the SQL order of values, in kernel source and in numpy.

==========  =======================================================================
type        its words
==========  =======================================================================
int64       itself; dates, timestamps and booleans too
int128      high word, low word with its first bit inverted
float64     its bits, all but the first inverted if negative; NaN is greatest
string      its rank (`runtime.views.strings`)
==========  =======================================================================

``DESC`` inverts all bits. Each word of a NULL is the least or the greatest word. If a value can have that word too, one
more word distinguishes NULL from the value. This word comes last, so that the first word still distinguishes most
values.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field
from runtime.views.strings import Strings

__all__ = ["OrderKey"]

Words = npt.NDArray[np.int64]

_LEAST: Final = -(2**63)
_GREATEST: Final = 2**63 - 1
_LEAST_TEXT: Final = "(-9223372036854775807 - 1)"
_UNBOUNDED: Final = frozenset({"int64", "int128", "timestamp"})
"""Types in which a value may have the least or the greatest word."""


class OrderKey(msgspec.Struct, frozen=True):
    """A column by which records are ordered."""

    field: Field
    """The column."""
    place: int
    """Place of the column's first word in a record."""
    descending: bool = False
    """True if greater values come first."""
    nulls_first: bool = False
    """True if NULL comes before all values; otherwise NULL comes after them."""

    @property
    def has_flag(self) -> bool:
        """True if one more word distinguishes NULL from values."""
        return self.field.nullable and self.field.type in _UNBOUNDED

    @property
    def words(self) -> int:
        """Number of order words of the column."""
        return self.field.value_words + self.has_flag

    def put(self, k: KernelSource, cells: str, record: str, strings: Strings) -> list[str]:
        """Write the lines that read the order words of a record at a place of cells; return the variables."""
        value = f"{record} + {self.place + self.field.nullable}"
        if self.field.type == "int128":
            texts = [f"{cells}[{value} + 1]", f"{cells}[{value}] ^ {_LEAST_TEXT}"]
        elif self.field.type == "float64":
            bits = k.assign("w", f"{cells}[{value}]")
            texts = [f"({bits} if {bits} >= 0 else {bits} ^ {_GREATEST})"]
        elif self.field.type == "string":
            texts = [f"{k.cells(strings.ranks(), 0)}[{cells}[{value}]]"]
        else:
            texts = [f"{cells}[{value}]"]
        if self.descending:
            texts = [f"~({text})" for text in texts]
        if not self.field.nullable:
            return [k.assign("w", text) for text in texts]
        null = k.assign("n", f"{cells}[{record} + {self.place}]")
        extreme = _LEAST_TEXT if self.nulls_first else str(_GREATEST)
        names = [k.assign("w", f"{extreme} if {null} else {text}") for text in texts]
        if self.has_flag:
            names.append(k.assign("w", f"-{null}" if self.nulls_first else null))
        return names

    def columns(self, records: Words, strings: Strings) -> list[Words]:
        """Return the order words of many records, as one array for each word."""
        place = self.place + self.field.nullable
        value = records[:, place]
        if self.field.type == "int128":
            words = [records[:, place + 1], value ^ _LEAST]
        elif self.field.type == "float64":
            words = [np.where(value < 0, value ^ _GREATEST, value)]
        elif self.field.type == "string":
            words = [strings.ranks().array(0)[value]]
        else:
            words = [value]
        if self.descending:
            words = [~word for word in words]
        if not self.field.nullable:
            return words
        null = records[:, self.place]
        words = [np.where(null != 0, _LEAST if self.nulls_first else _GREATEST, word) for word in words]
        if self.has_flag:
            words.append(-null if self.nulls_first else null)
        return words
