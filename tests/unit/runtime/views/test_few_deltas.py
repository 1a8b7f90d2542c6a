"""Few deltas, which are taken in row by row, change the views as the same deltas added up do."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from queries import query_path
from runtime.compiler import MARKET_RELATIONS, NamedSelect, Program, compile_program, maps_of, read_script
from runtime.views import ShardState, deliveries_of
from runtime.views.payload import PlainPayload

_BIDS, _ASKS = (relation.name for relation in MARKET_RELATIONS[:2])
_COLUMNS = ("t", "order_id", "broker_id", "volume", "price")
_MEMBERS = """SELECT b.t, a.volume, COUNT(*) AS n, SUM(b.volume * a.volume) AS v FROM bids b, asks a
WHERE b.broker_id = a.broker_id GROUP BY b.t, a.volume"""


def _program() -> Program:
    finance = ("axf", "bsp", "bsv", "mst", "psp", "vwap", "imbalance")
    selects = [NamedSelect(name, read_script(query_path(name)).selects[0].sql) for name in finance]
    selects.append(NamedSelect("members", _MEMBERS))
    selects.append(NamedSelect("groups", "SELECT price, COUNT(*) AS n FROM bids GROUP BY price"))
    return compile_program(selects, MARKET_RELATIONS)


def _table(chance: random.Random, held: list[tuple[int | None, ...]], far: int) -> pa.Table:
    rows: list[tuple[int | None, ...]] = []
    weights = []
    for _ in range(chance.randint(1, 12)):
        if held and chance.random() < 0.4:
            rows.append(held.pop(chance.randrange(len(held))))
            weights.append(-1)
        else:
            broker = None if chance.random() < 0.1 else chance.randint(0, 3)
            price = chance.randint(95, 105) * (far if chance.random() < 0.1 else 100)
            rows.append((chance.randint(0, 6), chance.randint(0, 99), broker, chance.randint(1, 4), price))
            weights.append(1)
            held.append(rows[-1])
    columns = [pa.array(values, pa.int64()) for values in zip(*rows, strict=True)]
    return pa.Table.from_arrays(
        [*columns, pa.array(["X"] * len(rows)), pa.array(weights)], names=[*_COLUMNS, "symbol", "weight"]
    )


@pytest.mark.parametrize("far", [100, 2**40, 2**55])
@pytest.mark.parametrize("seed", range(3))
def test_few_deltas_change_the_views_as_added_up_ones_do(seed: int, far: int) -> None:
    chance = random.Random(seed)
    program = _program()
    few, added_up = ShardState(program, 0, 1), ShardState(program, 0, 1)
    held: dict[str, list[tuple[int | None, ...]]] = {_BIDS: [], _ASKS: []}
    by_row = 0
    for step in range(25):
        tables = {name: _table(chance, rows, far) for name, rows in held.items() if chance.random() < 0.8}
        given = deliveries_of(program, tables, 1, few=True)
        by_row += sum(isinstance(one.payload, PlainPayload) and one.payload.repeats for one in given)
        found = few.step([(one.part, one.payload) for one in given])
        expected = added_up.step([(one.part, one.payload) for one in deliveries_of(program, tables, 1)])
        assert found.failed == expected.failed
        assert _rows(found.changes) == _rows(expected.changes)
        if step == 12:  # what is saved is the same too
            again = ShardState(program, 0, 1)
            again.apply_run(few.save_all())
            few = again
    assert by_row


def test_maps_that_are_kept_by_key_are_added_up() -> None:
    chance, program = random.Random(1), _program()
    kept = {number for view in program.views if view.name == "groups" for number in maps_of(view.body)}
    for one in deliveries_of(program, {_BIDS: _table(chance, [], 100)}, 1, few=True):
        repeats = isinstance(one.payload, PlainPayload) and one.payload.repeats
        assert not (repeats and one.part.map in kept)


def _rows(changes: dict[str, pa.Table]) -> dict[str, Counter[tuple[object, ...]]]:
    found: dict[str, Counter[tuple[object, ...]]] = {}
    for name, table in changes.items():
        counts: Counter[tuple[object, ...]] = Counter()
        for *row, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
            counts[tuple(row)] += weight
        found[name] = Counter({row: count for row, count in counts.items() if count})
    return found
