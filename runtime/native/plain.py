"""Primitives of kernel source, in plain Python: the interpreted tier and the reference for the compiled one.

Kernel source (the library in `runtime.native.library` and the source that `runtime.views.nodes` emits) uses only these
names. Here an array of cells is a `memoryview` of int64: its elements are Python integers, and its bounds are checked.
A table is a list of such arrays and of other tables. `runtime.native.machine` has the same names as LLVM code; there,
arrays and tables are addresses.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "array",
    "bit_length",
    "bits_of",
    "call",
    "constant",
    "copy_words",
    "divide_wide",
    "fits",
    "float_of",
    "float_quotient",
    "jit",
    "jit_apart",
    "jit_inline",
    "load_wide",
    "mix",
    "mul_wide",
    "narrow",
    "outside",
    "prefetch",
    "rank",
    "root",
    "store_wide",
    "table",
    "wide",
    "wide_float",
    "wide_left",
    "wide_right",
    "window",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_MASK = 2**64 - 1
_LIMIT = 1 << 126
NAN_WORD = 0x7FF8000000000000
"""Word of every NaN."""
_DOUBLE = struct.Struct("d")
_WORD = struct.Struct("q")


def jit(function: _F) -> _F:
    """Mark a function of the kernel source; when compiled it never raises and never holds the interpreter lock."""
    return function


def jit_inline(function: _F) -> _F:
    """Mark a short function of the kernel source whose machine code is copied into every caller."""
    return function


def jit_apart(function: _F) -> _F:
    """Mark a long or rarely called function of the kernel source whose machine code is never copied into a caller."""
    return function


def constant(value: int) -> int:
    """Mark a parameter that is a literal in every call; the function is compiled for each value, to unroll loops."""
    return value


def root(address: Any) -> Any:
    """Return the table with which a kernel was called."""
    return address


def array(table_: Any, place: int) -> Any:
    """Return the array of int64 cells at a place of a table."""
    return table_[place]


def table(table_: Any, place: int) -> Any:
    """Return the table at a place of a table."""
    return table_[place]


def call(function: Any, argument: Any) -> int:
    """Call a kernel with a table, and return its status; the arguments are elements of arrays of kernels and tables."""
    status: int = function(argument)
    return status


def window(table_: Any, place: int, source: Any, first: int) -> None:
    """Replace the array at a place of a table by the cells, from ``first`` on, of ``source``'s array at this place."""
    table_[place] = source[place][first:]


def copy_words(target: Any, to: int, cells: Any, place: int, count: int) -> None:
    """Copy cells from one array to another, or within one array; the two ranges may overlap."""
    target[to : to + count] = cells[place : place + count]


def prefetch(cells: Any, place: int) -> None:
    """Prefetch a cell that will be read soon; this only saves time, and this tier does nothing."""


def rank(cells: Any, place: int, count: int, key: int) -> int:
    """Return the number of cells that are less than a key, among ``count`` ascending cells from a place on."""
    return bisect_left(cells, key, place, place + count) - place


def wide(value: int) -> int:
    """Return an integer of 64 bits as one of 128 bits."""
    return value


def narrow(value: int) -> int:
    """Return the low 64 bits of an integer of 128 bits: its value, if `fits` is True."""
    return ((value + (1 << 63)) & _MASK) - (1 << 63)


def fits(value: int) -> bool:
    """Return True if the value of an integer of 128 bits fits into 64 bits."""
    return -(1 << 63) <= value < 1 << 63


def outside(value: int) -> bool:
    """Return True if an integer of 128 bits is outside the supported range, ±2^126."""
    return not -_LIMIT <= value < _LIMIT


def mul_wide(left: int, right: int) -> tuple[int, bool]:
    """Return the product of two integers of 128 bits, and whether it is out of range; the product is then undefined."""
    product = left * right
    return (0, True) if outside(product) else (product, False)


def load_wide(cells: Any, place: int) -> int:
    """Return the integer of 128 bits in two cells, low word first."""
    return int((cells[place + 1] << 64) | (cells[place] & _MASK))


def store_wide(cells: Any, place: int, value: int) -> None:
    """Write an integer of 128 bits to two cells."""
    cells[place] = narrow(value)
    cells[place + 1] = narrow(value >> 64)


def bit_length(value: int) -> int:
    """Return the number of bits of an integer of 128 bits that is not negative."""
    return value.bit_length()


def wide_left(value: int, by: int) -> int:
    """Return an integer of 128 bits shifted left by 0 to 127 bits; no bit may be lost."""
    return value << by


def wide_right(value: int, by: int) -> int:
    """Return an integer of 128 bits that is not negative, shifted right by 0 to 127 bits."""
    return value >> by


def divide_wide(value: int, by: int) -> tuple[int, int]:
    """Return quotient and remainder of two integers of 128 bits that are not negative; ``by`` must not be 0."""
    return divmod(value, by)


def float_quotient(left: int, right: int) -> float:
    """Return the float nearest to the quotient of two integers of 128 bits; ``right`` must not be 0."""
    return left / right


def wide_float(value: int) -> float:
    """Return the float nearest to an integer of 128 bits."""
    return float(value)


def float_of(word: int) -> float:
    """Return the float whose bits a cell contains."""
    return float(_DOUBLE.unpack(_WORD.pack(word))[0])


def bits_of(value: float) -> int:
    """Return the word of a float: its bits, after -0.0 is replaced by 0.0, and each NaN by the NaN of `NAN_WORD`."""
    return int(_WORD.unpack(_DOUBLE.pack(value + 0.0))[0]) if value == value else NAN_WORD  # noqa: PLR0124  # which NaN is not


def mix(state: int, word: int) -> int:
    """Return the next state of a hash over words; the first state is 0.

    The exclusive or of the state and the word is multiplied by 2^64 / golden ratio. The exclusive or of the two halves
    of the product is the next state.

    Tables are indexed by the low bits of the state. These bits differ even for words that differ in only a few bits
    anywhere, such as consecutive integers, multiples of a power of two, and floats with few digits.
    """
    product = ((state ^ word) & _MASK) * 0x9E3779B97F4A7C15
    return narrow(product ^ (product >> 64))
