"""A kernel under construction: its source, and the structures that it reaches through its table.

Arrays that the body of a kernel uses are declared at the kernel's head. So if a kernel is called again after a
structure was enlarged, it uses the new arrays. Place 0 of the kernel's table is the array ``s`` of the kernel's own
numbers. The first of them is the cursor: 0, or the place at which the kernel resumes.

A program arrives over the network as data, and none of its text becomes text of the source. Identifiers are generated
here, and of a program's constants only numbers and truth values are written out. Strings reach a kernel as interned
numbers, in an array of constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from runtime.native.structures import Structure
from runtime.views.strings import Strings

__all__ = ["KernelSource"]

Room = Callable[[], None]
"""Function that makes room for a kernel that has stopped for lack of room."""

_HEADER = '''"""Generated: {title}."""

from runtime.native.library.arithmetic import (
    civil, clock, day_of, product, quotient, remainder, square_root, weighted,
)
from runtime.native.plain import (
    array, bits_of, copy_words, fits, float_of, float_quotient, jit, load_wide, mix, mul_wide, narrow, outside,
    prefetch, root, store_wide, table, wide, wide_float,
)
'''


class KernelSource:
    """Writes one kernel: ``step(address) -> status``.

    Status 0 is success, a positive status is one that `need` returned, and a negative status is a failure.
    """

    def __init__(self, title: str, strings: Strings, *, numbers: int = 4) -> None:
        """Begin an empty kernel.

        ``title`` says in a few words what the kernel does; it has no text of a program. ``numbers`` is the size of the
        array of the kernel's own numbers, including its cursor.
        """
        self.numbers = numbers
        self.links: list[Structure] = []
        """Structures and arrays in the kernel's table, from place 1 on."""
        self.rooms: list[Room] = []
        """Functions that make room for status 1, 2, …."""
        self._title = title
        self._imports: set[str] = set()
        self._lines: list[str] = []
        self._depth = self._count = 0
        self._strings = strings
        self._tables: dict[int, str] = {}
        self._declared: dict[tuple[int, int], str] = {}
        self._fixed: dict[str, str] = {}
        self._texts: list[str] = []
        self._constant_cells: Structure | None = None
        self._head: int | None = None

    # --- lines

    def use(self, module: str, *names: str) -> None:
        """Import names from a module of `runtime.native.library`."""
        self._imports.update(f"from runtime.native.library.{module} import {name}" for name in names)

    def name(self, prefix: str) -> str:
        """Return an identifier that is not used yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def put(self, *lines: str) -> None:
        """Write lines at the present depth; an argument may have several lines, indented relative to each other."""
        for line in lines:
            for part in line.split("\n"):
                self._lines.append("    " * self._depth + part if part.strip() else "")

    def assign(self, prefix: str, text: str) -> str:
        """Write a line that assigns an expression to a new name; return the name."""
        name = self.name(prefix)
        self.put(f"{name} = {text}")
        return name

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write a header such as ``if a:``, with the lines of the context below it, or ``pass`` if there are none."""
        self.put(header)
        self._depth += 1
        begin = len(self._lines)
        yield
        if len(self._lines) == begin:
            self.put("pass")
        self._depth -= 1

    def text(self) -> str:
        """Return the source."""
        return _HEADER.format(title=self._title) + "\n".join([*sorted(self._imports), *self._lines]) + "\n"

    # --- functions, and the structures that they use

    def begin(self, name: str = "step", arguments: str = "address") -> None:
        """Write the head of a function, which sets ``bad`` to False: no number has passed its limit yet.

        Declarations belong to one function: another function declares again what it uses.
        """
        self._depth = 0
        self.put("", "", "@jit", f"def {name}({arguments}):")
        self._depth = 1
        self.put("p = root(address)" if arguments == "address" else "", "s = array(p, 0)")
        self._head = len(self._lines)
        self._declared, self._tables, self._fixed = {}, {}, {}
        self.put("bad = False")

    def _declare(self, line: str) -> None:
        assert self._head is not None
        self._lines.insert(self._head, "    " + line)
        self._head += 1

    def _place(self, structure: Structure) -> int:
        for place, link in enumerate(self.links, 1):
            if link is structure:
                return place
        self.links.append(structure)
        return len(self.links)

    def table(self, structure: Structure) -> str:
        """Return the identifier of a structure's table."""
        place = self._place(structure)
        if place not in self._tables:
            name = self._tables[place] = f"t{place}"
            self._declare(f"{name} = table(p, {place})")
        return self._tables[place]

    def cells(self, structure: Structure, place: int) -> str:
        """Return the identifier of an array of a structure."""
        table = self.table(structure)
        key = self._place(structure), place
        if key not in self._declared:
            name = self._declared[key] = f"{table}_{structure.place_name(place)}"
            self._declare(f"{name} = array({table}, {place})")
        return self._declared[key]

    def fixed(self, structure: Structure, place: int, number: int) -> str:
        """Return the identifier of a structure's cell whose value does not change while the kernel runs."""
        key = f"{self.cells(structure, place)}[{number}]"
        if key not in self._fixed:
            name = self._fixed[key] = f"{self.cells(structure, place)}_{number}"
            self._declare(f"{name} = {key}")
        return self._fixed[key]

    def need(self, room: Room) -> int:
        """Add a function that makes room; return the status with which the kernel requests it."""
        self.rooms.append(room)
        return len(self.rooms)

    # --- constants

    def number(self, text: str) -> str:
        """Return the source of a string's number."""
        if self._constant_cells is None:
            self._constant_cells = Structure(1)
        if text not in self._texts:
            self._texts.append(text)
        return f"{self.cells(self._constant_cells, 0)}[{self._texts.index(text)}]"

    def ranks(self) -> str:
        """Return the source of the array with each string's rank."""
        return self.cells(self._strings.ranks(), 0)

    def tested(self, test: str | frozenset[str]) -> str:
        """Return the source of the array that has 1 for each string that matches a LIKE pattern, or is in a list."""
        return self.cells(self._strings.tested(test), 0)

    def integers(self, values: Sequence[int]) -> str:
        """Return the source of an array of 64-bit constants."""
        structure = Structure(1)
        structure.put(0, np.array(values, np.int64))
        return self.cells(structure, 0)

    def resolve(self) -> None:
        """Write the numbers of the constants into their array; must be called again after strings were renumbered."""
        if self._constant_cells is not None:
            numbers = [self._strings.number(text) for text in self._texts]
            self._constant_cells.put(0, np.array(numbers, np.int64))
            self._strings.refresh()
