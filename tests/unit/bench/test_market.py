"""The generated market is one, and the programs that are timed on it say the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from bench.views.cases import BROKER_SUM, CASES, Case
from bench.views.hosted import check
from bench.views.market import BROKERS, LEVELS, LOWEST, SIDES, Market
from bench.views.polars_frames import PolarsFrames
from bench.views.scratch import FromScratch

SIZES = (1, 1, 1, 2, 3, 10, 1, 500, 7, 1000, 0, 1)
ORDERS = 50


def rows(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_every_removal_is_of_a_live_order() -> None:
    market = Market(ORDERS)
    held: dict[str, Counter[tuple[int, ...]]] = {side: Counter() for side in SIDES}
    for size in (-1, *SIZES):
        batch = market.batch(size) if size >= 0 else market.first()
        assert size < 0 or sum(table.num_rows for table in batch.values()) == size
        for side, table in batch.items():
            for *row, weight in rows(table):
                held[side][tuple(row)] += weight
                assert held[side][tuple(row)] in (0, 1)
        for side, table in market.live().items():
            assert Counter(rows(table)) == +held[side]
            assert table.num_rows in (ORDERS - 1, ORDERS)


def test_times_grow_ids_differ_and_prices_stay_on_their_side() -> None:
    market = Market(ORDERS)
    inserted: list[tuple[int, ...]] = []
    for batch in (market.first(), market.batch(1000)):
        for side, table in batch.items():
            added = [row for row in rows(table) if row[-1] > 0]
            assert [row[0] for row in added] == sorted({row[0] for row in added})
            assert all(LOWEST[side] <= row[4] < LOWEST[side] + LEVELS and 0 <= row[2] < BROKERS for row in added)
            inserted += added
    assert len({row[1] for row in inserted}) == len(inserted)


@pytest.mark.parametrize("case", [BROKER_SUM, *CASES.values()], ids=lambda case: case.name)
def test_program_numpy_and_duckdb_agree_after_every_batch(case: Case) -> None:
    check(case, 500)


@pytest.mark.parametrize("case", [BROKER_SUM, *CASES.values()], ids=lambda case: case.name)
def test_polars_and_duckdb_agree_where_prices_overlap(case: Case) -> None:
    """The market's bids are all below its asks; what the expressions say of other rows is not timed, but right."""
    chance = np.random.default_rng(5)
    rows: dict[str, pa.Table] = {}
    for side in SIDES:
        columns = {"t": np.arange(300), "id": np.arange(300)}
        for name, most in (("broker_id", 4), ("volume", 90), ("price", 4000)):
            columns[name] = chance.integers(1, most, 300)
        rows[side] = pa.table(columns)
    with FromScratch(case, rows) as scratch:
        assert PolarsFrames(case.name, rows).answer() == scratch.answer()
