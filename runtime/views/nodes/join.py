"""Join: sums over a join of maps, by equality and ranges, maintained by higher-order deltas.

This module turns the record `Joined` of a plan into nodes. Algebra: the delta of ``A ⋈ B`` for a delta of A is ``ΔA ⋈
B``. The part of a join that does not depend on A is maintained in the same way, as an auxiliary map; so a row of a
delta is multiplied by values that are looked up (Koch, Ahmad, Kennedy, Nikolic, Nötzli, Lupei, Shaikhha: *DBToaster:
Higher-order Delta Processing for Dynamic, Frequently Fresh Views*, VLDB Journal 23, 2014).

```
for each map, in order:   statements of its first occurrence     ▶ batches ▶ indexes over auxiliary maps
                          indexes over the map
                          statements of its second occurrence    ▶ batches ▶ indexes over auxiliary maps
```

A statement is a node. It loops over the changed rows of its map (`runtime.views.feeds.Feed`), looks up values for each
row (`lookups`), multiplies them, and adds the product to the result or appends it to a batch of deltas of an auxiliary
map. The maps have an order. A changed row of one map is multiplied by the new state of the maps that precede this map
in the order, and by the old state of the maps that follow it. So every pair of changes is counted once.

The state consists of the sums of the result (`Totals`), and of an index for each look-up of an auxiliary map. The
auxiliary maps themselves are not stored.

The smallest join has no auxiliary map except its result. A change of r reads the sums of q, and vice versa:

>>> from runtime.compiler import Column, NamedSelect, Relation, compile_program
>>> r, q = (Relation(name, (Column("g", "int64"), Column("v", "int64"))) for name in "rq")
>>> sql = "SELECT r.g, SUM(r.v * q.v) AS x FROM r, q WHERE r.g = q.g GROUP BY r.g"
>>> program = compile_program([NamedSelect("products", sql)], [r, q])
>>> (view,) = program.views
>>> for line in view.body.lines(view.columns, program.maps)[5:9]:
...     print(line)
on a change of r, for each of its keys:
  result[r.g].sum_1 += r.sum_1 * q.sum_1
  result[r.g].weight += r.weight * q.weight
    where q = Σ map 1[g = r.g]
>>> from runtime.views import ShardState
>>> state = ShardState(program, inputs="relations")
>>> state.step_rows([("r", (1, 2), +1), ("q", (1, 3), +1), ("q", (1, 4), +1)])
[('products', (1, 14), 1)]
>>> state.step_rows([("r", (1, 5), +1)])  # 14 + 5 * (3 + 4)
[('products', (1, 14), -1), ('products', (1, 49), 1)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from runtime.plan import Col, Expr, Joined, Lookup, Occurrence, Statement, View, renamed, sum_of_terms
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value
from runtime.views.feeds import ColumnFeed, Feed
from runtime.views.graph import GraphBuilder, Runnable
from runtime.views.nodes.indexes import order_of
from runtime.views.nodes.lookups import Scope, columns_of_statement, kind_of, total_of
from runtime.views.nodes.node import Node
from runtime.views.nodes.range_pass import can_pass, pass_node
from runtime.views.nodes.range_sweep import RangeSweep, Sweep, SweepPlan, sweep_plan
from runtime.views.nodes.show import Shape
from runtime.views.nodes.totals import Totals, put_add, put_locate, put_touch

__all__ = ["lower"]

_ROWS = 64
"""Number of rows that fit into a new batch of deltas; tests reduce it."""
_SKIPPED = 2
"""Index in the array `s`, in which the kernel of a statement stores numbers between two calls.

The number at this index counts the matches of the current row that were added before the kernel stopped.
"""


def lower(view: View, body: Joined, builder: GraphBuilder) -> None:
    """Add a join to the graph: without statements if it is a function of one map's totals, else with statements."""
    if not _lower_square(view, body, builder):
        _Lowering(view, body, builder).lower()


class _Lowering:
    """Adds the nodes and structures of one join to the graph."""

    def __init__(self, view: View, body: Joined, builder: GraphBuilder) -> None:
        self._view, self._body, self._builder = view, body, builder
        self._maps = {occurrence.alias: occurrence.map for occurrence in body.occurrences}
        """Alias → number of the base map."""
        self._keys: dict[int, tuple[Field, ...]] = {}
        """Auxiliary map → its keys; see `_fields`."""
        self._updates: dict[int, dict[str, Callable[[Feed], Node]]] = {}
        """Auxiliary map → name of an index over it → function that returns the node which adds a feed to the index."""
        self._structures: dict[str, Any] = {}
        """Indexes over auxiliary maps, by name."""
        self._sweep: Sweep | None = None
        """Sweep, which recomputes whole groups in some steps; in these steps the statements do nothing. None if no step
        recomputes groups.
        """

    def lower(self) -> None:
        """Add the nodes to the graph."""
        view, body, builder = self._view, self._body, self._builder
        last = len(body.auxiliaries) - 1
        name = f"view/{view.name}/result"
        result: Totals = builder.structure(
            name, lambda: Totals(self._fields(last), body.auxiliaries[last].sums, is_result=True)
        )
        plan = sweep_plan(body)
        is_self_join = len(set(self._maps.values())) == 1
        if plan is not None and is_self_join and can_pass(body.auxiliaries[0].statements):
            self._lower_pass(plan, result)
        else:
            self._lower_statements(plan, result)
        if self._sweep is not None:
            builder.ends.append(RangeSweep(self._sweep, builder.strings, [view.name]))
        builder.show(view, result, Shape(view.columns, body.outputs, body.having, body.empty))

    def _lower_statements(self, plan: SweepPlan | None, result: Totals) -> None:
        """Add the nodes of every occurrence to the graph, in order."""
        view, body, builder = self._view, self._body, self._builder
        # All indexes are made before any node: the nodes of an occurrence update indexes that later occurrences read.
        for auxiliary in body.auxiliaries:
            for statement in auxiliary.statements:
                self._sources(statement)
        if plan is not None:
            first, second = body.auxiliaries[0].statements
            (other,), (own,) = self._sources(first), self._sources(second)
            feeds = dict.fromkeys(builder.feed(builder.part_of(view, number)) for number in self._maps.values())
            self._sweep = Sweep(plan, own, other, result, [feed.batch for feed in feeds])
        seen: set[int] = set()
        for occurrence in body.occurrences:
            turn = builder.turn(builder.part_of(view, occurrence.map))
            nodes = turn.after if occurrence.map in seen else turn.before
            seen.add(occurrence.map)
            nodes += self._nodes(occurrence, result)

    def _lower_pass(self, plan: SweepPlan, result: Totals) -> None:
        """Add the one node for both occurrences of a map to the graph."""
        view, builder, statements = self._view, self._builder, self._body.auxiliaries[0].statements
        lookup = statements[0].lookups[0]
        assert lookup.ordered is not None
        part = builder.part_of(view, lookup.source)
        feed, on, ordered = builder.feed(part), {key for key, _ in lookup.on}, lookup.ordered
        index = builder.structure(f"view/{view.name}/order", lambda: order_of(feed, on, ordered))
        self._sweep = Sweep(plan, index, index, result, [feed.batch])
        builder.turn(part).update.append(pass_node(feed, statements, self._sweep, builder.strings, [view.name]))

    def _nodes(self, occurrence: Occurrence, result: Totals) -> list[Runnable]:
        """Return the nodes of an occurrence's statements, and after them the nodes that update the indexes.

        The statements change auxiliary maps; the nodes at the end update the indexes over these maps.
        """
        body, builder = self._body, self._builder
        feed = builder.feed(builder.part_of(self._view, occurrence.map))
        nodes: list[Runnable] = []
        updates: list[Runnable] = []
        for number, auxiliary in enumerate(body.auxiliaries):
            for statement in auxiliary.statements:
                if statement.occurrence != occurrence.alias:
                    continue
                if number == len(body.auxiliaries) - 1:
                    target: Totals | ColumnFeed = result
                else:
                    target = ColumnFeed(self._fields(number), auxiliary.sums, _ROWS)
                    builder.transient.append(target.batch)
                    updates += [make(target) for make in self._updates.get(number, {}).values()]
                nodes.append(self._node(statement, feed, target))
        return nodes + updates

    # --- columns

    def _fields(self, number: int) -> tuple[Field, ...]:
        """Return the keys of an auxiliary map; a key is nullable only if a statement may make it NULL."""
        if number not in self._keys:
            auxiliary = self._body.auxiliaries[number]
            nullable = [False] * len(auxiliary.keys)
            for statement in auxiliary.statements:
                fields = self._bound_fields(statement)
                never = {column for lookup in statement.lookups for _, column in lookup.on}
                for place, name in enumerate(statement.keys):
                    nullable[place] |= fields[name].nullable and name not in never
            self._keys[number] = tuple(
                Field(name, kind, flag) for (name, kind), flag in zip(auxiliary.keys, nullable, strict=True)
            )
        return self._keys[number]

    def _bound_fields(self, statement: Statement) -> dict[str, Field]:
        """Return the keys that a statement binds, by name."""
        alias = statement.occurrence
        fields = {f"{alias}.{key.name}": key for key in self._base_keys(self._maps[alias])}
        for lookup in statement.lookups:
            keys = self._fields(lookup.source) if lookup.auxiliary else self._base_keys(lookup.source)
            fields |= {f"{lookup.name}.{key.name}": key for key in keys if key.name in lookup.binds}
        return fields

    def _base_keys(self, number: int) -> tuple[Field, ...]:
        return self._builder.feed(self._builder.part_of(self._view, number)).keys

    # --- structures

    def _sources(self, statement: Statement) -> list[Any]:
        """Return the structure that each look-up of a statement reads; the first call creates the structures."""
        return [self._source(lookup) for lookup in statement.lookups]

    def _source(self, lookup: Lookup) -> Any:
        kind = kind_of(lookup)
        if not lookup.auxiliary:
            return kind.shared(self._builder, self._view, lookup)
        number, auxiliary = lookup.source, self._body.auxiliaries[lookup.source]
        name = f"view/{self._view.name}/{auxiliary.name}/{kind.spec(lookup)}"
        if name not in self._structures:
            empty = ColumnFeed(self._fields(number), auxiliary.sums)
            structure = self._builder.structure(name, lambda: kind.made(empty, lookup))
            self._structures[name] = structure
            self._updates.setdefault(number, {})[name] = lambda feed: kind.node(
                feed, structure, self._builder.strings, [self._view.name]
            )
        return self._structures[name]

    # --- statements

    def _node(self, statement: Statement, feed: Feed, target: Totals | ColumnFeed) -> Node:
        """Return the node of a statement: its kernel loops over the feed and adds to the target."""
        sources = self._sources(statement)
        k = KernelSource("multiplies rows by the values that they look up", self._builder.strings)
        for lookup, source in zip(statement.lookups, sources, strict=True):
            kind_of(lookup).put_functions(k, source)
        k.begin()
        if self._sweep is not None:
            self._sweep.put_test(k, is_first=statement is self._body.auxiliaries[0].statements[0])
        code = _StatementCode(k, statement, feed)
        code.put(sources, target)
        k.put("return -1 if bad else 0")
        return Node(k, [self._view.name], feed.batches)


class _StatementCode:
    """Writes the loop of one statement.

    For the example of the module, the loop is as follows, without the lines for an overflow or a full table::

        while e < rows:                              # a row of the delta of r: its weight w, g, and sum v
            slot = find(q, g)                        # the totals of q with the same g
            if slot >= 0:
                weight, x = w * q.weight, v * q.sum
                if weight != 0 or x != 0:
                    slot = locate(result, g)
                    touch(result, slot)              # remember what the group was before the step
                    add weight and x to the record
            e += 1
    """

    def __init__(self, k: KernelSource, statement: Statement, feed: Feed) -> None:
        self._k, self._statement, self._feed = k, statement, feed
        self._repeats = any(kind_of(lookup).repeats for lookup in statement.lookups)
        """True if a row may have several matches. A kernel that resumes must then skip those that were added before."""

    def put(self, sources: Sequence[Any], target: Totals | ColumnFeed) -> None:
        """Write the loop over the feed."""
        k, statement = self._k, self._statement
        if self._repeats:
            k.put(f"skipped = s[{_SKIPPED}]")
        columns = columns_of_statement(statement)
        with self._feed.open(k, self._feed.wanted(columns, f"{statement.occurrence}.")) as row:
            if self._repeats:
                k.put("matches = 0")
            with ExitStack() as blocks:
                scope = Scope(k, self._feed.named(row, f"{statement.occurrence}."), columns, blocks)
                for lookup, source in zip(statement.lookups, sources, strict=True):
                    kind_of(lookup).put(scope, lookup, source)
                if statement.where is not None:
                    scope.open(f"if {Emitter(k).truth(statement.where, scope.values)}:")
                self._put_match(scope, target)
            if self._repeats:
                k.put("skipped = 0")
        if self._repeats:
            k.put(f"s[{_SKIPPED}] = 0")

    def _put_match(self, scope: Scope, target: Totals | ColumnFeed) -> None:
        """Write the lines for a row and one combination of its matches."""
        k, statement = self._k, self._statement
        if self._repeats:
            k.put("matches += 1")
            scope.open("if matches > skipped:")
        weight = Emitter(k).cast(total_of(scope, (statement.weight,)), "int64").text
        sums = [Emitter(k).cast(total_of(scope, terms), "int128") for terms in statement.sums]
        weight, sums = k.assign("w", weight), [_named(k, value) for value in sums]
        scope.open(f"if {' or '.join([f'{weight} != 0', *(f'{value.text} != wide(0)' for value in sums)])}:")
        keys = [scope.value(name) for name in statement.keys]
        if isinstance(target, ColumnFeed):
            target.batch.put_room(k, "1", self._stop)
            target.batch.put_append(k, [*keys, *sums], weight)
        else:
            slot = put_locate(k, target, keys, self._stop)
            put_touch(k, target, slot)
            put_add(k, target, slot, weight, sums)

    def _stop(self, status: int) -> None:
        """Write the lines that end the kernel at the current match, before anything is added for it."""
        k = self._k
        with k.block("if bad:"):
            k.put("return -1")
        if self._repeats:
            k.put(f"s[{_SKIPPED}] = matches - 1")
        k.put("s[0] = e", f"return {status}")


def _named(k: KernelSource, value: Value) -> Value:
    return Value(k.assign("x", value.text), value.type, None, value.bits)


# --- joins of a map with itself by all of its keys


def _lower_square(view: View, body: Joined, builder: GraphBuilder) -> bool:
    """Add a join to the graph if it is a function of one map's totals, group by group; return False if it is not.

    If all occurrences are of one map, and are joined by all of the map's keys, each group of the result corresponds to
    one record of the map, and is the product of this record with itself. Then no statements are needed.
    """
    numbers = {occurrence.map for occurrence in body.occurrences}
    if len(numbers) != 1 or len(body.auxiliaries) != 1:
        return False
    (number,) = numbers
    (result,) = body.auxiliaries
    map_ = builder.program.maps[number]
    keys, sums = [key.name for key in map_.keys], [total.name for total in map_.sums]
    statement = result.statements[0]
    own = [f"{statement.occurrence}.{key}" for key in keys]
    if sorted(statement.keys) != sorted(own) or statement.where is not None:
        return False
    for lookup in statement.lookups:
        is_whole = sorted(lookup.on) == sorted(zip(keys, own, strict=True))
        if lookup.auxiliary or lookup.binds or lookup.ranges or not is_whole:
            return False
    # All aliases refer to the same record.
    aliases = (statement.occurrence, *(lookup.name for lookup in statement.lookups))
    local: dict[str, Expr] = {f"{alias}.{name}": Col(name) for alias in aliases for name in (*keys, "weight", *sums)}
    terms = {"weight": (statement.weight,), **dict(zip(result.sums, statement.sums, strict=True))}
    known = {name: renamed(sum_of_terms(parts), local) for name, parts in terms.items()}
    known |= {name: local[column] for (name, _), column in zip(result.keys, statement.keys, strict=True)}
    outputs = tuple(renamed(expr, known) for expr in body.outputs)
    having = None if body.having is None else renamed(body.having, known)
    table = builder.totals(view, number, keys, is_result=True)
    builder.show(view, table, Shape(view.columns, outputs, having, body.empty))
    return True
