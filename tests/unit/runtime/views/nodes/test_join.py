"""A join multiplies rows by the values that they look up, or recomputes groups, and its result is what the SQL says."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest

from queries import query_path
from runtime.compiler import Column, NamedSelect, Relation, read_script
from runtime.native.cache import KernelCache
from runtime.native.library import ahead
from runtime.plan import Joined
from runtime.views.errors import ViewOverflowError
from runtime.views.nodes.range_pass import can_pass
from runtime.views.nodes.range_sweep import sweep_plan
from tests.generators.factored import FactoredState
from tests.generators.joins import ROW_WORK, JoinLab, row_work, short_room
from tests.generators.programs import Row, normal
from tests.unit.runtime.compiler.test_factored import JOINS, MODES, Mode, compiled, streams
from tests.unit.runtime.compiler.test_factored import RELATIONS as CORPUS

Rows = list[tuple[Row, int]]

R = Relation("r", (Column("g", "int64"), Column("k", "int64"), Column("v", "int64")))
Q = Relation("q", (Column("g", "int64"), Column("k", "int64"), Column("v", "int64")))
N = Relation("n", (Column("g", "int64", nullable=True), Column("k", "int64", nullable=True), Column("v", "int64")))
BETWEEN_TWO = (
    "SELECT r.g, SUM(r.v * q.v) AS x, SUM(r.v - 2 * q.v) AS y, COUNT(*) AS c FROM r, q "
    "WHERE r.g = q.g AND (r.k > q.k + 10 OR q.k >= r.k + 10) GROUP BY r.g"
)
WITH_ITSELF = "SELECT x.g, SUM(x.v - y.v) AS d, COUNT(*) AS c FROM r x, r y WHERE x.g = y.g AND x.k {} y.k GROUP BY x.g"


def rows_of(lab: JoinLab) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for row, number in lab.result.items():
        found[normal(row)] += number
    return found


def market(rng: random.Random, held: list[Row], size: int, spread: int, scale: int = 1) -> Rows:
    """Deltas: rows that are there go, others come; no row is there less than no times."""
    deltas: Rows = []
    for _ in range(size):
        if held and rng.random() < 0.45:
            deltas.append((held.pop(rng.randrange(len(held))), -1))
        else:
            held.append((rng.randint(0, 3), scale * rng.randint(0, spread), rng.randint(1, 9)))
            deltas.append((held[-1], 1))
    return deltas


@pytest.mark.parametrize("is_short", [False, True], ids=["roomy", "short"])
@pytest.mark.parametrize("work", ROW_WORK)
@pytest.mark.parametrize("mode", MODES)
def test_the_corpus_equals_an_obvious_interpreter(mode: Mode, work: int, is_short: bool) -> None:
    for sql in JOINS:
        program, _ = compiled(NamedSelect("v", sql), CORPUS, mode)
        with row_work(work), short_room() if is_short else nullcontext():
            lab = JoinLab(sql, program=program)
            state = FactoredState(program, program.views[0])
            for step in streams(program.relations, random.Random(sql), 3):
                assert lab.step(step["deltas"]) == {}
                state.step(step["deltas"])
                lab.check()
                assert rows_of(lab) == state.rows(), sql
                if sum(map(len, step["data"].values())) % 3 == 0:
                    lab.restart()


@pytest.mark.parametrize("sql", JOINS)
def test_nothing_is_held_once_all_rows_are_gone(sql: str) -> None:
    program, _ = compiled(NamedSelect("v", sql), CORPUS)
    lab = JoinLab(sql, program=program)
    live: dict[str, Counter[Row]] = {relation.name: Counter() for relation in CORPUS}
    for step in streams(program.relations, random.Random(sql), 3):
        lab.step(step["deltas"])
        for relation, deltas in step["deltas"].items():
            for row, weight in deltas:
                live[relation][row] += weight
    lab.step({relation: [(row, -number) for row, number in rows.items()] for relation, rows in live.items()})
    lab.check()
    keyless = {identity for identity, held in lab.structures.items() if not getattr(held, "key_words", 1)}
    assert {identity for identity, number in lab.records().items() if number} <= keyless


# --- fan-out


def test_a_row_is_multiplied_with_each_match_once() -> None:
    """The kernel stops within the matches of a row, and goes on at the next one."""
    sql = "SELECT q.k, SUM(r.v) AS x FROM r, q WHERE r.g = q.g GROUP BY q.k"
    with short_room():
        lab = JoinLab(sql, relations=(R, Q))
    lab.step({"q": [((1, number, 0), 1) for number in range(40)]})
    lab.step({"r": [((1, 0, 5), 2), ((1, 0, 7), 1)]})
    assert lab.result == Counter({(number, 17): 1 for number in range(40)})
    lab.step({"r": [((1, 0, 5), -2)], "q": [((1, 3, 0), -1)]})
    assert lab.result == Counter({(number, 7): 1 for number in range(40) if number != 3})
    lab.check()


def test_matches_of_an_auxiliary_map_are_found() -> None:
    sql = "SELECT q.k, COUNT(*) AS c FROM r, q, n WHERE r.g = q.g AND q.v = n.v GROUP BY q.k"
    with short_room():
        lab = JoinLab(sql, relations=(R, Q, N))
    lab.step({"q": [((1, number % 5, number % 3), 1) for number in range(30)], "n": [((None, None, 1), 2)]})
    lab.step({"r": [((1, 9, 9), 3)]})
    assert lab.result == Counter({(key, 12): 1 for key in range(5)})
    lab.restart()
    lab.step({"n": [((None, None, 1), -1), ((None, 4, 2), 1)]})
    assert lab.result == Counter({(key, 12): 1 for key in range(5)})


def test_null_equals_nothing_but_is_a_group() -> None:
    sql = "SELECT n.k, SUM(n.v * q.v) AS x FROM n, q WHERE n.g = q.g GROUP BY n.k"
    lab = JoinLab(sql, relations=(N, Q))
    lab.step({"n": [((None, 1, 3), 1), ((1, None, 3), 1), ((1, 0, 4), 1)], "q": [((1, 0, 10), 1), ((0, 0, 7), 1)]})
    assert lab.result == Counter({(None, 30): 1, (0, 40): 1})
    lab.step({"n": [((1, None, 3), -1)]})
    assert lab.result == Counter({(0, 40): 1})


# --- ranges


@pytest.mark.parametrize("work", ROW_WORK)
@pytest.mark.parametrize("compare", ["<", "<=", ">", ">=", "=", "<>"])
def test_bounds_may_lie_beyond_every_key(compare: str, work: int) -> None:
    """A bound is exact where it has more bits than a key."""
    least, most = -(2**63), 2**63 - 1
    keys = [least, least + 1, -1, 0, 1, most - 1, most]
    for shift in (0, 1, -1, most, least + 1):
        sql = f"SELECT COUNT(*) AS c FROM r, q WHERE r.k {compare} q.k + {shift}"
        with row_work(work):
            lab = JoinLab(sql, relations=(R, Q))
        if not lab.has_body:
            continue
        lab.step({"r": [((0, key, 1), 1) for key in keys]})
        lab.step({"q": [((0, key, 1), 1) for key in keys]})
        expected = sum(_compared(compare, one, other + shift) for one in keys for other in keys)
        assert lab.result == Counter({(expected,): 1}), sql


def _compared(compare: str, one: int, other: int) -> bool:
    found: bool = eval(f"one {'==' if compare == '=' else '!=' if compare == '<>' else compare} other")
    return found


@pytest.mark.parametrize("work", ROW_WORK)
def test_crossed_bounds_hold_nothing(work: int) -> None:
    sql = "SELECT COUNT(*) AS c, SUM(q.v) AS x FROM r, q WHERE q.k > 2 * r.k AND q.k < r.k"
    with row_work(work):
        lab = JoinLab(sql, relations=(R, Q))
    lab.step({"r": [((0, key, 1), 1) for key in range(-4, 5)], "q": [((0, key, 1), 1) for key in range(-9, 10)]})
    expected = sum(2 * r < q < r for r in range(-4, 5) for q in range(-9, 10))
    assert lab.result == Counter({(expected, expected): 1})


@pytest.mark.parametrize("scale", [1, 10**12], ids=["dense", "tree"])
@pytest.mark.parametrize(
    "sql", [BETWEEN_TWO, *(WITH_ITSELF.format(compare) for compare in ("<", "<=", ">", ">=", "<>"))]
)
def test_both_ways_to_evaluate_a_range_join_agree(sql: str, scale: int) -> None:
    """Steps that are swept and steps that look up follow one another in any order."""
    labs = []
    for work in ROW_WORK:
        with row_work(work), short_room():
            labs.append(JoinLab(sql, relations=(R, Q)))
    rng = random.Random(sql)
    held: dict[str, list[Row]] = {"r": [], "q": []}
    for number in range(12):
        size = rng.choice([0, 1, 3, 30])
        deltas = {name: market(rng, rows, size, 40, scale) for name, rows in held.items() if rng.random() < 0.8}
        for lab in labs:
            assert lab.step(deltas) == {}
            lab.check()
        assert labs[0].result == labs[1].result == labs[2].result == _pairs(sql, held), (number, deltas)
        if number % 5 == 4:  # another way goes on from the same state
            for lab, work in zip(labs, random.sample(ROW_WORK, 3), strict=True):
                with row_work(work), short_room():
                    lab.restart()


def _pairs(sql: str, held: dict[str, list[Row]]) -> Counter[Row]:
    """The range joins of this module, by nested loops."""
    groups: dict[int, list[int]] = {}
    for one in held["r"]:
        for other in held["q"] if sql == BETWEEN_TWO else held["r"]:
            if one[0] != other[0]:
                continue
            if sql == BETWEEN_TWO:
                is_match = one[1] > other[1] + 10 or other[1] >= one[1] + 10
                values = [one[2] * other[2], one[2] - 2 * other[2]]
            else:
                is_match = _compared(sql.partition("x.k ")[2].partition(" ")[0], one[1], other[1])
                values = [one[2] - other[2]]
            if is_match:
                total = groups.setdefault(one[0], [0] * (1 + len(values)))
                for place, value in enumerate([*values, 1]):
                    total[place] += value
    return Counter({(group, *total): 1 for group, total in groups.items()})


@pytest.mark.parametrize("work", ROW_WORK)
def test_sums_of_any_sign_and_size_are_exact(work: int) -> None:
    """A group whose sums may pass 64 bits, or which has negative ones, is made anew in 128 bits."""
    with row_work(work):
        lab = JoinLab(BETWEEN_TWO, relations=(R, Q))
    large = 2**61
    lab.step({"r": [((1, 100, large), 1), ((1, 200, -large), 1), ((1, 300, 5), 1)], "q": [((1, 0, large), 1)]})
    assert lab.result == Counter({(1, 5 * large, 5 - 6 * large, 3): 1})
    lab.step({"q": [((1, 0, large), -1), ((1, 250, -3), 1), ((2, 0, 1), 1)]})
    assert lab.result == Counter({(1, -15, 5 + 18, 3): 1})


@pytest.mark.parametrize("work", ROW_WORK)
def test_a_sum_past_its_limit_fails_the_view(work: int) -> None:
    with row_work(work):
        lab = JoinLab(BETWEEN_TWO, relations=(R, Q))
    large = 2**62
    assert lab.step({"r": [((1, 100, large), 1)], "q": [((1, 0, large), 1)]}) == {}
    errors = lab.step({"r": [((1, 100, large), 3)], "q": [((1, 0, large), 7)]})
    assert isinstance(errors["v"], ViewOverflowError)


def test_only_joins_grouped_by_their_indexes_are_swept() -> None:
    def plan_of(sql: str) -> Any:
        body = JoinLab(sql, relations=(R, Q)).view.body
        assert isinstance(body, Joined)
        return sweep_plan(body)

    assert plan_of(BETWEEN_TWO) is not None
    assert plan_of("SELECT SUM(r.v) AS x FROM r, q WHERE r.k + q.k > 4") is not None
    assert plan_of("SELECT SUM(r.v) AS x FROM r, q WHERE r.g = q.g AND r.k <= q.k") is None
    assert plan_of("SELECT r.g, SUM(r.v) AS x FROM r, q WHERE r.g = q.g GROUP BY r.g") is None


def test_one_pass_needs_bounds_that_are_the_key_itself() -> None:
    def passes(sql: str) -> bool:
        body = JoinLab(sql, relations=(R, Q)).view.body
        assert isinstance(body, Joined)
        return can_pass(body.auxiliaries[0].statements)

    assert passes(WITH_ITSELF.format("<"))
    assert not passes(WITH_ITSELF.format("< 1 +"))
    assert not passes(BETWEEN_TWO)


def test_looking_ahead_changes_no_answer() -> None:
    """Leaves that are fetched for later rows may be split or freed before their turn."""
    rng = random.Random(7)
    with row_work(0), patch.object(ahead, "LARGE_WORDS", 0):
        lab, held = JoinLab(WITH_ITSELF.format(">"), relations=(R, Q)), list[Row]()
        for size in (600, 400, 17, 1):
            assert lab.step({"r": market(rng, held, size, 300, 10**12)}) == {}
            lab.check()
            assert lab.result == _pairs(WITH_ITSELF.format(">"), {"r": held})
        assert lab.step({"r": [(row, -1) for row in held]}) == {}
    assert lab.result == Counter()
    lab.check()


# --- joins of a map with itself by all of its keys


@pytest.mark.parametrize("having", ["", " HAVING COUNT(*) > 4"])
def test_a_square_is_a_function_of_totals(having: str) -> None:
    sql = f"SELECT x.g, SUM(x.v * y.v * 0.5) AS s, COUNT(*) AS c FROM r x, r y WHERE x.g = y.g GROUP BY x.g{having}"
    lab = JoinLab(sql, relations=(R, Q))
    assert len(lab.graph.nodes) == 2
    lab.step({"r": [((1, 0, 3), 1), ((1, 1, 4), 2), ((2, 0, 5), 1)]})
    assert lab.result == Counter({(1, 605, 9): 1, **({} if having else {(2, 125, 1): 1})})
    lab.step({"r": [((1, 1, 4), -2), ((2, 0, 5), 1), ((2, 0, 5), -2)]})
    assert lab.result == (Counter() if having else Counter({(1, 45, 1): 1}))


def test_a_square_without_groups_shows_the_empty_row() -> None:
    lab = JoinLab("SELECT SUM(x.v + y.v) AS s, COUNT(*) AS c FROM r x, r y", relations=(R, Q))
    lab.step({})
    assert lab.result == Counter({(None, 0): 1})
    lab.step({"r": [((1, 0, 3), 2)]})
    assert lab.result == Counter({(24, 4): 1})


# --- compiled


@pytest.mark.slow
def test_compiled_joins_are_those_of_the_plain_tier(tmp_path_factory: pytest.TempPathFactory) -> None:
    kernels = KernelCache(tmp_path_factory.mktemp("kernels"))
    scripts = {name: read_script(query_path(name)) for name in ("axf", "bsp", "bsv")}
    fan_out = "SELECT q.k, r.v, COUNT(*) AS c FROM r, q, n WHERE r.g = q.g AND q.v = n.v GROUP BY q.k, r.v"
    labs = []
    for is_compiled in (False, True):
        given = kernels if is_compiled else None
        with short_room():
            finance = [
                JoinLab(script.selects[0].sql, relations=script.relations, kernels=given) for script in scripts.values()
            ]
            labs.append([*finance, JoinLab(fan_out, relations=(R, Q, N), kernels=given)])
    rng = random.Random(3)
    held: dict[str, list[Row]] = {name: [] for name in ("bids", "asks", "r", "q", "n")}
    for size in (40, 1, 1, 3, 0, 40, 60, 1):
        deltas = {name: market(rng, rows, size, 4000) for name, rows in held.items()}
        for name in ("bids", "asks"):
            deltas[name] = [((key, 0, group, value, key, "x"), weight) for (group, key, value), weight in deltas[name]]
        for plain, machine in zip(*labs, strict=True):
            assert plain.step(deltas) == machine.step(deltas) == {}
            machine.check()
            assert plain.result == machine.result
            assert plain.result or size != 40
    kernels.close()
