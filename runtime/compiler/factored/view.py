"""Which of the two forms a SELECT has."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from runtime.compiler.factored.joined import joined_view
from runtime.compiler.factored.selected import selected_view
from runtime.compiler.factored.tables import Tables
from runtime.compiler.lower import NotIncremental
from runtime.compiler.maps import MapSet
from runtime.compiler.operands import Candidate
from runtime.plan import Relation

__all__ = ["factored_view"]


def factored_view(tree: exp.Query, relations: Mapping[str, Relation], maps: MapSet, *, zero: bool) -> Candidate:
    """The query in this class, its maps added; raises `NotIncremental` with the reason why it has no place here.

    Of one relation alone it says nothing: why such a view is not linear has been said.
    """
    select = tree.unnest()
    if not isinstance(select, exp.Select):
        raise NotIncremental(select.key.upper())
    for clause, reason in (("with_", "WITH"), ("limit", "LIMIT"), ("offset", "LIMIT"), ("distinct", "DISTINCT"),
                           ("qualify", "QUALIFY")):  # fmt: skip
        if select.args.get(clause):
            raise NotIncremental(reason)
    tables = Tables(select, relations)
    if any(part.find(exp.Query) is not None for part in tables.conditions):
        return selected_view(select, tables, relations, maps, zero=zero)
    if len(tables.relations) == 1:
        raise NotIncremental
    return joined_view(select, tables, maps, zero=zero)
