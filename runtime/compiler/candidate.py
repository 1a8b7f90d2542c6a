"""What a class of views makes of a query."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.compiler.types import Type
from runtime.plan import ViewBody, ViewClass

__all__ = ["Candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A view but for its name."""

    body: ViewBody
    """How it is kept."""
    types: tuple[Type, ...]
    """Of its columns."""
    view_class: ViewClass
    """Its class."""
    reason: str
    """Why it is in this class, for `explain`."""
