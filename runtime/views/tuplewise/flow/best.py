"""The best key of each group with its sums: what a touch is, in one operator.

It stands for four nodes of a flow: the greatest (or least) value of a column in each group, the rows that have it, and
sums over those by group and value. Each change costs one look into the group, whatever stands elsewhere in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple

from runtime.compiler.program import Aggregate, Expr
from runtime.views.tuplewise.expressions import expression
from runtime.views.tuplewise.flow.operator import Field, Operator
from runtime.views.tuplewise.source import Source, Value, tuple_of

__all__ = ["Best", "BestOperator"]

_SLACK: Final = 64


class Best(NamedTuple):
    """The best rows of a relation by group, added up."""

    relation: str
    """Whose rows."""
    where: Expr | None
    """Those that count."""
    keys: tuple[tuple[Expr, Field], ...]
    """What a group is."""
    value: tuple[Expr, Field]
    """Which is the best of a group; an integer."""
    is_last: bool
    """Whether the greatest value is the best one."""
    aggregates: tuple[tuple[Aggregate, Expr | None], ...]
    """Sums of integers that are never NULL, and numbers of rows."""
    order: tuple[int, ...]
    """Which of (keys, value) each of the first columns is."""


def _rebuilt(levels: Mapping[int, list[int]], sign: int) -> list[int]:
    heap = [sign * value for value, level in levels.items() if level[0] > 0]
    heapify(heap)
    return heap


class BestOperator(Operator):
    """A group is a list: its last row, its levels (value → number of rows, sums), and a heap of its values."""

    def __init__(self, best: Best, columns: Sequence[Field]) -> None:
        kept = [*(field for _, field in best.keys), best.value[1]]
        counted = (Field(a.name, a.type, False) for a, _ in best.aggregates)
        self.fields = (*(kept[place] for place in best.order), *counted)
        self._groups: dict[Any, list[Any]] = {}
        self._sign = -1 if best.is_last else 1
        source = Source()
        source.namespace |= {
            "groups": self._groups, "heappush": heappush, "heappop": heappop, "rebuilt": _rebuilt, "len": len,
        }  # fmt: skip
        name = source.name("step")
        with source.block(f"def {name}(changes):"):
            source.put("out, touched = [], {}")
            given = {field.name: Value(source.name("c"), field.nullable) for field in columns}
            with source.block(f"for ({', '.join(value.text for value in given.values())},), weight in changes:"):
                self._put_change(source, best, given)
            with source.block("for key, group in touched.items():"):
                self._put_row(source, best)
            source.put("return out")
        self.step = source.compile()[name]

    def _put_change(self, source: Source, best: Best, given: Mapping[str, Value]) -> None:
        sign = "-" if best.is_last else ""
        with source.branches() as inner:
            if best.where is not None:
                inner.open(f"if {expression(source, best.where, given).text}:")
            source.put(f"key = {tuple_of([expression(source, expr, given).text for expr, _ in best.keys])}")
            source.put(f"value = {expression(source, best.value[0], given).text}")
            sums = [
                "weight" if expr is None else f"weight * {expression(source, expr, given).text}"
                for _, expr in best.aggregates
            ]
            source.put("group = groups.get(key)")
            with source.block("if group is None:"):
                source.put("group = groups[key] = [None, {}, []]")
            source.put("touched[key] = group")
            source.put("levels = group[1]")
            source.put("level = levels.get(value)")
            with source.block("if level is None:"):
                source.put(f"levels[value] = [{', '.join(['weight', *sums])}]")
                source.put("old = 0")
            with source.block("else:"):
                source.put("old = level[0]")
                source.put("level[0] += weight")
                for place, text in enumerate(sums, 1):
                    source.put(f"level[{place}] += {text}")
                rest = " or ".join(f"level[{place}]" for place in range(1 + len(sums)))
                with source.block(f"if not ({rest}):"):
                    source.put("del levels[value]")
            with source.block("if old <= 0 < old + weight:"):
                source.put("heap = group[2]")
                source.put(f"heappush(heap, {sign}value)")
                with source.block(f"if len(heap) > {_SLACK} + 2 * len(levels):"):
                    source.put(f"group[2] = rebuilt(levels, {self._sign})")

    def _put_row(self, source: Source, best: Best) -> None:
        sign = "-" if best.is_last else ""
        source.put("levels, heap, old, new = group[1], group[2], group[0], None")
        with source.block("while heap:"):
            source.put(f"value = {sign}heap[0]")
            source.put("level = levels.get(value)")
            with source.block("if level is not None and level[0] > 0:"):
                keys = ["key"] if len(best.keys) == 1 else [f"key[{n}]" for n in range(len(best.keys))]
                kept = [*keys, "value"]
                cells = [kept[place] for place in best.order]
                cells += [f"level[{place}]" for place in range(1, 1 + len(best.aggregates))]
                source.put(f"new = ({', '.join(cells)},)")
                source.put("break")
            source.put("heappop(heap)")
        with source.block("if new != old:"):
            with source.block("if old is not None:"):
                source.put("out.append((old, -1))")
            with source.block("if new is not None:"):
                source.put("out.append((new, 1))")
            source.put("group[0] = new")
        with source.block("if not levels:"):
            source.put("del groups[key]")

    def entries(self) -> int:
        return sum(len(group[1]) for group in self._groups.values())

    def _check(self) -> None:
        for row, levels, heap in self._groups.values():
            assert levels, "no group is held without levels"
            live = sorted(self._sign * value for value, level in levels.items() if level[0] > 0)
            assert all(map(any, levels.values()))
            assert set(live) <= set(heap)
            assert (row is None) is not bool(live)
            assert len(heap) <= _SLACK + 2 * len(levels) + 1 or heap == live
