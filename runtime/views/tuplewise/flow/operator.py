"""What an operator of a flow is, tuple by tuple."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from runtime.compiler.program import ColumnType
from runtime.views.tuplewise.errors import UnsupportedError

__all__ = ["Changes", "Field", "Operator", "Row", "getter_of", "place_of"]

Row = tuple[Any, ...]
Changes = list[tuple[Row, int]]
"""Rows with how many came (+) or went (-); None where nothing changed."""


class Field(NamedTuple):
    """A column of an operator's rows."""

    name: str
    """Unique in the operator."""
    type: ColumnType
    """Of its values."""
    nullable: bool
    """Whether a value may be None."""


class Operator(ABC):
    """Turns changes of its inputs into the change of its rows.

    As in `runtime.views.flow.operators.Operator`: linear operators pass weights of any sign on, the others take what
    has no positive weight for absent.
    """

    fields: tuple[Field, ...]
    """Its columns."""
    step: Callable[..., Changes]
    """From the change of each input (None: none) to the change of its rows, perhaps with rows that cancel."""

    @abstractmethod
    def entries(self) -> int:
        """How many entries it holds."""

    def start(self) -> Changes:
        """Its rows over nothing."""
        return []

    def _check(self) -> None:  # noqa: B027 - most have nothing that could be wrong
        """Assert every invariant."""


def place_of(fields: Sequence[Field], name: str) -> int:
    """The place of a column; raises `UnsupportedError`."""
    for place, field in enumerate(fields):
        if field.name == name:
            return place
    raise UnsupportedError(f"expected one of the columns {', '.join(field.name for field in fields)}, was {name}")


def getter_of(places: Sequence[int]) -> Callable[[Row], Any]:
    """The key of a row: of one column its value, else a tuple."""
    if not places:
        return lambda _: ()
    return itemgetter(*places)
