"""Forms of a view's plan: linear sums, selections, joins, and SQL that DuckDB recomputes over maintained maps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Self

import msgspec

from runtime.plan.algebra import Col, Column, ColumnType, Expr, Map, Term, columns_read, renamed, sum_of_terms
from runtime.plan.notation import expression, output_lines

__all__ = [
    "Auxiliary",
    "Body",
    "Branch",
    "Factor",
    "Input",
    "Joined",
    "Linear",
    "Lookup",
    "Nested",
    "Occurrence",
    "Range",
    "Reevaluated",
    "Selected",
    "Statement",
]

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Body(msgspec.Struct, frozen=True):
    """Plan by which a view is kept up to date. Placement, catalogue, backfill and `explain` use only these methods."""

    @abstractmethod
    def renumbered(self, number: Callable[[int], int]) -> Self:
        """Return the same plan with other numbers of maps: ``number`` returns the new number for an old one."""

    def maps(self) -> frozenset[int]:
        """Return the numbers of the maps that the view reads."""
        numbers: set[int] = set()

        def see(number: int) -> int:
            numbers.add(number)
            return number

        self.renumbered(see)
        return frozenset(numbers)

    def shard_keys(self, maps: Sequence[Map]) -> Mapping[int, int | None] | None:
        """Return, for each map, the place of the key whose value determines the shard of a row.

        The place is -1 if all keys together determine the shard, and None if every shard has the whole map. With rows
        placed in this way, the changes of the shards add up to the change of the view. Return None instead of a mapping
        if the view must be in one shard.
        """
        del maps
        return None

    def placement(self, maps: Sequence[Map]) -> str:
        """Return the placement in words."""
        del maps
        return "all of it in one"

    @abstractmethod
    def cost(self) -> str:
        """Return the cost of a batch in words."""

    @abstractmethod
    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        """Return the lines that describe how maps become rows of a view with these columns."""


class Branch(msgspec.Struct, frozen=True):
    """One SELECT of a linear view (several are a UNION ALL)."""

    map: int
    """Number of the map that the branch reads."""
    outputs: tuple[Expr, ...]
    """One expression per column of the view, over the map's keys, sums and ``weight``."""
    bag: bool = False
    """True for a SELECT without aggregates: each group consists of ``weight`` equal rows."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """For a SELECT with aggregates and no GROUP BY: the row that is shown while the group is empty."""
    having: Expr | None = None
    """Condition over the same columns as ``outputs``; a group for which it is not true has no row."""


class Linear(Body, frozen=True, tag="linear"):
    """A SELECT over one relation, with SUM, COUNT and AVG or without aggregates, or a UNION ALL of such SELECTs."""

    branches: tuple[Branch, ...]
    """Branches, at least one."""

    def renumbered(self, number: Callable[[int], int]) -> Self:
        branches = tuple(msgspec.structs.replace(branch, map=number(branch.map)) for branch in self.branches)
        return msgspec.structs.replace(self, branches=branches)

    def shard_keys(self, maps: Sequence[Map]) -> Mapping[int, int] | None:
        if all(maps[branch.map].keys and branch.empty is None for branch in self.branches):
            return dict.fromkeys(self.maps(), -1)
        return None

    def placement(self, maps: Sequence[Map]) -> str:
        return "all of it in one" if self.shard_keys(maps) is None else "spread by the keys of its maps"

    def cost(self) -> str:
        return "changed keys"

    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        lines = []
        for branch in self.branches:
            kind = "each of its rows gives" if branch.bag else "each group gives"
            lines.append(f"from map {branch.map}, {kind}:")
            lines += output_lines(columns, branch.outputs, branch.having, branch.empty)
        return lines


class Nested(msgspec.Struct, frozen=True):
    """An aggregate over the groups of a map that has one key: only groups whose key is on one side of a value count."""

    name: str
    """Name; conditions read ``name.sum`` and ``name.weight``.

    A sum over no rows (weight 0) is NULL (0 in dbtoaster mode).
    """
    map: int
    """Base map whose only key is ``ordered``."""
    ordered: str
    """Name of the map's key."""
    compare: Literal["lt", "le", "gt", "ge"]
    """Comparison: a group counts if ``key compare value`` is true."""
    value: Expr
    """The value: the factor's ordered key (``alias.key``), or that key plus a constant."""


class Factor(msgspec.Struct, frozen=True):
    """A relation of a selected view, aggregated by group keys and by an ordered key, which conditions restrict."""

    alias: str
    """Alias; other parts of the plan read ``alias.key``, ``alias.sum`` and ``alias.weight``."""
    map: int
    """Base map; its keys are the group keys and ``ordered``."""
    ordered: str | None
    """Key that the conditions restrict; None if there is no condition."""
    nested: tuple[Nested, ...]
    """Nested aggregates that the conditions read."""
    conditions: tuple[Expr, ...]
    """Conditions over ``alias.ordered``, nested sums, and scalars. A scalar is ``mN.sum`` or ``mN.weight`` of a base
    map N without keys. The operands of conditions are exact integers; a sum over no rows is NULL (0 in dbtoaster mode).
    A value of the ordered key is selected if all conditions are true.
    """
    monotone: bool
    """True if each condition is true in at most one interval of the key, provided that the nested maps have no negative
    weight or sum. A condition is not true where one of its nested sums is NULL: in mode sql, for values below or above
    all keys of the nested map. All other values form one interval, in which the truth of the condition changes at most
    once.
    """


class Selected(Body, frozen=True, tag="selected"):
    """Sums over those rows of a product of relations that conditions on aggregates select (as in VWAP, MST, PSP).

    The view is evaluated at each version from ordered indexes, in three steps: the selected range of each factor's
    ordered key, each group's sums in this range, and the product over the factors.
    """

    factors: tuple[Factor, ...]
    """Factors, at least one; they are combined by a product, without join conditions."""
    scalars: tuple[int, ...]
    """Numbers of keyless base maps that conditions read."""
    keys: tuple[str, ...]
    """Group keys ``alias.key``: all keys of all factors except the ordered keys."""
    sums: tuple[tuple[str, tuple[Term, ...]], ...]
    """Named sums over ``alias.sum`` and ``alias.weight``; each term has one column of each factor."""
    outputs: tuple[Expr, ...]
    """One expression per column of the view, over ``keys``, the names of ``sums``, and ``weight``."""
    having: Expr | None = None
    """Condition over the same columns as ``outputs``; a group for which it is not true has no row."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """Without GROUP BY, the row that is shown while the group is empty."""

    def renumbered(self, number: Callable[[int], int]) -> Self:
        """Return the same plan with other numbers of maps, also in the names ``mN`` of scalars in conditions."""
        replace = msgspec.structs.replace
        scalars = {f"m{old}": f"m{number(old)}" for old in self.scalars}
        read = {name for factor in self.factors for expr in factor.conditions for name in columns_read(expr)}
        parts = {name: name.partition(".") for name in read}
        names: dict[str, Expr] = {name: Col(f"{scalars[map_]}.{rest}")
                                  for name, (map_, _, rest) in parts.items() if map_ in scalars}  # fmt: skip
        factors = []
        for factor in self.factors:
            nested = tuple(replace(each, map=number(each.map)) for each in factor.nested)
            conditions = tuple(renamed(condition, names) for condition in factor.conditions)
            factors.append(replace(factor, map=number(factor.map), nested=nested, conditions=conditions))
        return replace(self, factors=tuple(factors), scalars=tuple(map(number, self.scalars)))

    def cost(self) -> str:
        logarithm = " × log(distinct keys)" if any(factor.ordered for factor in self.factors) else ""
        scanned = [f.ordered for f in self.factors if f.ordered is not None and not f.monotone]
        each = f", and every distinct {' and '.join(scanned)}" if scanned else ""
        keys = "(changed keys + groups)" if self.keys else "changed keys"
        return f"{keys}{logarithm}{each}"

    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        lines = [f"m{number} = the one group of map {number}" for number in self.scalars]
        for factor in self.factors:
            lines += _factor(maps, factor)
        each = f" for each {', '.join(self.keys)}" if self.keys else ""
        lines.append(f"sums over the product{each}:")
        lines += [f"  {name} = {expression(sum_of_terms(parts))}" for name, parts in self.sums]
        return [*lines, "each group gives:", *output_lines(columns, self.outputs, self.having, self.empty)]


def _factor(maps: Sequence[Map], factor: Factor) -> list[str]:
    keys = ", ".join(key.name for key in maps[factor.map].keys)
    if factor.ordered is None:
        return [f"{factor.alias} = all of map {factor.map}[{keys}]"]
    how = "found by bisection" if factor.monotone else "every key checked"
    lines = [f"{factor.alias} = map {factor.map}[{keys}] where {factor.ordered} ({how}) has"]
    lines += [f"  {expression(condition)}" for condition in factor.conditions]
    lines += [f"  with {_nested(nested)}" for nested in factor.nested]
    return lines


def _nested(nested: Nested) -> str:
    return (
        f"{nested.name} = Σ map {nested.map}[{nested.ordered} {_SIGNS[nested.compare]} {expression(nested.value, 5)}]"
    )


class Range(msgspec.Struct, frozen=True):
    """An interval of an ordered key, counted ``sign`` times; it is unbounded on a side whose bound is None."""

    sign: int
    """1, or -1 for an overlap: a disjunction of intervals is the sum of the intervals less their overlaps."""
    low: Expr | None = None
    """Lower bound, an integer over bound columns."""
    low_strict: bool = False
    """True if the key must be greater than the bound; False if it may also be equal."""
    high: Expr | None = None
    """Upper bound, an integer over bound columns."""
    high_strict: bool = False
    """True if the key must be less than the bound; False if it may also be equal."""


class Lookup(msgspec.Struct, frozen=True):
    """Look-up in a map, for each row that a statement processes.

    Without ``binds`` the result is one row with the sums over all matching keys, or no row if no key matches. With
    ``binds`` the result is one row for every matching key (fan-out). The sums and the weight become bound columns
    ``name.sum`` and ``name.weight``.
    """

    name: str
    """Prefix of the bound columns: the alias of an occurrence, or the name of an auxiliary map."""
    source: int
    """Number of a base map, or of an auxiliary map of the view."""
    auxiliary: bool
    """True if ``source`` is an auxiliary map of the view."""
    on: tuple[tuple[str, str], ...]
    """Pairs of a key of the map and a bound column that must equal the key; NULL equals nothing."""
    binds: tuple[str, ...] = ()
    """Keys of the map that become bound columns ``name.key``: either all keys that are not in ``on``, or none."""
    ordered: str | None = None
    """Key that ``ranges`` restrict; every other key is then in ``on``, and ``binds`` is empty."""
    ranges: tuple[Range, ...] = ()
    """Ranges in which the ordered key counts; empty if all keys count."""


class Statement(msgspec.Struct, frozen=True):
    """Effect of a delta of one occurrence on an auxiliary map.

    Each row of the delta is looked up in other maps. The products of the row with the matches are added up by key.
    """

    occurrence: str
    """Alias of the occurrence; the keys, sums and weight of the delta are bound as ``alias.name``."""
    lookups: tuple[Lookup, ...]
    """Look-ups in order; a look-up may use columns that an earlier one bound."""
    where: Expr | None
    """Further condition over bound columns."""
    keys: tuple[str, ...]
    """Bound columns that are the auxiliary map's keys, in the map's order."""
    weight: Term
    """Weight of the rows: the product of the weights of all joined rows."""
    sums: tuple[tuple[Term, ...], ...]
    """One sum of terms per sum of the auxiliary map."""


class Occurrence(msgspec.Struct, frozen=True):
    """A base map in FROM; the same map may occur more than once."""

    alias: str
    """Alias, unique in the view."""
    map: int
    """Number of the base map."""


class Auxiliary(msgspec.Struct, frozen=True):
    """A map of a join of some of the occurrences, kept up to date by statements."""

    name: str
    """Name, unique in the view."""
    covers: tuple[str, ...]
    """Aliases of the joined occurrences."""
    keys: tuple[tuple[str, ColumnType], ...]
    """Names and types of the keys; a NULL is a key like any other."""
    sums: tuple[str, ...]
    """Names of the sums; the map also has a weight."""
    statements: tuple[Statement, ...]
    """One statement for each of the occurrences whose delta changes the map."""

    def with_lookups(self, change: Callable[[Lookup], Lookup]) -> Auxiliary:
        """Return the same map with changed look-ups."""
        replace = msgspec.structs.replace
        statements = (replace(each, lookups=tuple(map(change, each.lookups))) for each in self.statements)
        return replace(self, statements=tuple(statements))


class Joined(Body, frozen=True, tag="joined"):
    """Sums over a join of maps, by equality and ranges, kept up to date by higher-order deltas.

    Occurrences are processed one after the other. The statements of an occurrence read the new state of all earlier
    occurrences, and the old state of this occurrence and of all later ones. Then the delta of the occurrence is applied
    to its base map and to the auxiliary maps. The last auxiliary map is the result, from which ``outputs`` are
    computed.
    """

    occurrences: tuple[Occurrence, ...]
    """Occurrences, at least two; two occurrences of one base map are adjacent, and no base map occurs three times."""
    auxiliaries: tuple[Auxiliary, ...]
    """Auxiliary maps; the last one is the result."""
    outputs: tuple[Expr, ...]
    """One expression per column of the view, over the result's keys, sums and ``weight``."""
    having: Expr | None = None
    """Condition over the same columns as ``outputs``; a group for which it is not true has no row."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """Without GROUP BY, the row that is shown while the group is empty."""
    partition: tuple[str, ...] = ()
    """For each occurrence, the key by which the view is sharded; empty if there is no such key. Rows that are joined
    have equal values of these keys, and one key of the result has this value too.
    """

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


class Input(msgspec.Struct, frozen=True):
    """A table of a re-evaluated query: the columns are a map's keys, and each group is ``weight`` equal rows."""

    table: str
    """Name of the table in the query."""
    map: int
    """Number of the map that fills the table."""


class Reevaluated(Body, frozen=True, tag="reevaluated"):
    """Any other SQL: DuckDB recomputes the result over maintained maps; a change is the difference of two results."""

    inputs: tuple[Input, ...]
    """Tables of the query."""
    query: str
    """Query in DuckDB's SQL over the tables, with integers widened; returns the view's columns in order."""

    def renumbered(self, number: Callable[[int], int]) -> Self:
        inputs = tuple(msgspec.structs.replace(each, map=number(each.map)) for each in self.inputs)
        return msgspec.structs.replace(self, inputs=inputs)

    def cost(self) -> str:
        return "the whole state"

    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        tables = [f"  {each.table} = the rows of map {each.map}" for each in self.inputs]
        return ["tables:", *tables, "query, per epoch:", *(f"  {line}" for line in self.query.splitlines())]
