"""Deltas are added up per key, whatever the number of events; a map that fails leaves the others alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compiler import Call, Col, Column, Key, Lit, Map, Relation, Sum
from runtime.native import structures
from runtime.native.cache import KernelCache
from runtime.views import ViewError
from runtime.views import preaggregate as preaggregation
from runtime.views.preaggregate import Preaggregation
from runtime.views.rows import payload_schema
from tests.generators.deltas import Row, delta_table
from tests.generators.payloads import groups_of, payload_of, preaggregated

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
    with pytest.raises(ViewError, match="126 bits"):
        preaggregate(wide, delta_table(R, [(("a", 2**62), 5)]))


def test_a_refusal_leaves_nothing_for_the_next_version() -> None:
    maps = Preaggregation(R, [BY_K])
    refused = maps.payloads(delta_table(R, [(("a", 2**40), 1), (("b", 2**62), 5)]))
    assert "126 bits" in refused[0]
    assert totals(payload_of(maps.payloads(delta_table(R, [(("c", 2**40), 1)]))[0])) == {"c": (1, 2**80)}


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_map_that_fails_leaves_the_others_alone(kernels: KernelCache, is_compiled: bool) -> None:
    """Maps with the same keys share a table until one of them fails; what it was given is then added up again."""
    plain = Map(1, "r", None, BY_K.keys, (Sum("x", Col("v")),))
    whole = Map(2, "r", None, (), (Sum("x", Col("v")),))
    wide_key = Map(3, "r", None, (Key("k", "int64", Call("mul", (Col("v"), Col("v")))),), ())
    maps = Preaggregation(R, [BY_K, plain, whole, wide_key])
    assert len(maps.sources()) == 3 + 1
    assert not is_compiled or kernels.wait(maps.sources(), 120)
    for _ in range(2):
        found = maps.payloads(delta_table(R, [(("a", 2**62), 5), (("b", 1), 1)]), kernels if is_compiled else None)
        assert "126 bits" in found[0]
        assert totals(payload_of(found[1])) == {"a": (5, 5 * 2**62), "b": (1, 1)}
        assert totals(payload_of(found[2])) == {None: (6, 5 * 2**62 + 1)}
        assert "64" in found[3]
    found = maps.payloads(delta_table(R, [(("a", 3), 1)]), kernels if is_compiled else None)
    assert [totals(payload_of(found[number])) for number in (0, 1)] == [{"a": (1, 9)}, {"a": (1, 3)}]


def test_maps_with_the_same_keys_share_a_table_and_no_rows() -> None:
    """A key is in a payload only if the map's own numbers change."""
    square, plain = BY_K, Map(1, "r", None, BY_K.keys, (Sum("y", Col("v")),))
    maps = Preaggregation(R, [square, plain])
    assert len(maps.sources()) == 1 + 1
    rows = [(("a", 2), 1), (("a", -2), -1), (("b", 3), 1), (("c", 1), 1), (("c", 1), -1)]
    found = maps.payloads(delta_table(R, rows))
    assert totals(payload_of(found[0])) == {"b": (1, 9)}
    assert payload_of(found[1]).to_pylist() == [{"k": "a", "weight": 0, "y": 4}, {"k": "b", "weight": 1, "y": 3}]


def test_a_null_in_a_required_field_fails_all_maps() -> None:
    maps = Preaggregation(R, [BY_K, msgspec.structs.replace(CUBES, id=1)])
    deltas = pa.table({"k": ["a"], "v": pa.array([None], pa.int64()), "weight": [1]})
    found = maps.payloads(deltas)
    assert all("no NULL in column v" in reason for reason in found.values())
    assert totals(payload_of(maps.payloads(delta_table(R, [(("a", 2), 1)]))[0])) == {"a": (1, 4)}


def test_a_compiled_kernel_adds_up_the_same_in_the_same_order(kernels: KernelCache) -> None:
    rows = [((key, 2**40 + number), number % 3 - 1) for number in range(50) for key in ("a", None, "b")]
    deltas, maps = delta_table(R, rows), Preaggregation(R, [BY_K])
    assert kernels.wait(maps.sources(), 120)
    for _ in range(2):
        found = payload_of(maps.payloads(deltas, kernels)[0])
        assert found.equals(preaggregate(BY_K, deltas))


@pytest.mark.parametrize("kept_records", [1, 4, 1 << 15])
def test_the_order_of_rows_follows_from_that_of_the_deltas(kept_records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from the versions before: a partition that is read again by another worker gives the same payload."""
    monkeypatch.setattr(preaggregation, "_KEPT_RECORDS", kept_records)
    monkeypatch.setattr(structures, "_SMALL", 1)
    rng = np.random.default_rng(kept_records)
    versions = [
        delta_table(R, [((f"{key}", int(key)), int(weight)) for key, weight in zip(*part, strict=True)])
        for part in rng.integers(-3, 4, (6, 2, 30))
    ]
    maps = Preaggregation(R, [BY_K])
    for deltas in versions:
        assert payload_of(maps.payloads(deltas)[0]).equals(preaggregate(BY_K, deltas))


def test_strings_are_forgotten_before_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preaggregation, "_KEPT_STRINGS", 2)
    where = Call("lt", (Col("k"), Lit("c")))
    maps = Preaggregation(R, [Map(0, "r", where, BY_K.keys, BY_K.sums)])
    for keys in ("abcd", "dcba", "xa", "ab"):
        found = totals(payload_of(maps.payloads(delta_table(R, [((key, 3), 1) for key in keys]))[0]))
        assert found == {key: (1, 9) for key in keys if key < "c"}


def test_a_key_that_does_not_fit_is_refused() -> None:
    wide = Map(0, "r", None, (Key("k", "int64", Call("mul", (Col("v"), Col("v")))),), ())
    with pytest.raises(ViewError, match="64 in columns of that size"):
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


def test_a_sum_is_wide_only_where_it_has_to_be() -> None:
    narrow = preaggregate(BY_K, delta_table(R, [(("a", -3), 1), (("a", 2**31), -1)]))
    assert narrow.schema.equals(payload_schema(BY_K))
    wide = preaggregate(BY_K, delta_table(R, [(("a", 2**40), 1), (("b", -1), -1)]))
    assert wide.schema.equals(payload_schema(BY_K, ["x"]))
    assert groups_of(BY_K, narrow, wide) == {("a",): (1, 2**80 + 9 - 2**62), ("b",): (-1, -1)}
