"""Writes kernel source line by line.

A program comes over the wire as data, and stays data: identifiers are made up here, and of a program's constants only
numbers and truth values are written out. Strings reach a kernel as interned numbers, in an array of constants. So no
text of a program ever becomes text of the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Writer"]

_HEADER = '''"""Generated: {title}."""

from runtime.native.library.arithmetic import (
    civil, clock, day_of, float_quotient, product, quotient, remainder, square_root, weighted,
)
from runtime.native.plain import (
    array, bits_of, copy_words, fits, float_of, jit, load_wide, mix, mul_wide, narrow, outside, prefetch, root,
    store_wide, table, wide, wide_float,
)
'''


class Writer:
    """Lines of Python with their indentation."""

    def __init__(self, title: str) -> None:
        """``title``: what the kernel does, in a few words that this package chooses."""
        self._title = title
        self._imports: set[str] = set()
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0

    def use(self, module: str, *names: str) -> None:
        """Import names from a module of `runtime.native.library`."""
        self._imports.update(f"from runtime.native.library.{module} import {name}" for name in names)

    def name(self, prefix: str) -> str:
        """An identifier that is not used yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def put(self, *lines: str) -> None:
        """Lines at the present depth; a line may hold several, indented against each other."""
        for line in lines:
            for part in line.split("\n"):
                self._lines.append("    " * self._depth + part if part.strip() else "")

    def assign(self, prefix: str, text: str) -> str:
        """A line that gives something a name of its own."""
        name = self.name(prefix)
        self.put(f"{name} = {text}")
        return name

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Lines under a header such as ``if a:``; with none of their own they are ``pass``."""
        self.put(header)
        self._depth += 1
        begin = len(self._lines)
        yield
        if len(self._lines) == begin:
            self.put("pass")
        self._depth -= 1

    @contextmanager
    def kernel(self, name: str = "step", arguments: str = "address") -> Iterator[None]:
        """The body of a function."""
        self.put("", "", "@jit")
        with self.block(f"def {name}({arguments}):"):
            yield

    def text(self) -> str:
        """The module."""
        return _HEADER.format(title=self._title) + "\n".join([*sorted(self._imports), *self._lines]) + "\n"
