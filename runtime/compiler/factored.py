"""Sums over joins and over what conditions on aggregates select, as `Joined` and `Selected` bodies."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from runtime.compiler.candidate import Candidate
from runtime.compiler.lower import NotIncremental
from runtime.compiler.maps import MapSet
from runtime.compiler.program import Relation

__all__ = ["factored_view"]


def factored_view(tree: exp.Query, relations: Mapping[str, Relation], maps: MapSet, *, zero: bool) -> Candidate:
    """The query in this class, its maps added; raises `NotIncremental` with the reason why it has no place here."""
    raise NotIncremental("not yet")
