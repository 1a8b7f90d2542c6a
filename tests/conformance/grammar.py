"""Random queries over the conformance relations, well typed by construction."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.conformance.expressions import Expressions, Field, Kind, field_of
from tests.conformance.schema import RELATIONS

__all__ = ["random_query"]

_RELATIONS = {relation.name: relation for relation in RELATIONS}
# Order books more often than the rest: that is what ranges and thresholds are about.
_NAMES = ("bids", "bids", "bids", "asks", "asks", "sales", "sales", "customers", "products", "stores", "visits")
_KEYS = (
    ("sales", "customer_id", "customers", "id"),
    ("sales", "product_id", "products", "id"),
    ("sales", "store_id", "stores", "id"),
    ("visits", "store_id", "stores", "id"),
    ("visits", "store_id", "sales", "store_id"),
    ("customers", "city", "stores", "city"),
    ("bids", "broker_id", "asks", "broker_id"),
    ("bids", "id", "asks", "id"),
    ("bids", "broker_id", "bids", "broker_id"),
    ("bids", "price", "asks", "price"),
)


def random_query(seed: int, shape: str = "") -> str:
    """Return the query of a seed; with ``shape``, a query of that shape."""
    queries = _Queries(random.Random(seed))
    if shape:
        return queries.shaped(shape)
    return queries.query()


@dataclass(frozen=True)
class _Source:
    """Source in FROM."""

    sql: str
    relation: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class _Select:
    """Query and the kinds of its columns."""

    sql: str
    kinds: tuple[Kind, ...]


class _Queries:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.make = Expressions(rng)
        self.aliases = 0
        self.order = ""

    def query(self) -> str:
        """Return a whole query."""
        shapes = (
            (self._rows, 14), (self._groups, 20), (self._join, 24), (self._range_join, 10), (self._threshold, 10),
            (self._semi, 10), (self._set_operation, 7), (self._top, 6), (self._nested, 10), (self._select_list, 4),
            (self._windows, 22), (self._temporal, 14), (self._quantified, 12), (self._values, 6),
        )  # fmt: skip
        shape = self.rng.choices([one for one, _ in shapes], [weight for _, weight in shapes])[0]
        return shape().sql

    def shaped(self, name: str) -> str:
        """Return a query of the shape with this name."""
        select: _Select = getattr(self, f"_{name}")()
        return select.sql

    # --- sources

    def _alias(self) -> str:
        self.aliases += 1
        return f"r{self.aliases}"

    def _source(self, name: str | None = None) -> _Source:
        name = name or self.rng.choice(_NAMES)
        alias = self._alias()
        fields = tuple(field_of(alias, column) for column in _RELATIONS[name].columns)
        return _Source(f"{name} {alias}", name, fields)

    def _derived(self, *, grouped: bool) -> _Source:
        """Return a subquery for FROM."""
        inner = self._groups(shown=False) if grouped else self._rows(shown=False)
        alias = self._alias()
        fields = tuple(Field(f"{alias}.c{number}", kind) for number, kind in enumerate(inner.kinds, 1))
        return _Source(f"({inner.sql}) {alias}", "", fields)

    def _where(self, fields: Sequence[Field], chance: float = 0.45) -> str:
        return f" WHERE {self.make.condition(fields)}" if self.rng.random() < chance else ""

    # --- shapes

    def _rows(self, *, shown: bool = True) -> _Select:
        """Return a query for rows of one relation."""
        source = self._source()
        distinct = "DISTINCT " if self.rng.random() < 0.25 else ""
        listed = [self.make.scalar(source.fields, 2) for _ in range(self.rng.randint(1, 3))]
        if shown and not distinct and self.rng.random() < 0.1 and (number := self.make.pick(source.fields, "int")):
            listed.append(Field(f"{number.sql} / 4", "approx"))
        return self._selected(distinct, listed, f" FROM {source.sql}{self._where(source.fields)}")

    def _groups(self, *, shown: bool = True) -> _Select:
        """Return a query for aggregates of one relation."""
        source = self._source()
        return self._grouped(f" FROM {source.sql}{self._where(source.fields)}", source.fields, shown=shown)

    def _join(self) -> _Select:
        """Return a query that joins two to four relations by equality, with any kind of join."""
        sources, sql = self._joined(self.rng.choices((2, 3, 4), (7, 3, 1))[0])
        fields = [field for source in sources for field in source.fields]
        return self._finished(f" FROM {sql}{self._where(fields, 0.35)}", fields)

    def _joined(self, count: int) -> tuple[list[_Source], str]:
        first = self._derived(grouped=True) if self.rng.random() < 0.12 else self._source(self.rng.choice(_NAMES[:7]))
        sources, sql = [first], first.sql
        for _ in range(count - 1):
            kind = self.rng.choices(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"), (7, 2, 1, 1))[0]
            source, test = self._partner(sources)
            fields = [field for one in (*sources, source) for field in one.fields]
            if self.rng.random() < 0.2:
                test += f" AND {self.make.condition(fields, 0)}"
            sql += f" {kind} {source.sql} ON {test}"
            sources.append(source)
        return sources, sql

    def _partner(self, sources: Sequence[_Source]) -> tuple[_Source, str]:
        """Return a source to join with, and the equality of the join."""
        links = [(held, a, other, b) for held in sources for x, a, y, b in _KEYS
                 for mine, a, other, b in ((x, a, y, b), (y, b, x, a)) if held.relation == mine]  # fmt: skip
        if links and self.rng.random() < 0.85:
            held, column, name, other = self.rng.choice(links)
            source = self._source(name)
            mine = next(field.sql for field in held.fields if field.sql.endswith(f".{column}"))
            theirs = next(field.sql for field in source.fields if field.sql.endswith(f".{other}"))
            return source, f"{mine} = {theirs}"
        source = self._source()
        fields = [field for one in sources for field in one.fields]
        for kind in ("int", "string", "decimal"):
            one, two = self.make.pick(fields, kind), self.make.pick(source.fields, kind)
            if one is not None and two is not None:
                return source, f"{one.sql} = {two.sql}"
        one = self.make.pick(source.fields, "int")
        assert one is not None
        return source, f"{one.sql} = 1"

    def _range_join(self) -> _Select:
        """Return a query that joins two relations by comparisons, possibly also by an equality."""
        left, right = self._source(self.rng.choice(_NAMES[:7])), self._source(self.rng.choice(_NAMES[:7]))
        one, two = self.make.pick(left.fields, "int"), self.make.pick(right.fields, "int")
        assert one is not None
        assert two is not None
        shift = self.rng.choice(("", "", " + 1", " - 2", " * 2", " * 0.5"))
        tests = [f"{one.sql} {self.rng.choice(('<', '<=', '>', '>='))} {two.sql}{shift}"]
        if self.rng.random() < 0.25:
            tests[0] = f"({tests[0]} OR {one.sql} > {two.sql} + 1000)"
        elif self.rng.random() < 0.25:
            tests = [f"{one.sql} BETWEEN {two.sql} - 1 AND {two.sql} + 2"]
        if self.rng.random() < 0.5:
            a, b = self.make.pick(left.fields, "int"), self.make.pick(right.fields, "int")
            assert a is not None
            assert b is not None
            tests.append(f"{a.sql} = {b.sql}")
        if self.rng.random() < 0.3:
            tests.append(self.make.condition(self.rng.choice((left, right)).fields, 0))
        fields = [*left.fields, *right.fields]
        return self._finished(f" FROM {left.sql}, {right.sql} WHERE {' AND '.join(tests)}", fields, 0.8)

    def _threshold(self) -> _Select:
        """Return a query for rows that an aggregate of the same or another relation selects, like VWAP, MST and PSP."""
        sources = [self._source(self.rng.choice(("bids", "asks", "sales"))) for _ in range(self.rng.choice((1, 1, 2)))]
        tests = []
        for source in sources:
            key = self.make.pick(source.fields, "int")
            assert key is not None
            name = source.relation if self.rng.random() < 0.6 else self.rng.choice(("bids", "asks"))
            total = self._source(name)
            share = self.rng.choice(("", "0.25 * ", "0.5 * ", "0.1 * ", "2 * "))
            scalar = f"{share}(SELECT {self._reduction(total)} FROM {total.sql})"
            compare = self.rng.choice(("<", "<=", ">", ">="))
            if self.rng.random() < 0.6:
                part = self._source(name)
                column = key.sql.partition(".")[2]
                inner = next((f for f in part.fields if f.sql.endswith(f".{column}")), part.fields[0])
                by = self.rng.choice(("<", "<=", ">", ">=", "="))
                left = f"(SELECT {self._reduction(part)} FROM {part.sql} WHERE {inner.sql} {by} {key.sql})"
                right = scalar if self.rng.random() < 0.7 else self.rng.choice(("2", "100", "0"))
            else:
                left, right = key.sql, scalar
            tests.append(f"{left} {compare} {right}")
            if self.rng.random() < 0.15:
                tests.append(self.make.condition(source.fields, 0))
        fields = [field for source in sources for field in source.fields]
        return self._finished(f" FROM {', '.join(s.sql for s in sources)} WHERE {' AND '.join(tests)}", fields, 0.75)

    def _reduction(self, source: _Source) -> str:
        number = self.make.pick(source.fields, "int")
        assert number is not None
        return self.rng.choice((f"SUM({number.sql})", f"SUM({number.sql})", "COUNT(*)", f"MAX({number.sql})"))

    def _temporal(self) -> _Select:
        """Return a query that selects rows by their age; `oracle.at_time` gives the oracle the time."""
        source = self._source(self.rng.choice(("bids", "asks", "trades", "sales", "sales")))
        rest, fields = source.sql, list(source.fields)
        tests = [self._age(source) for _ in range(self.rng.choice((1, 1, 2)))]
        if self.rng.random() < 0.25:
            other, test = self._partner([source])
            kind = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
            rest += f" {kind} {other.sql} ON {test}"
            fields += other.fields
        if self.rng.random() < 0.3:
            tests.append(self.make.condition(fields, 0))
        glue = " OR " if self.rng.random() < 0.1 else " AND "
        rest = f" FROM {rest} WHERE {glue.join(tests)}"
        if self.rng.random() < 0.15 and source.relation != "sales":
            time = f"{source.sql.split()[1]}.t"
            having = f" HAVING MAX({time}) {self.rng.choice(('<', '>='))} now() - INTERVAL '1' NANOSECOND"
            listed = [self.make.pick(source.fields, "int"), self.make.aggregate(fields)]
            assert listed[0] is not None
            return self._selected("", [each for each in listed if each], f"{rest} GROUP BY 1{having}")
        if self.rng.random() < 0.1:
            alias = self._alias()
            inner = self._selected("", [self.make.scalar(fields, 0) for _ in range(2)], rest)
            named = [Field(f"{alias}.c{number}", kind) for number, kind in enumerate(inner.kinds, 1)]
            return self._finished(f" FROM ({inner.sql}) {alias}", named)
        return self._finished(rest, fields)

    def _age(self, source: _Source) -> str:
        """Return a condition on the age of a row."""
        alias, compare = source.sql.split()[1], self.rng.choice(("<", "<=", ">", ">=", ">", ">="))
        if source.relation == "sales":
            time = f"{alias}.{self.rng.choice(('sold_at', 'sold_at', 'day'))}"
            past = f"INTERVAL '{self.rng.choice((1, 59, 90000, 25920005))}' SECOND"
            now = "CURRENT_TIMESTAMP"
        else:
            time, now = f"{alias}.t", "now()"
            past = f"INTERVAL '{self.rng.choice((0, 1, 3, 8, 1_000_000_000, 1_500_000_000))}' NANOSECOND"
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[compare]
        forms = [
            f"{time} {compare} {now} - {past}",
            f"{time} + {past} {compare} {now}",
            f"{now} - {past} {turned} {time}",
            f"{time} BETWEEN {now} - {past} AND {now}",
            f"{time} {compare} {now}",
        ]
        if source.relation != "sales":
            forms += [f"{now} - {time} {turned} {past}", f"{time} + {alias}.price {compare} {now} + 1"]
        return self.rng.choice(forms)

    def _semi(self) -> _Select:
        """Return a query with EXISTS or IN, possibly negated."""
        outer = self._source(self.rng.choice(_NAMES[:7]))
        inner, test = self._partner([outer])
        no = self.rng.choice(("", "NOT "))
        filtered = f" AND {self.make.condition(inner.fields, 0)}" if self.rng.random() < 0.4 else ""
        if self.rng.random() < 0.55:
            residual = (
                f" AND {self.make.condition([*outer.fields, *inner.fields], 0)}" if self.rng.random() < 0.2 else ""
            )
            found = f"{no}EXISTS (SELECT 1 FROM {inner.sql} WHERE {test}{filtered}{residual})"
        else:
            mine, _, theirs = test.partition(" = ")
            if not mine.startswith(outer.fields[0].sql.partition(".")[0] + "."):
                mine, theirs = outer.fields[0].sql, next(f.sql for f in inner.fields if f.kind == "int")
            where = f" WHERE {filtered.removeprefix(' AND ')}" if filtered else ""
            found = f"{mine} {no}IN (SELECT {theirs} FROM {inner.sql}{where})"
        glue = " OR " if self.rng.random() < 0.1 else " AND "
        also = f"{glue}{self.make.condition(outer.fields, 0)}" if self.rng.random() < 0.3 else ""
        return self._finished(f" FROM {outer.sql} WHERE {found}{also}", outer.fields)

    def _quantified(self) -> _Select:
        """Return a query with ANY, ALL or IN of a subquery, as a condition, under NOT or as a column."""
        outer, inner = self._source(self.rng.choice(_NAMES[:9])), self._source(self.rng.choice(_NAMES))
        where = f" WHERE {self.make.condition(inner.fields, 0)}" if self.rng.random() < 0.4 else ""
        if self.rng.random() < 0.3:
            mine = [self.make.pick(outer.fields, "int") for _ in range(2)]
            theirs = [self.make.pick(inner.fields, "int") for _ in range(2)]
            columns, others = (", ".join(field.sql for field in fields if field) for fields in (mine, theirs))
            no = self.rng.choice(("", "NOT "))
            test = f"({columns}) {no}IN (SELECT {others} FROM {inner.sql}{where})"
            if self.rng.random() < 0.3:
                others = ", ".join(self.make.of_kind("int", outer.fields, 0).sql for _ in range(2))
                test = f"({columns}) {self.rng.choice(('<', '<=', '>', '>=', '=', '<>'))} ({others})"
        else:
            kind = self.rng.choice(("int", "int", "int", "string", "decimal", "date"))
            one, two = self.make.pick(outer.fields, kind), self.make.pick(inner.fields, kind)  # type: ignore[arg-type]  # they are kinds
            if one is None or two is None:
                one, two = self.make.pick(outer.fields, "int"), self.make.pick(inner.fields, "int")
            assert one is not None
            assert two is not None
            if self.rng.random() < 0.3:
                tie, other = self.make.pick(outer.fields, "int"), self.make.pick(inner.fields, "int")
                assert tie is not None
                assert other is not None
                where += f"{' AND' if where else ' WHERE'} {other.sql} = {tie.sql}"
            listed = two.sql
            if self.rng.random() < 0.2:
                listed = self.rng.choice((f"MAX({two.sql})", f"COUNT({two.sql})" if one.kind == "int" else two.sql))
            group = f" GROUP BY {inner.fields[0].sql}" if listed != two.sql and self.rng.random() < 0.5 else ""
            compare = self.rng.choice(("<", "<=", ">", ">=", "<", "<=", ">", ">=", "=", "<>"))
            which = self.rng.choice(("ANY", "ALL", "SOME"))
            test = f"{one.sql} {compare} {which} (SELECT {listed} FROM {inner.sql}{where}{group})"
        if self.rng.random() < 0.2:
            test = f"NOT ({test})"
        if self.rng.random() < 0.25:
            return self._selected("", [outer.fields[0], Field(test, "bool")], f" FROM {outer.sql}")
        glue = " OR " if self.rng.random() < 0.2 else " AND "
        also = f"{glue}{self.make.condition(outer.fields, 0)}" if self.rng.random() < 0.3 else ""
        return self._finished(f" FROM {outer.sql} WHERE {test}{also}", outer.fields)

    def _values(self) -> _Select:
        """Return a query with VALUES, as a source, in a join, or after IN."""
        alias = self._alias()
        rows = [(self.rng.choice(("0", "1", "2", "3", "NULL")), self.rng.choice(("'a'", "'b'", "NULL")))
                for _ in range(self.rng.randint(1, 4))]  # fmt: skip
        listed = ", ".join(f"({number}, {text})" for number, text in rows)
        fields = [Field(f"CAST({alias}.c1 AS BIGINT)", "int"), Field(f"CAST({alias}.c2 AS VARCHAR)", "string")]
        values = f"(VALUES {listed}) {alias}(c1, c2)"
        chance = self.rng.random()
        if chance < 0.2:
            return self._selected("", fields, f" FROM {values}")
        source = self._source(self.rng.choice(_NAMES))
        number = self.make.pick(source.fields, "int")
        assert number is not None
        if chance < 0.4:
            firsts = ", ".join(f"({number})" for number, _ in rows)
            no = self.rng.choice(("", "NOT "))
            return self._finished(f" FROM {source.sql} WHERE {number.sql} {no}IN (VALUES {firsts})", source.fields)
        kind = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        rest = f" FROM {values} {kind} {source.sql} ON {fields[0].sql} = {number.sql}"
        return self._finished(rest, [*fields, *source.fields])

    def _set_operation(self) -> _Select:
        """Return a query with UNION, EXCEPT or INTERSECT."""
        kinds = [self.rng.choice(("int", "int", "string")) for _ in range(self.rng.randint(1, 2))]
        operator = self.rng.choice(("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"))
        arms = []
        for _ in range(2):
            source = self._source()
            listed = [self.make.of_kind(kind, source.fields, self.rng.randint(0, 1)) for kind in kinds]  # type: ignore[arg-type]  # they are kinds
            if self.rng.random() < 0.2:
                keys = ", ".join(str(place) for place in range(1, len(listed) + 1))
                arm = self._selected("", [*listed], f" FROM {source.sql}{self._where(source.fields)} GROUP BY {keys}")
            else:
                arm = self._selected("", listed, f" FROM {source.sql}{self._where(source.fields)}")
            arms.append(arm.sql)
        whole = f"{arms[0]} {operator} {arms[1]}"
        if self.rng.random() < 0.3:
            alias = self._alias()
            return self._grouped(f" FROM ({whole}) {alias}", [Field(f"{alias}.c1", kinds[0])])  # type: ignore[arg-type]  # as above
        return _Select(whole, ())

    def _top(self) -> _Select:
        """Return a query with ORDER BY all columns and LIMIT."""
        if self.rng.random() < 0.6:
            inner = self.rng.choice((self._rows, self._groups))(shown=False)
        else:
            sources, sql = self._joined(2)
            listed = [self.make.scalar([f for s in sources for f in s.fields], 0) for _ in range(2)]
            inner = self._selected("", listed, f" FROM {sql}")
        places = list(range(1, len(inner.kinds) + 1))
        self.rng.shuffle(places)
        order = ", ".join(
            f"{place}{self.rng.choice(('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'))}" for place in places
        )
        offset = f" OFFSET {self.rng.randint(1, 2)}" if self.rng.random() < 0.25 else ""
        return _Select(f"{inner.sql} ORDER BY {order} LIMIT {self.rng.randint(1, 4)}{offset}", inner.kinds)

    def _nested(self) -> _Select:
        """Return a query over a subquery in FROM."""
        source = self._derived(grouped=self.rng.random() < 0.7)
        return self._finished(f" FROM {source.sql}{self._where(source.fields)}", source.fields)

    def _windows(self) -> _Select:
        """Return a query with window functions, possibly restricted to rows with a small ranking, or aggregated.

        The order of ties is undefined in DuckDB, so functions that depend on it are ordered by all selected columns:
        rows that are equal in all of these are the same to a reader of the result.
        """
        source = self._source() if self.rng.random() < 0.75 else self._derived(grouped=self.rng.random() < 0.6)
        usable = [field for field in source.fields if field.kind != "approx"]
        named = self.rng.sample(usable, min(len(usable), self.rng.randint(2, 4)))
        partition = self.rng.sample(named, self.rng.randint(0, 1)) if self.rng.random() < 0.85 else [
            self.make.scalar(named, 1)
        ]  # fmt: skip
        ways = ("", "", " DESC", " NULLS FIRST", " DESC NULLS FIRST")
        order = [f"{field.sql}{self.rng.choice(ways)}" for field in self.rng.sample(named, len(named))]
        self.order = ", ".join(order)
        functions = [self._window_function(named, partition) for _ in range(self.rng.randint(1, 3))]
        rest = f" FROM {source.sql}{self._where(source.fields, 0.25)}"
        chance = self.rng.random()
        ranking = self._over(self.rng.choice(("ROW_NUMBER()", "ROW_NUMBER()", "RANK()", "DENSE_RANK()")), partition)
        test = self.rng.choice(("<= 1", "<= 2", "= 1", "= 2", "< 3", "<= 3", "> 1"))
        if chance < 0.3:
            shown = [*named, *functions[: self.rng.randint(0, 2)]]
            return self._selected("", shown, f"{rest} QUALIFY {ranking} {test}")
        whole = self._selected("", [*named, *functions, Field(ranking, "int")], rest)
        if chance < 0.6:
            return whole
        alias = self._alias()
        fields = [Field(f"{alias}.c{number}", kind) for number, kind in enumerate(whole.kinds, 1)]
        where = f" WHERE {fields[-1].sql} {test}" if chance < 0.9 else self._where(fields)
        return self._finished(f" FROM ({whole.sql}) {alias}{where}", fields, 0.3)

    def _over(self, call: str, partition: Sequence[Field], frame: str = "") -> str:
        """Return a function over a window that is ordered by all selected columns.

        All functions of a query have the same order, so that they order equal rows alike.
        """
        by = f"PARTITION BY {', '.join(field.sql for field in partition)} " if partition else ""
        return f"{call} OVER ({by}ORDER BY {self.order}{frame})"

    def _window_function(self, named: Sequence[Field], partition: Sequence[Field]) -> Field:
        field = self.make.scalar(named, 1)
        chance = self.rng.random()
        if chance < 0.15:
            return Field(self._over("ROW_NUMBER()", partition), "int")
        if chance < 0.45:
            call = self.rng.choice(("LAG({0})", "LAG({0}, 2)", "LEAD({0})", "LEAD({0}, 3)", "FIRST_VALUE({0})",
                                    "LAG({0} IGNORE NULLS)", "LAST_VALUE({0} IGNORE NULLS)"))  # fmt: skip
            return Field(self._over(call.format(field.sql), partition), field.kind)
        if chance < 0.5:
            frame = " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
            return Field(self._over(f"LAST_VALUE({field.sql})", partition, frame), field.kind)
        number = self.make.pick(named, "int", "decimal")
        value = field if number is None else number
        calls = ["COUNT(*)", f"COUNT({field.sql})", f"MIN({field.sql})", f"MAX({field.sql})"]
        kinds: list[Kind] = ["int", "int", field.kind, field.kind]
        if field.kind == "bool":
            calls, kinds = calls[:2], kinds[:2]
        if number is not None:
            calls += [f"SUM({value.sql})"] * 4 + [f"AVG({value.sql})"]
            kinds += [value.kind] * 4 + ["approx"]
        at = self.rng.randrange(len(calls))
        if chance < 0.6:
            by = f"PARTITION BY {partition[0].sql}" if partition else ""
            return Field(f"{calls[at]} OVER ({by})", kinds[at])
        if chance < 0.75:
            by = f"PARTITION BY {partition[0].sql} " if partition else ""
            return Field(f"{calls[at]} OVER ({by}ORDER BY {self.rng.choice(list(named)).sql})", kinds[at])
        frames = (
            "UNBOUNDED PRECEDING AND CURRENT ROW",
            "UNBOUNDED PRECEDING AND 1 FOLLOWING",
            "1 PRECEDING AND CURRENT ROW",
            "2 PRECEDING AND 1 FOLLOWING",
            "3 PRECEDING AND 1 PRECEDING",
            "1 FOLLOWING AND 2 FOLLOWING",
        )
        frame = self.rng.choice(frames)
        return Field(self._over(calls[at], partition, f" ROWS BETWEEN {frame}"), kinds[at])

    def _select_list(self) -> _Select:
        """Return a query with a subquery as a column."""
        outer = self._source()
        inner, test = self._partner([outer])
        where = f" WHERE {test}" if self.rng.random() < 0.7 else ""
        if where and not any(field.sql in test for field in outer.fields):
            where = ""
        scalar = Field(f"(SELECT {self._reduction(inner)} FROM {inner.sql}{where})", "int")
        listed = [self.make.scalar(outer.fields, 0), scalar]
        return self._selected("", listed, f" FROM {outer.sql}{self._where(outer.fields)}")

    # --- ends

    def _finished(self, rest: str, fields: Sequence[Field], grouped: float = 0.6) -> _Select:
        if self.rng.random() < grouped:
            return self._grouped(rest, fields)
        distinct = "DISTINCT " if self.rng.random() < 0.2 else ""
        return self._selected(distinct, [self.make.scalar(fields, 1) for _ in range(self.rng.randint(1, 4))], rest)

    def _grouped(self, rest: str, fields: Sequence[Field], *, shown: bool = True) -> _Select:
        keys = [self.make.scalar(fields, 1) for _ in range(self.rng.choices((0, 1, 2), (3, 6, 2))[0])]
        values = [self.make.aggregate(fields, shown=shown) for _ in range(self.rng.randint(1, 3))]
        listed = ", ".join(key.sql for key in keys)
        if keys and self.rng.random() < 0.08:
            listed = f"{self.rng.choice(('ROLLUP', 'CUBE'))} ({listed})"
        group = f" GROUP BY {listed}" if keys else ""
        having = ""
        if self.rng.random() < 0.15:
            having = f" HAVING {self.rng.choice(('COUNT(*) > 1', 'COUNT(*) < 3', 'COUNT(*) <> 2'))}"
            number = self.make.pick(fields, "int")
            if number is not None and self.rng.random() < 0.5:
                having = f" HAVING {self.rng.choice(('SUM', 'MIN', 'MAX'))}({number.sql}) > {self.rng.choice((0, 2))}"
        return self._selected("", [*keys, *values], f"{rest}{group}{having}")

    def _selected(self, distinct: str, listed: Sequence[Field], rest: str) -> _Select:
        shown = ", ".join(f"{field.sql} AS c{number}" for number, field in enumerate(listed, 1))
        return _Select(f"SELECT {distinct}{shown}{rest}", tuple(field.kind for field in listed))
