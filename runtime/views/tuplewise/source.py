"""Python source, written line by line and compiled once.

A program comes over the wire as data, and stays data: what is compiled here is written by this package out of a fixed
set of phrases. Every identifier in it is numbered here (``k7``), never a name of the program's; of the program's
constants only integers, truth values and None are written out, and any other constant is a value in the namespace that
an identifier stands for. So no text of a program ever becomes text of the source, whatever it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

__all__ = ["Source", "Value", "tuple_of"]


class Value(NamedTuple):
    """A piece of source that can stand in an expression."""

    text: str
    """An identifier, a constant, or something in parentheses."""
    nullable: bool = False
    """Whether it may be None at run time."""


class Source:
    """Lines of Python with their indentation, and the values that its identifiers stand for."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"__builtins__": {}}
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0

    def name(self, prefix: str) -> str:
        """An identifier that is not used yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    def hold(self, prefix: str, value: object) -> str:
        """An identifier for a value."""
        name = self.name(prefix)
        self.namespace[name] = value
        return name

    def constant(self, value: object) -> Value:
        """A constant of the program."""
        if value is None or value is True or value is False:
            return Value(str(value), value is None)
        if type(value) is int:
            return Value(repr(value) if value >= 0 else f"({value!r})")
        return Value(self.hold("x", value))

    def put(self, line: str) -> None:
        """A line."""
        self._lines.append("    " * self._depth + line)

    def assign(self, prefix: str, text: str, *, nullable: bool = False) -> Value:
        """A line that gives something a name."""
        name = self.name(prefix)
        self.put(f"{name} = {text}")
        return Value(name, nullable)

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

    def branches(self) -> Branches:
        """Several blocks, to be closed together."""
        return Branches(self)

    def text(self) -> str:
        """What has been written."""
        return "\n".join(self._lines) + "\n"

    def compile(self) -> dict[str, Any]:
        """The namespace with the functions that were written."""
        exec(compile(self.text(), "<tuplewise>", "exec"), self.namespace)  # see above: no text of a program is in it
        return self.namespace


class Branches:
    """Blocks within blocks, opened one by one: ``with source.branches() as inner: inner.open("if a:")``."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._open: list[Any] = []

    def __enter__(self) -> Branches:
        return self

    def open(self, header: str) -> None:
        """What follows stands in this block."""
        block = self._source.block(header)
        block.__enter__()
        self._open.append(block)

    def __exit__(self, *_: object) -> None:
        while self._open:
            self._open.pop().__exit__(None, None, None)


def tuple_of(texts: list[str]) -> str:
    """The key of these parts: the part itself where there is one, else a tuple."""
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
