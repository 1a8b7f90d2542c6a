"""Sums over a join of maps, kept by higher-order deltas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import msgspec

from runtime.plan.algebra import Column, ColumnType, Expr, Map, Term, sum_of_terms
from runtime.plan.body import Body
from runtime.plan.notation import expression, output_lines

__all__ = ["Auxiliary", "Joined", "Lookup", "Occurrence", "Range", "Statement"]


class Range(msgspec.Struct, frozen=True):
    """An interval of an ordered key, counted ``sign`` times; a bound that is None is open."""

    sign: int
    """1 or -1: a disjunction of intervals is their sum less their overlaps."""
    low: Expr | None = None
    """Integer, over bound columns."""
    low_strict: bool = False
    """True: the key is greater than the bound; False: or equal."""
    high: Expr | None = None
    """Integer, over bound columns."""
    high_strict: bool = False
    """True: the key is less than the bound; False: or equal."""


class Lookup(msgspec.Struct, frozen=True):
    """What a statement reads of another map, for each of its rows.

    Without ``binds``: one row per row, the sums over all keys that match (the row goes if no key does). With them: one
    row for every key that matches (fan-out). The read sums and weight become bound columns ``name.sum``.
    """

    name: str
    """Prefix of what it binds; the alias of an occurrence, or the name of an auxiliary map."""
    source: int
    """Number of a base map, or of an auxiliary map of the view."""
    auxiliary: bool
    """Which of the two."""
    on: tuple[tuple[str, str], ...]
    """(key of the map, bound column) pairs that are equal; NULL equals nothing."""
    binds: tuple[str, ...] = ()
    """Keys of the map that become bound columns ``name.key``; all keys that are not in ``on``, or none."""
    ordered: str | None = None
    """The key that ``ranges`` are about; then every other key is in ``on``, and ``binds`` is empty."""
    ranges: tuple[Range, ...] = ()
    """Which part of the ordered key counts; none: all of it."""


class Statement(msgspec.Struct, frozen=True):
    """What a delta of one occurrence does to an auxiliary map: look up, multiply, add up by key."""

    occurrence: str
    """Alias whose delta triggers it; its keys, sums and weight are bound as ``alias.name``."""
    lookups: tuple[Lookup, ...]
    """In order; a later one may use what an earlier one bound."""
    where: Expr | None
    """Further condition over bound columns."""
    keys: tuple[str, ...]
    """Bound columns that give the auxiliary map's keys, in its order."""
    weight: Term
    """The rows' weight: the product of the weights of all that was joined."""
    sums: tuple[tuple[Term, ...], ...]
    """One sum of terms per sum of the auxiliary map."""


class Occurrence(msgspec.Struct, frozen=True):
    """A base map in FROM; the same one may occur more than once."""

    alias: str
    """Unique in the view."""
    map: int
    """The base map."""


class Auxiliary(msgspec.Struct, frozen=True):
    """A map of a join of some of the occurrences, kept by statements."""

    name: str
    """Unique in the view."""
    covers: tuple[str, ...]
    """Aliases that are joined in it."""
    keys: tuple[tuple[str, ColumnType], ...]
    """Names and types; a NULL is a key like any other."""
    sums: tuple[str, ...]
    """Names of its sums; it has a weight besides."""
    statements: tuple[Statement, ...]
    """One per occurrence it covers, where a delta of it changes the map."""

    def with_lookups(self, change: Callable[[Lookup], Lookup]) -> Auxiliary:
        """Return the same map with changed lookups."""
        replace = msgspec.structs.replace
        statements = (replace(each, lookups=tuple(map(change, each.lookups))) for each in self.statements)
        return replace(self, statements=tuple(statements))


class Joined(Body, frozen=True, tag="joined"):
    """Sums over a join of maps, by equality and ranges, kept by higher-order deltas.

    Occurrences are processed one after the other, in their order: all statements of an occurrence read the state in
    which the earlier occurrences are new and it and the later ones old; then its delta is applied to its base map and
    to the auxiliary maps. The last auxiliary map is the result that ``branches`` read.
    """

    occurrences: tuple[Occurrence, ...]
    """At least two; two of one base map follow one another, and no base map occurs three times."""
    auxiliaries: tuple[Auxiliary, ...]
    """The last one is the result."""
    outputs: tuple[Expr, ...]
    """One per column of the view, over the result's keys, sums and ``weight``."""
    having: Expr | None = None
    """Over the same; groups for which it is not true have no row."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """Without GROUP BY: the row while no row is in the group."""
    partition: tuple[str, ...] = ()
    """Per occurrence, the key whose equal values always meet, and which the result has: the view is sharded by it."""

    def renumbered(self, number: Callable[[int], int]) -> Self:
        replace = msgspec.structs.replace

        def moved(lookup: Lookup) -> Lookup:
            return lookup if lookup.auxiliary else replace(lookup, source=number(lookup.source))

        occurrences = tuple(replace(each, map=number(each.map)) for each in self.occurrences)
        auxiliaries = tuple(each.with_lookups(moved) for each in self.auxiliaries)
        return replace(self, occurrences=occurrences, auxiliaries=auxiliaries)

    def shard_keys(self, maps: Sequence[Map]) -> Mapping[int, int] | None:
        columns: dict[int, int] = {}
        kinds = set()
        for occurrence, name in zip(self.occurrences, self.partition, strict=False):
            keys = maps[occurrence.map].keys
            place = next(place for place, key in enumerate(keys) if key.name == name)
            kinds.add(keys[place].type)
            if columns.setdefault(occurrence.map, place) != place:
                return None
        return columns if len(kinds) == 1 else None

    def placement(self, maps: Sequence[Map]) -> str:
        if not self.partition:
            return "all of it in one"
        return f"spread by {' = '.join(dict.fromkeys(self.partition))}"

    def cost(self) -> str:
        lookups = [lookup for auxiliary in self.auxiliaries for step in auxiliary.statements for lookup in step.lookups]
        matches = " × matching keys" if any(lookup.binds for lookup in lookups) else ""
        logarithm = " × log(distinct keys)" if any(lookup.ordered for lookup in lookups) else ""
        return f"changed keys{matches}{logarithm}"

    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        lines = ["relations:", *(_occurrence(each.alias, maps[each.map]) for each in self.occurrences)]
        lines.append("maps of joins:")
        for auxiliary in self.auxiliaries:
            keys = ", ".join(f"{name} {kind}" for name, kind in auxiliary.keys)
            lines.append(f"  {auxiliary.name}[{keys}] of {' ⋈ '.join(auxiliary.covers)}")
        for occurrence in self.occurrences:
            lines.append(f"on a change of {occurrence.alias}, for each of its keys:")
            for auxiliary in self.auxiliaries:
                for statement in auxiliary.statements:
                    if statement.occurrence == occurrence.alias:
                        lines += [f"  {line}" for line in _statement(auxiliary, statement)]
        return [*lines, "each group gives:", *output_lines(columns, self.outputs, self.having, self.empty)]


def _occurrence(alias: str, part: Map) -> str:
    return f"  {alias} = map {part.id}[{', '.join(key.name for key in part.keys)}]"


def _statement(auxiliary: Auxiliary, statement: Statement) -> list[str]:
    target = f"{auxiliary.name}[{', '.join(statement.keys)}]"
    lines = [
        f"{target}.{name} += {expression(sum_of_terms(parts))}"
        for name, parts in zip(auxiliary.sums, statement.sums, strict=True)
    ]
    lines.append(f"{target}.weight += {expression(sum_of_terms([statement.weight]))}")
    for place, lookup in enumerate(statement.lookups):
        lines.append(f"  {'and  ' if place else 'where'} {_lookup(lookup)}")
    if statement.where is not None:
        lines.append(f"  if {expression(statement.where)}")
    return lines


def _lookup(lookup: Lookup) -> str:
    conditions = [f"{key} = {column}" for key, column in lookup.on]
    source = lookup.name if lookup.auxiliary else f"map {lookup.source}"
    if lookup.ordered is not None:
        conditions.append(" or ".join(_range(lookup.ordered, part) for part in lookup.ranges))
    inside = f"[{', '.join(conditions)}]" if conditions else ""
    if lookup.binds:
        return f"{lookup.name} = each {', '.join(lookup.binds)} of {source}{inside}"
    return f"{lookup.name} = Σ {source}{inside}"


def _range(key: str, part: Range) -> str:
    text = key
    if part.low is not None and part.high is None:
        text = f"{key} {'>' if part.low_strict else '>='} {expression(part.low, 5)}"
    elif part.low is not None:
        text = f"{expression(part.low, 5)} {'<' if part.low_strict else '<='} {key}"
    if part.high is not None:
        text += f" {'<' if part.high_strict else '<='} {expression(part.high, 5)}"
    return text if part.sign == 1 else f"less {text}"
