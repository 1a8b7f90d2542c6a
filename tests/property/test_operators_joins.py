"""Joins give what DuckDB does of each epoch by itself, however rows are cut into batches and epochs."""

from __future__ import annotations

import itertools
from random import Random

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.operators import AsofJoin, MergeJoin, Stream, Task, scan
from runtime.engine.operators.columns import canonical, concat
from runtime.engine.operators.joins.merge import JOIN_KINDS, JoinKind
from tests.generators.operator_lab import SCHEMA, by_epoch, from_scratch, random_rows, rows_of, slices, sorted_rows

RANDOMS = st.randoms(use_true_random=False)
KEYS = st.sampled_from([["k"], ["s"], ["f"], ["k", "s"], ["s", "f", "k"]])


def side(prefix: str, *order: str) -> Stream:
    fields = [pa.field(prefix + field.name, field.type) for field in SCHEMA]
    return scan(f"{prefix}rows", pa.schema(fields), order=[prefix + key for key in order])


@settings(max_examples=50)
@given(RANDOMS, st.sampled_from(JOIN_KINDS), KEYS, st.booleans(), st.integers(1, 9), st.integers(1, 3))
def test_merge_join(
    random: Random, kind: JoinKind, keys: list[str], is_sorted: bool, most_rows: int, instances: int
) -> None:
    order = keys if is_sorted else []
    left, right = side("l", *order).bounded(most_rows=most_rows), side("r", *order)
    on = [("l" + key, "r" + key) for key in keys]
    if instances > 1:
        left = left.exchange(*(one for one, _ in on), instances=instances)
        right = right.exchange(*(other for _, other in on), instances=instances)
    plan = left.join(right, on, kind)
    epochs = [{"lrows": random_rows(random, 20, "l"), "rrows": random_rows(random, 20, "r")} for _ in range(3)]
    if is_sorted:
        epochs = [
            {name: sorted_rows(batch, *(name[0] + key for key in keys)) for name, batch in epoch.items()}
            for epoch in epochs
        ]
    text = " AND ".join(f"{one} = {other}" for one, other in on)
    expected = [from_scratch(f"SELECT * FROM lrows {kind} JOIN rrows ON {text}", epoch) for epoch in epochs]
    assert by_epoch(random, plan, epochs) == expected


@settings(max_examples=50)
@given(RANDOMS, st.sampled_from(JOIN_KINDS), KEYS, st.integers(0, 12), st.integers(1, 5))
def test_merge_join_whose_sides_come_and_are_drained_in_any_order(
    random: Random, kind: JoinKind, keys: list[str], least_rows: int, most_rows: int
) -> None:
    schemas = [canonical(random_rows(random, 0, prefix).schema) for prefix in "lr"]
    join = MergeJoin(kind, schemas[0], schemas[1], ["l" + key for key in keys], ["r" + key for key in keys],
                     least_rows=least_rows, most_rows=most_rows)  # fmt: skip
    text = " AND ".join(f"l{key} = r{key}" for key in keys)
    for _ in range(2):
        tables = [sorted_rows(random_rows(random, 20, prefix), *(prefix + key for key in keys)) for prefix in "lr"]
        found: list[pa.RecordBatch] = []
        waiting = [slices(random, table) for table in tables]
        while waiting[0] or waiting[1]:
            port = random.choice([port for port in (0, 1) if waiting[port]])
            found += join.add_input(waiting[port].pop(0), port)
            if not waiting[port]:
                found += join.drain_input(port)
        found += join.start_drain()
        assert all(1 <= batch.num_rows <= most_rows for batch in found)
        assert join.held_rows() == 0
        expected = from_scratch(f"SELECT * FROM l {kind} JOIN r ON {text}", dict(zip("lr", tables, strict=True)))
        assert rows_of(found) == expected
        if kind != "full" and found:  # in the order of the keys of the side that leads
            lead = "r" if kind == "right" else "l"
            made = concat(found, join.schema)
            assert made.equals(sorted_rows(made, *(lead + key for key in keys)))


def timed(random: Random, prefix: str, *, unique: bool) -> pa.RecordBatch:
    """Rows with a time ``t``, ascending; a time has one row per ``s`` where that is asked for."""
    rows = random_rows(random, 20, prefix)
    times = sorted(random.sample(range(40), rows.num_rows) if unique else random.choices(range(40), k=rows.num_rows))
    return pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), *rows.columns],
                                      names=[prefix + "t", *rows.schema.names])  # fmt: skip


@settings(max_examples=50)
@given(RANDOMS, st.sampled_from([[], ["s"], ["s", "k"], ["f"]]), st.booleans(), st.none() | st.integers(0, 12))
def test_asof_join(random: Random, by: list[str], is_outer: bool, tolerance: int | None) -> None:
    plans = []
    for prefix in "lr":
        schema = timed(Random(1), prefix, unique=True).schema
        plans.append(scan(f"{prefix}rows", schema, order=[f"{prefix}t"]).bounded(most_rows=random.randint(1, 5)))
    pairs = [("l" + key, "r" + key) for key in by]
    plan = plans[0].asof_join(plans[1], ("lt", "rt"), pairs, outer=is_outer, tolerance=tolerance)
    epochs = [{"lrows": timed(random, "l", unique=False), "rrows": timed(random, "r", unique=True)} for _ in range(3)]
    text = " AND ".join(["lt >= rt", *(f"{one} = {other}" for one, other in pairs)])
    within = "" if tolerance is None else f"WHERE lt - rt <= {tolerance}"
    names = ", ".join(plans[1].schema.names)
    matches = f"SELECT lrows.lv AS id, {names} FROM lrows ASOF JOIN rrows ON {text} {within}"
    joined = f"SELECT lrows.*, {names} FROM lrows {'LEFT' if is_outer else ''} JOIN ({matches}) ON id = lrows.lv"
    assert by_epoch(random, plan, epochs) == [from_scratch(joined, epoch) for epoch in epochs]


@settings(max_examples=25)
@given(RANDOMS, st.booleans())
def test_asof_join_that_keeps_is_one_over_all_epochs(random: Random, has_key: bool) -> None:
    tables = [sorted_rows(timed(random, prefix, unique=prefix == "r"), prefix + "t") for prefix in "lr"]
    plans = [
        scan(f"{prefix}rows", table.schema, order=[f"{prefix}t"]) for prefix, table in zip("lr", tables, strict=True)
    ]
    plan = (
        plans[0]
        .project("lt", "ls", "lv")
        .asof_join(plans[1].project("rt", "rs", "rv"), ("lt", "rt"), [("ls", "rs")] if has_key else [], keep=True)
    )
    cuts = [0, *sorted(random.choices(range(40), k=2)), 40]
    task, found = Task(plan), []
    for begin, end in itertools.pairwise(cuts):
        for prefix, table in zip("lr", tables, strict=True):
            times = table.column(f"{prefix}t").to_pylist()
            rows = [row for row, time in enumerate(times) if begin <= time < end]
            task.add_input(f"{prefix}rows", table.take(pa.array(rows, pa.int64())))
        found += task.drain()
    text = "lt >= rt" + (" AND ls = rs" if has_key else "")
    expected = from_scratch(f"SELECT lt, ls, lv, rt, rs, rv FROM lrows ASOF JOIN rrows ON {text}",
                            {"lrows": tables[0], "rrows": tables[1]})  # fmt: skip
    assert rows_of(found) == expected


def test_asof_join_takes_the_last_of_rows_at_the_same_time() -> None:
    left = pa.record_batch({"t": [5]})
    right = pa.record_batch({"u": [1, 5, 5], "v": [1, 2, 3]})
    join = AsofJoin(left.schema, right.schema, ("t", "u"))
    assert [*join.add_input(right, 1), *join.add_input(left, 0)] == []
    assert rows_of(join.start_drain()) == [(5, 5, 3)]
