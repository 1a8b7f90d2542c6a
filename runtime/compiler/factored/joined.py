"""Sums over an inner join of relations, by equality and ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlglot import exp

from runtime.compiler.factored.polynomial import local, owners
from runtime.compiler.factored.recursion import JoinGraph, Recursion
from runtime.compiler.factored.tables import Tables, Totals, keys_of
from runtime.compiler.maps import BaseMaps, Draft, MapSet, unique
from runtime.compiler.operands import Candidate, Lowered, NotIncremental
from runtime.plan import Col, Joined, Key, Occurrence, Relation

__all__ = ["joined_view"]

_COPIES = 2
"""Greatest number of occurrences of a base map in a join."""


def joined_view(tree: exp.Query, relations: Mapping[str, Relation], maps: MapSet, *, zero: bool) -> Candidate:
    """Return the query as a `Joined` body, and add its maps; raise `NotIncremental` with the reason if impossible."""
    tables = Tables(tree, relations)
    if len(tables.relations) == 1:
        raise NotIncremental("one relation alone")
    graph = JoinGraph(tables)
    keys: dict[str, Lowered] = {}
    slots: list[int] = []
    names: list[str] = []
    for sql, value in keys_of(tables):
        if len(owners(value.expr)) != 1:
            raise NotIncremental("GROUP BY something that is not of one relation")
        (owner,) = owners(value.expr)
        slot = graph.slot_of(owner, local(value.expr), value.type)
        if slot not in slots:
            slots.append(slot)
            names.append(unique(graph.members[owner][slot].name, names))
        keys[sql] = Lowered(Col(names[slots.index(slot)]), value.type)
    totals = Totals(tables, keys, lambda number: unique(f"sum_{number}", names), zero=zero)
    base_maps = BaseMaps()
    drafts = _drafts(graph, tables, totals, base_maps)
    base_maps.finish(maps)
    auxiliaries = Recursion(graph, drafts).auxiliaries(slots, names, totals.sums)
    body = Joined(
        tuple(Occurrence(name, draft.number) for name, draft in drafts.items()),
        auxiliaries,
        totals.outputs,
        totals.having,
        totals.empty,
        _partition(graph, drafts, slots),
    )
    has_ranges = bool(graph.conditions)
    return Candidate(body, totals.types, "ordered" if has_ranges else "multilinear", _reason(graph, body))


def _drafts(graph: JoinGraph, tables: Tables, totals: Totals, base_maps: BaseMaps) -> dict[str, Draft]:
    """Return the base map of each member; members that share a map are adjacent."""
    seen: Counter[int] = Counter()
    drafts: dict[str, Draft] = {}
    for name, member in graph.members.items():
        relation, where, keys = tables.relations[name], tables.wheres[name], list(member.values())
        first = base_maps.draft(relation, where, keys)
        copy = seen[id(first)] // _COPIES  # a third occurrence gets another map with the same rows
        seen[id(first)] += 1
        drafts[name] = base_maps.draft(relation, where, keys, copy=copy) if copy else first
    totals.require(drafts)
    ordered = sorted(drafts, key=lambda name: list(drafts.values()).index(drafts[name]))
    return {name: drafts[name] for name in ordered}


def _partition(graph: JoinGraph, drafts: Mapping[str, Draft], slots: list[int]) -> tuple[str, ...]:
    """Return the members' keys in the first slot that all members have; empty if ``slots`` has no such slot."""
    for slot in slots:
        if all(slot in graph.members[name] for name in drafts):
            return tuple(graph.members[name][slot].name for name in drafts)
    return ()


def _reason(graph: JoinGraph, body: Joined) -> str:
    count = len(body.occurrences)
    text = f"sums over a join of {count} relations"
    equal = [_words([member[slot] for member in graph.members.values() if slot in member])
             for slot in range(graph.equal)]  # fmt: skip
    ranges = sorted({_words([key for name in pair for key in graph.members[name].values()
                             if key.expr == condition.key(name)])
                     for pair, condition in graph.conditions.items()})  # fmt: skip
    hows = ([f"by equality of {', '.join(equal)}"] if equal else []) + (
        [f"{'' if equal else 'by '}a range of {', '.join(ranges)}"] if ranges else []
    )
    return f"{text}, {' and '.join(hows)}" if hows else f"sums over the product of {count} relations"


def _words(keys: list[Key]) -> str:
    return " and ".join(sorted({key.name.rstrip("_") for key in keys}))
