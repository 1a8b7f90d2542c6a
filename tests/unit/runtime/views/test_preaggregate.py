"""Deltas are added up per key, whatever the number of events, and every key belongs to one shard for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compiler import Call, Col, Column, Key, Lit, Map, Relation, Sum
from runtime.native.cache import KernelCache
from runtime.state import ARROW_TYPES
from runtime.views import ViewError, ViewOverflowError
from runtime.views.evaluate import wide_array
from runtime.views.payload import payload_schema
from runtime.views.preaggregate import Preaggregation, shard_of
from runtime.views.relationbatch import RelationBatch
from tests.generators.deltas import Row, delta_table
from tests.generators.payloads import groups_of, preaggregated

R = Relation("r", (Column("k", "string", nullable=True), Column("v", "int64")))
BY_K = Map(0, "r", None, (Key("k", "string", Col("k")),), (Sum("x", Call("mul", (Col("v"), Col("v")))),))
CUBES = Map(0, "r", None, (), (Sum("x", Call("mul", (Col("v"), Call("mul", (Col("v"), Lit(2**29)))))),))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelCache]:
    kernels = KernelCache(tmp_path_factory.mktemp("kernels"))
    yield kernels
    kernels.close()


def preaggregate(map_: Map, deltas: pa.Table) -> pa.Table:
    return preaggregated(map_, R, deltas)


def totals(deltas: pa.Table) -> dict[Any, tuple[int, int]]:
    """Key → weight and sum."""
    rows = deltas.to_pylist()
    return {row.get("k"): (row["weight"], int(row["x"])) for row in rows}


@given(
    st.lists(st.tuples(st.tuples(st.sampled_from(["a", "b", "", None]), st.integers(-(2**40), 2**40)),
                       st.sampled_from([1, -1, 3])), max_size=20),
    st.integers(1, 4),
)  # fmt: skip
def test_parts_combine_to_the_whole(deltas: list[tuple[Row, int]], parts: int) -> None:
    expected: dict[Any, tuple[int, int]] = {}
    for (key, value), weight in deltas:
        held = expected.get(key, (0, 0))
        expected[key] = held[0] + weight, held[1] + weight * value * value
    expected = {key: held for key, held in expected.items() if held != (0, 0)}
    whole = preaggregate(BY_K, delta_table(R, deltas))
    assert whole.schema.names == payload_schema(BY_K).names
    assert totals(whole) == expected
    pieces = [preaggregate(BY_K, delta_table(R, deltas[place::parts])) for place in range(parts)]
    assert groups_of(BY_K, *pieces) == {(key,): held for key, held in expected.items()}


@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_a_sum_of_a_key_takes_its_value_and_not_its_number(op: Any) -> None:
    """A quotient of what may be negative is a key that is only known by the numbers of its values."""
    key = Call(op, (Col("v"), Lit(10)))
    by_key = Map(0, "r", None, (Key("k", "int64", key),), (Sum("x", Call("mul", (key, Col("v")))),))
    found = preaggregate(by_key, delta_table(R, [(("a", -35), 1), (("b", 42), 1), (("c", -7), 2)]))
    of_key = {"floordiv": {-3: (1, 105), 4: (1, 168), 0: (2, 0)}, "mod": {-5: (1, 175), 2: (1, 84), -7: (2, 98)}}
    assert totals(found) == of_key[op]


def test_a_constant_remainder_is_a_key() -> None:
    by_constant = Map(0, "r", None, (Key("k", "int64", Call("mod", (Lit(10), Lit(7)))),), (Sum("x", Col("v")),))
    assert totals(preaggregate(by_constant, delta_table(R, [(("a", 5), 1), (("b", 6), 2)]))) == {3: (3, 17)}


def test_an_insertion_and_its_deletion_leave_nothing() -> None:
    assert preaggregate(BY_K, delta_table(R, [(("a", 5), 1), (("a", 5), -1)])).num_rows == 0


def test_only_rows_that_the_condition_is_true_for_count() -> None:
    chosen = Map(0, "r", Call("gt", (Col("v"), Lit(1))), BY_K.keys, BY_K.sums)
    assert totals(preaggregate(chosen, delta_table(R, [(("a", 1), 1), (("b", 2), 1)]))) == {"b": (1, 4)}


def test_summands_past_64_bits_are_added_up_without_a_wrap() -> None:
    rows = [(("a", 2**31), 1)] * 7 + [(("a", 2**31), -1)] * 4
    assert totals(preaggregate(CUBES, delta_table(R, rows))) == {None: (3, 3 * 2**91)}


def test_a_sum_past_126_bits_is_refused() -> None:
    squares = Call("mul", (Col("v"), Col("v")))
    wide = Map(0, "r", None, (), (Sum("x", squares),))
    assert totals(preaggregate(wide, delta_table(R, [(("a", -(2**62)), 3)]))) == {None: (3, 3 * 2**124)}
    with pytest.raises(ViewOverflowError, match="126 bits"):
        preaggregate(wide, delta_table(R, [(("a", 2**62), 5)]))


def test_a_refusal_leaves_nothing_for_the_next_version() -> None:
    map_ = Preaggregation(Map(0, "r", None, BY_K.keys, (Sum("x", Call("mul", (Col("v"), Col("v")))),)), R)
    with pytest.raises(ViewOverflowError):
        map_.payload(RelationBatch(delta_table(R, [(("a", 2**40), 1), (("b", 2**62), 5)])))
    assert totals(map_.payload(RelationBatch(delta_table(R, [(("c", 2**40), 1)])))) == {"c": (1, 2**80)}


def test_a_compiled_kernel_adds_up_the_same(kernels: KernelCache) -> None:
    rows = [((key, 2**40 + number), number % 3 - 1) for number in range(50) for key in ("a", None, "b")]
    deltas, map_ = delta_table(R, rows), Preaggregation(BY_K, R)
    assert kernels.wait([map_.totals.source], 120)
    found = map_.payload(RelationBatch(deltas), kernels)
    assert groups_of(BY_K, found) == groups_of(BY_K, preaggregate(BY_K, deltas))


def test_a_key_that_does_not_fit_is_refused() -> None:
    wide = Map(0, "r", None, (Key("k", "int64", Call("mul", (Col("v"), Col("v")))),), ())
    with pytest.raises(ViewError, match="expected int64 for key k"):
        preaggregate(wide, delta_table(R, [(("a", 2**40), 1)]))


def test_a_relation_may_have_a_column_called_weight() -> None:
    relation = Relation("r", (Column("k", "string"), Column("weight", "int64")))
    map_ = Map(0, "r", None, (Key("k", "string", Col("k")),), (Sum("x", Col("weight")),))
    for number in (7, 2**61):
        deltas = delta_table(relation, [(("a", number), 1), (("a", 2 * number), 3)])
        assert totals(preaggregated(map_, relation, deltas)) == {"a": (4, 7 * number)}


def test_equal_floats_are_one_key() -> None:
    relation = Relation("r", (Column("k", "float64"), Column("v", "int64")))
    map_ = Map(0, "r", None, (Key("k", "float64", Col("k")),), ())
    nans = pa.array([float("nan"), 0.0, -0.0]).to_pylist()
    deltas = preaggregated(map_, relation, delta_table(relation, [((k, 1), 1) for k in [*nans, float("nan")]]))
    assert sorted(deltas["weight"].to_pylist()) == [2, 2]


@pytest.mark.parametrize("kind", ["int64", "int128", "float64", "string", "bool", "date", "timestamp"])
def test_every_type_of_key_has_a_shard(kind: Any) -> None:
    map_ = Map(0, "r", None, (Key("k", kind, Col("k")),), ())
    plain = pa.array([0, 1, None, 5])
    array = {
        "int128": lambda: wide_array([0, 1, None, 2**100]),
        "string": lambda: pa.array(["", "a", None, "ä"]),
        "bool": lambda: pa.array([False, True, None, True]),
        "date": lambda: plain.cast(pa.int32()).cast(pa.date32()),
    }.get(kind, lambda: plain.cast(ARROW_TYPES[kind]))()
    table = pa.table({"k": array})
    found = shard_of(map_, table, 3)
    assert ((found >= 0) & (found < 3)).all()
    assert shard_of(map_, table.slice(2), 3).tolist() == found[2:].tolist()


def test_the_shard_of_a_key_never_changes() -> None:
    """Another place for a key would leave the old one's rows behind in every checkpoint."""
    found = shard_of(BY_K, pa.table({"k": pa.array(["BTCUSD", "ETHUSD", "", None, "x"])}), 5)
    assert found.tolist() == [1, 3, 0, 1, 0]


def test_keys_are_spread() -> None:
    keys = Map(0, "r", None, (Key("k", "int64", Col("k")),), ())
    counts = [0] * 4
    for shard in shard_of(keys, pa.table({"k": pa.array(range(4000))}), 4).tolist():
        counts[shard] += 1
    assert min(counts) > 700


def test_a_sum_is_wide_only_where_it_has_to_be() -> None:
    narrow = preaggregate(BY_K, delta_table(R, [(("a", -3), 1), (("a", 2**31), -1)]))
    assert narrow.schema.equals(payload_schema(BY_K))
    wide = preaggregate(BY_K, delta_table(R, [(("a", 2**40), 1), (("b", -1), -1)]))
    assert wide.schema.equals(payload_schema(BY_K, ["x"]))
    assert groups_of(BY_K, narrow, wide) == {("a",): (1, 2**80 + 9 - 2**62), ("b",): (-1, -1)}


def test_a_subset_of_the_key_may_choose_the_shard() -> None:
    map_ = Map(0, "r", None, (Key("a", "int64", Col("a")), Key("b", "int64", Col("b"))), ())
    table = pa.table({"a": pa.array([1, 1, 2]), "b": pa.array([5, 6, 5])})
    by_a = Map(0, "r", None, (Key("a", "int64", Col("a")),), ())
    assert shard_of(map_, table, 7, ["a"]).tolist() == shard_of(by_a, table, 7).tolist()
