"""What each shard gets: spread maps by key, whole ones where their views live, and reasons in place of deltas."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from queries import QUERIES_DIR
from runtime.compiler import MARKET_RELATIONS, Column, NamedSelect, Program, Relation, compile_program, read_script
from runtime.engine.operators.evaluate import wide_array
from runtime.epochs import Segment
from runtime.plan import Col, ColumnType, Key, Map, only_view
from runtime.spark.beginning import wanted
from runtime.state import ARROW_TYPES
from runtime.views import Part, deliveries
from runtime.views.routing import (
    deliveries_of,
    is_spread,
    part_of,
    parts_of_map,
    payload_sources,
    shard_of,
    views_of_shard,
)
from tests.generators.deltas import Deltas, FakeSegment, Shards, delta_table, market_rows

R = Relation("r", (Column("a", "int64"), Column("b", "int64")))


def program(*selects: str) -> Program:
    return compile_program([NamedSelect(f"v{place}", sql) for place, sql in enumerate(selects)], [R])


def segment(of: Program, deltas: Deltas) -> Segment:
    return cast(Segment, FakeSegment(of.relations, deltas))


SPREAD = "SELECT a, SUM(b) AS x FROM r GROUP BY a"
GLOBAL = "SELECT SUM(b) AS x FROM r"
AGAIN = "SELECT MAX(b) AS x FROM r"


def test_a_part_survives_the_wire() -> None:
    for number in range(5):
        for whole in (False, True):
            assert Part.of_code(Part(number, whole).code) == Part(number, whole)


def test_sums_are_spread_if_all_of_them_have_keys() -> None:
    found = program(SPREAD, GLOBAL, AGAIN)
    assert [is_spread(found, view) for view in found.views] == [True, False, False]


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_shards_keep_exactly_what_they_are_sent(shards: int) -> None:
    live = [s for path in sorted(QUERIES_DIR.glob("*_*.sql")) if path.stem != "finance_schema"
            for s in read_script(path).selects]  # fmt: skip
    found = compile_program(live, MARKET_RELATIONS)
    for view in found.views:
        homes = [s for s in range(shards) if view in views_of_shard(found, s, shards)]
        assert homes == list(range(shards)) if is_spread(found, view) else len(homes) == 1
    for shard in range(shards):
        sent = {part for parts in parts_of_map(found, shards).values() for part, keepers in parts if shard in keepers}
        views = views_of_shard(found, shard, shards)
        kept = {part_of(found, view, number) for view in views for number in view.body.maps()}
        assert kept == sent


@pytest.mark.parametrize("shards", [2, 3, 4, 16])
@pytest.mark.parametrize("step", [0.25, 1, 2**40])
def test_keys_with_few_digits_are_in_all_shards(step: float, shards: int) -> None:
    """Floats with few digits, and multiples of powers of two, differ in their high bits alone."""
    key: ColumnType = "float64" if step < 2 else "int64"
    map_ = Map(0, "r", None, (Key("a", key, Col("a")),), ())
    rows = pa.table({"a": pa.array([step * number for number in range(4096)], ARROW_TYPES[key])})
    held = np.bincount(shard_of(map_, rows, shards), minlength=shards)
    assert held.min() > 0.7 * 4096 / shards
    assert held.max() < 1.3 * 4096 / shards


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_every_key_goes_to_one_shard_and_always_the_same(shards: int) -> None:
    found = compile_program(read_script(QUERIES_DIR / "book_depth.sql").selects, MARKET_RELATIONS)
    home: dict[tuple[object, ...], int] = {}
    rows = 0
    for deltas, _ in market_rows(1, versions=20):
        for delivery in deliveries(found, [segment(found, deltas)], shards):
            assert not isinstance(delivery.deltas, str)
            assert not delivery.part.whole
            keys = [key.name for key in found.maps[delivery.part.map].keys]
            for row in delivery.deltas.to_pylist():
                rows += 1
                key = (delivery.part.map, *(row[name] for name in keys))
                assert home.setdefault(key, delivery.shard) == delivery.shard
    assert rows > 50
    assert set(home.values()) == set(range(shards))


LINKED = ("best_quote", "imbalance", "broker_volume", "trades_1s")


@pytest.mark.parametrize("shards", [4, 5])
def test_all_maps_of_a_graph_send_a_symbol_to_one_shard(shards: int) -> None:
    found = compile_program(
        [select for name in LINKED for select in read_script(QUERIES_DIR / f"{name}.sql").selects], MARKET_RELATIONS
    )
    assert all(is_spread(found, view) for view in found.views)
    home: dict[str, int] = {}
    for deltas, _ in market_rows(2, versions=20):
        for delivery in deliveries(found, [segment(found, deltas)], shards):
            assert not isinstance(delivery.deltas, str)
            for symbol in delivery.deltas["symbol"].to_pylist():
                assert home.setdefault(symbol, delivery.shard) == delivery.shard
    assert len(set(home.values())) > 1


def test_what_the_shards_say_of_a_graph_of_operators_adds_up() -> None:
    found = compile_program(
        [select for name in LINKED for select in read_script(QUERIES_DIR / f"{name}.sql").selects], MARKET_RELATIONS
    )
    one, many = Shards(found, 1), Shards(found, 4)
    for number, (deltas, _) in enumerate(market_rows(3, versions=24)):
        assert one.step([deltas]) == many.step([deltas]) == {}
        if number % 8 == 7:
            one, many = one.restarted(from_base=True), many.restarted(from_base=number == 7)
        for view in found.views:
            assert one.result(view.name) == many.result(view.name), view.name
    assert all(one.result(view.name) for view in found.views)


def test_a_map_that_nothing_changed_is_not_sent() -> None:
    found = program(SPREAD, GLOBAL)
    assert list(deliveries(found, [segment(found, {})], 2)) == []
    assert list(deliveries(found, [segment(found, {"r": [((1, 2), 1), ((1, 2), -1)]})], 2)) == []


def test_impossible_deltas_become_a_reason_at_every_home() -> None:
    found = program("SELECT a, SUM(b * b * b) AS x FROM r GROUP BY a", "SELECT SUM(b * b * b) AS y FROM r", SPREAD)
    given = list(deliveries(found, [segment(found, {"r": [((1, 2**43), 1)]})], 3))
    reasons = {(d.shard, found.maps[d.part.map].sums != (), d.part.whole) for d in given if isinstance(d.deltas, str)}
    assert reasons == {(0, True, False), (1, True, False), (2, True, False), (1, True, True)}
    assert sum(not isinstance(d.deltas, str) for d in given) == 1


def test_tables_give_what_segments_of_them_give() -> None:
    found = program(SPREAD, GLOBAL, AGAIN)
    rows = [((place % 5, place), 1) for place in range(40)]
    expected = list(deliveries(found, [segment(found, {"r": rows[:15]}), segment(found, {"r": rows[15:]})], 3))
    given = deliveries_of(found, {"r": delta_table(R, rows), "unread": delta_table(R, rows)}, 3)
    assert [(d.shard, d.part) for d in given] == [(d.shard, d.part) for d in expected]
    for ours, theirs in zip(given, expected, strict=True):
        assert isinstance(ours.deltas, pa.Table)
        assert ours.deltas.equals(theirs.deltas)


def test_nothing_is_sent_of_no_rows() -> None:
    assert deliveries_of(program(SPREAD), {"r": delta_table(R, [])}, 2) == []


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


def test_a_keys_shard_changes_with_the_checkpoint_format_only() -> None:
    """Another place for a key would leave the old one's rows behind in every checkpoint that is read on."""
    by_k = Map(0, "r", None, (Key("k", "string", Col("k")),), ())
    found = shard_of(by_k, pa.table({"k": pa.array(["BTCUSD", "ETHUSD", "", None, "x"])}), 5)
    assert (wanted(Path(), 5).format, found.tolist()) == (3, [4, 1, 3, 2, 4])


def test_keys_are_spread() -> None:
    keys = Map(0, "r", None, (Key("k", "int64", Col("k")),), ())
    counts = [0] * 4
    for shard in shard_of(keys, pa.table({"k": pa.array(range(4000))}), 4).tolist():
        counts[shard] += 1
    assert min(counts) > 700


def test_a_subset_of_the_key_may_choose_the_shard() -> None:
    map_ = Map(0, "r", None, (Key("a", "int64", Col("a")), Key("b", "int64", Col("b"))), ())
    table = pa.table({"a": pa.array([1, 1, 2]), "b": pa.array([5, 6, 5])})
    by_a = Map(0, "r", None, (Key("a", "int64", Col("a")),), ())
    assert shard_of(map_, table, 7, ["a"]).tolist() == shard_of(by_a, table, 7).tolist()


def test_the_kernels_that_fill_a_new_view_are_known_beforehand() -> None:
    """Two views whose maps share a table are each filled alone: a worker would wait in vain for that kernel."""
    both = program(SPREAD, "SELECT a, SUM(b * b) AS y FROM r GROUP BY a")
    for view in both.views:
        alone, _ = only_view(both, view.name)
        assert set(payload_sources(alone)) < set(payload_sources(both))


def test_only_a_few_programs_are_kept_alive() -> None:
    """Every change of the catalogue makes some, for weeks."""
    gc.collect()
    before = alive_programs()
    for number in range(40):
        one = program(f"SELECT a, SUM(b) AS v{number} FROM r GROUP BY a")
        assert is_spread(one, one.views[0])
        assert payload_sources(one)
    del one
    gc.collect()
    assert alive_programs() - before <= 2 * 16


def alive_programs() -> int:
    return sum(isinstance(each, Program) for each in gc.get_objects())
