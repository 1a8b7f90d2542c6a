"""Whichever way a batch is added up, what leaves is the same: the quick ways equal the exact one and plain Python."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.compiler import Call, Col, Column, Expr, Key, Lit, Map, Relation, Sum
from runtime.views import ViewError, ViewOverflowError, cancellation
from runtime.views.cancellation import consolidated
from runtime.views.grouping import grouping
from runtime.views.relationbatch import KeyCodes, RelationBatch
from tests.generators.deltas import Row, delta_table
from tests.generators.payloads import groups_of, preaggregated
from tests.generators.programs import evaluate

R = Relation(
    "r",
    (
        Column("a", "int64"),
        Column("b", "int64"),
        Column("c", "int64"),
        Column("n", "int64", nullable=True),
        Column("s", "string", nullable=True),
        Column("d", "date"),
        Column("u", "timestamp"),
    ),
)
EDGES = [0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**53, 2**62, -(2**62), 2**63 - 1, -(2**63)]
SIZES = {"small": st.integers(-9, 9), "middle": st.integers(-(2**31), 2**31), "edge": st.sampled_from(EDGES)}


def rows_of(integers: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[Row, int]]]:
    row = st.tuples(
        integers,
        integers,
        st.integers(0, 3),
        st.none() | integers,
        st.none() | st.sampled_from(["", "x", "y"]),
        st.integers(-3, 20_000),
        st.integers(-3, 2**57),
    )
    return st.lists(st.tuples(row, st.sampled_from([1, 1, -1, -1, 3, -7])), max_size=40)


COLUMNS = st.sampled_from([Col("a"), Col("b"), Col("c"), Col("n")])
LITERALS = st.sampled_from([Lit(0), Lit(1), Lit(-1), Lit(3), Lit(2**40), Lit(2**63 - 1)])
NUMBERS: st.SearchStrategy[Any] = st.recursive(
    COLUMNS | COLUMNS | LITERALS,
    lambda inner: (
        st.builds(lambda op, x, y: Call(op, (x, y)), st.sampled_from(["add", "sub", "mul", "mul"]), inner, inner)
        | st.builds(lambda x: Call("neg", (x,)), inner)
    ),
    max_leaves=5,
)
WHOLE = NUMBERS.filter(lambda expr: "'n'" not in repr(expr))
DIVIDED = st.builds(
    lambda op, x, y: Call(op, (x, y)),
    st.sampled_from(["floordiv", "mod"]),
    COLUMNS,
    st.sampled_from([Lit(3), Lit(-2), Lit(0), Col("c")]),
)
COMPARED = st.builds(
    lambda op, x, y: Call(op, (x, y)), st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), NUMBERS, NUMBERS
)
CONDITIONS: st.SearchStrategy[Any] = st.recursive(
    COMPARED,
    lambda inner: (
        st.builds(lambda op, x, y: Call(op, (x, y)), st.sampled_from(["and", "or"]), inner, inner)
        | st.builds(lambda x: Call("not", (x,)), inner)
    ),
    max_leaves=3,
)
KEYS: st.SearchStrategy[Any] = st.sampled_from(
    [("int64", Col(name)) for name in "abcn"] + [("string", Col("s")), ("date", Col("d")), ("timestamp", Col("u")),
     ("int64", Lit(1)), ("bool", Call("lt", (Col("a"), Col("b")))), ("int128", Col("a"))]
) | st.tuples(st.just("int64"), DIVIDED)  # fmt: skip


@st.composite
def maps(draw: st.DrawFn) -> Map:
    keys = [Key(f"k{i}", kind, expr) for i, (kind, expr) in enumerate(draw(st.lists(KEYS, max_size=3)))]
    sums = [Sum(f"s{i}", expr) for i, expr in enumerate(draw(st.lists(WHOLE, max_size=3)))]
    return Map(0, "r", draw(st.none() | CONDITIONS), tuple(keys), tuple(sums))


def table_of(deltas: list[tuple[Row, int]], parts: int) -> pa.Table:
    """In several chunks, as the rows of several segments are."""
    table = delta_table(R, deltas)
    cuts = [len(deltas) * part // parts for part in range(parts + 1)]
    return pa.concat_tables([table.slice(begin, end - begin) for begin, end in pairwise(cuts)])


def preaggregate(map_: Map, deltas: pa.Table | RelationBatch) -> pa.Table:
    return preaggregated(map_, R, deltas)


def expected_of(map_: Map, deltas: list[tuple[Row, int]]) -> dict[Row, tuple[int, ...]]:
    """One row after the other, in Python's integers."""
    found: defaultdict[Row, list[int]] = defaultdict(lambda: [0] * (1 + len(map_.sums)))
    table = delta_table(R, deltas).to_pylist()
    for row, (values, weight) in zip(table, deltas, strict=True):
        named = dict(zip("abcnsdu", values, strict=True))
        if map_.where is not None and evaluate(map_.where, named) is not True:
            continue
        key = tuple(row[k.expr.name] if k.type in ("date", "timestamp") else value_of(k.expr, named)  # type: ignore[union-attr]
                    for k in map_.keys)  # fmt: skip
        for place, value in enumerate([1, *(value_of(total.expr, named) for total in map_.sums)]):
            found[key][place] += weight * value
    return {key: tuple(held) for key, held in found.items() if any(held)}


def value_of(expr: Expr, row: dict[str, Any]) -> Any:
    return evaluate(expr, row)


def check(map_: Map, deltas: list[tuple[Row, int]], parts: int) -> None:
    expected = expected_of(map_, deltas)
    try:
        whole = preaggregate(map_, table_of(deltas, parts))
        pieces = [preaggregate(map_, delta_table(R, deltas[part::parts])) for part in range(parts)]
    except ViewOverflowError:
        assert max((abs(value) for row in deltas for value in sums_of(map_, *row)), default=0) >= 2**115
        return
    except ViewError as error:
        if "expected int64 for key" in str(error) or "127 bits" in str(error):
            return  # a key that leaves int64, or a value that no decimal holds
        raise
    assert groups_of(map_, whole) == expected
    assert groups_of(map_, *pieces) == expected


def sums_of(map_: Map, row: Row, weight: int) -> list[int]:
    named = dict(zip("abcnsdu", row, strict=True))
    return [weight * value_of(total.expr, named) for total in map_.sums]


@pytest.mark.parametrize("size", SIZES)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_a_payload_is_what_adding_up_row_by_row_gives(size: str, data: st.DataObject) -> None:
    check(data.draw(maps()), data.draw(rows_of(SIZES[size])), data.draw(st.integers(1, 3)))


@pytest.mark.parametrize("spread", [1, 3, 50, 10**4, 10**9, 2**40, 2**62])
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_every_way_of_grouping_gives_the_same_groups(spread: int, keys: int) -> None:
    """From one group over arrays and sorted words up to keys too wide to be packed."""
    rng = np.random.default_rng(spread + keys)
    for rows in (1, 2, 700):
        pool = rng.integers(-spread, spread, (keys, 40), endpoint=True)
        columns = pool[:, rng.integers(0, 40, rows)]
        values = rng.integers(-(2**50), 2**50, rows)
        codes = [KeyCodes(part, int(part.min()), int(part.max()), None) for part in columns]
        groups = grouping(codes, rows)
        expected: defaultdict[Row, int] = defaultdict(int)
        for *key, value in zip(*columns.tolist(), values.tolist(), strict=True):
            expected[tuple(key)] += value
        found = dict(zip(zip(*(part.tolist() for part in groups.codes(None)), strict=True),
                         groups.total(values).tolist(), strict=True))  # fmt: skip
        assert {key: value for key, value in found.items() if value} == {k: v for k, v in expected.items() if v}
        assert set(expected) <= set(found)
        chosen = np.arange(0, groups.groups, 3)
        assert [part.tolist() for part in groups.codes(chosen)] == [
            part[chosen].tolist() for part in groups.codes(None)
        ]


def test_maps_of_a_relation_share_what_was_computed() -> None:
    batch = RelationBatch(delta_table(R, [((2, 3, 1, None, None, 0, 0), 1), ((2, 5, 1, None, None, 0, 0), 1)]))
    product = Call("mul", (Col("a"), Col("b")))
    by_a = Map(0, "r", None, (Key("a", "int64", Col("a")),), (Sum("x", product),))
    whole = Map(1, "r", None, (), (Sum("x", Call("mul", (Col("b"), Col("a")))),))
    by_c = Map(2, "r", None, (Key("c", "int64", Col("c")),), (Sum("x", product),))
    sums = [[held[1] for held in groups_of(m, preaggregate(m, batch)).values()] for m in (by_a, whole, by_c)]
    assert sums == [[16]] * 3


BY_B = Map(0, "r", None, (Key("b", "int64", Col("b")),), (Sum("x", Col("c")),))


def orders(rows: int, lives: int, seed: int) -> list[tuple[Row, int]]:
    """Orders come, change once in a while, and go again; their ids are in column a, times in b."""
    rng = np.random.default_rng(seed)
    live: list[Row] = []
    deltas: list[tuple[Row, int]] = []
    for place in range(rows):
        if len(live) >= lives:
            row = live.pop(int(rng.integers(len(live))))
            deltas.append((row, -1))
            if rng.random() < 0.2:
                live.append((*row[:2], row[2] + 1, *row[3:]))
                deltas.append((live[-1], 1))
        row = (place, place * 1000, int(rng.integers(9)), None if place % 3 else place, "xyz"[place % 3], 0, place)
        live.append(row)
        deltas.append((row, 1 if place % 50 else 2))
    return deltas


@pytest.mark.parametrize("lives", [1, 7, 60, 10**9])
@pytest.mark.parametrize("block", [16, 100, 10**6])
@pytest.mark.parametrize("seed", range(3))
def test_what_cancels_makes_no_difference(lives: int, block: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "_LEAST_ROWS", 1)
    monkeypatch.setattr(cancellation, "_BLOCK", block)
    monkeypatch.setattr(cancellation, "has_dense_keys", lambda map_, batch: False)
    nulls = Map(1, "r", None, (Key("n", "int64", Col("n")), Key("s", "string", Col("s"))), (Sum("x", Col("c")),))
    batch = RelationBatch(delta_table(R, orders(300, lives, seed)))
    for maps_ in ([BY_B], [nulls], [nulls, BY_B]):
        fewer = consolidated(batch, maps_)
        assert (fewer.rows < 0.6 * batch.rows) == (lives <= 60)
        for map_ in maps_:
            assert groups_of(map_, preaggregate(map_, fewer)) == groups_of(map_, preaggregate(map_, batch))


@settings(max_examples=200, deadline=None)
@given(rows_of(st.integers(0, 2)), st.sampled_from([2, 7, 100]))
def test_only_equal_rows_with_opposite_weights_cancel(deltas: list[tuple[Row, int]], block: int) -> None:
    """Whatever the order and the weights, what is left adds up to the same."""
    small = [((*row[:4], row[4], 0, 0), weight) for row, weight in deltas]
    map_ = Map(0, "r", None, tuple(Key(f"k{n}", "int64", Col(n)) for n in "abc"), ())
    batch = RelationBatch(delta_table(R, small))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_LEAST_ROWS": 1, "_BLOCK": block, "_WORTH": 0.0}.items():
            patch.setattr(cancellation, name, value)
        patch.setattr(cancellation, "has_dense_keys", lambda map_, batch: False)
        fewer = consolidated(batch, [map_])
    assert groups_of(map_, preaggregate(map_, fewer)) == groups_of(map_, preaggregate(map_, batch))


def test_small_keys_are_added_up_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "_LEAST_ROWS", 1)
    batch = RelationBatch(delta_table(R, orders(300, 7, 1)))
    assert consolidated(batch, [Map(0, "r", None, (Key("c", "int64", Col("c")),), ())]) is batch


def test_a_map_that_is_refused_does_not_disturb_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "_LEAST_ROWS", 1)
    batch = RelationBatch(delta_table(R, orders(300, 7, 1)))
    edge = Call("mul", (Call("add", (Col("b"), Lit(1))), Lit(2**62)))
    refused = Map(1, "r", None, (Key("k", "int64", edge),), ())
    assert consolidated(batch, [refused, BY_B]).rows < batch.rows
    with pytest.raises(ViewError, match="key k"):
        preaggregate(refused, batch)
