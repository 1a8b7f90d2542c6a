"""Selected views follow their thresholds, wherever those move, and fail where a number passes its limit."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from queries import query_path
from runtime.compiler import Column, NamedSelect, Relation, compile_program, read_script
from runtime.native.cache import KernelCache
from runtime.plan import Selected
from runtime.views.errors import ViewOverflowError
from runtime.views.nodes.threshold import Threshold
from runtime.views.nodes.totals import Totals
from tests.conformance.oracle import Oracle, difference, oracle_sql
from tests.generators.programs import Row
from tests.generators.selections import RELATIONS, SelectionLab, random_deltas

QUARTER = (
    "SELECT SUM(r.a * r.b) AS x, COUNT(*) AS c FROM r "
    "WHERE (SELECT SUM(b) FROM r) > 4 * (SELECT SUM(z.b) FROM r z WHERE z.a > r.a)"
)
BY_GROUP = (
    "SELECT r.s, SUM(r.a - q.d) AS x, COUNT(*) AS c FROM r, q WHERE (SELECT SUM(b) FROM r) > "
    "4 * (SELECT SUM(z.b) FROM r z WHERE z.a > r.a) AND q.d > (SELECT COUNT(*) FROM q) GROUP BY r.s"
)
NOT_MONOTONE = (
    "SELECT r.s, SUM(r.b) AS x FROM r WHERE (SELECT SUM(z.b) FROM r z WHERE z.a > r.a) - 3 * r.a < 20 "
    "OR r.a * r.a > (SELECT SUM(d) FROM q) GROUP BY r.s"
)
EVERY_KEY = "SELECT r.s, COUNT(*) AS c FROM r WHERE (SELECT COUNT(*) FROM q) > 0 GROUP BY r.s"


def row(a: int, b: int = 1, s: str = "x") -> Row:
    return a, b, s, None


def node_of(lab: SelectionLab) -> Threshold:
    (node,) = (node for node in lab.graph.nodes if isinstance(node, Threshold))
    return node


@pytest.mark.parametrize("mode", ["sql", "dbtoaster"])
def test_the_best_quarter(mode: str) -> None:
    """SUM of nothing is NULL in SQL, which leaves the greatest key out."""
    lab = SelectionLab(QUARTER, mode)
    is_zero = mode == "dbtoaster"
    lab.step({})
    assert lab.result == Counter({(0 if is_zero else None, 0): 1})
    lab.step({"r": [(row(10, 4), 1), (row(20, 4), 1), (row(30, 1), 1)]})
    assert lab.result == Counter({((80 + 30, 2) if is_zero else (80, 1)): 1})
    lab.step({"r": [(row(30, 1), -1)]})
    assert lab.result == Counter({((80, 1) if is_zero else (None, 0)): 1})


@pytest.mark.parametrize("sql", [QUARTER, BY_GROUP, NOT_MONOTONE, EVERY_KEY])
@pytest.mark.parametrize("scale", [1, 10**12])
@pytest.mark.parametrize("mode", ["sql", "dbtoaster"])
def test_thresholds_that_move_far(sql: str, scale: int, mode: str) -> None:
    """Steps of one row and of many; keys are dense or stand in trees."""
    lab, oracle, rng = SelectionLab(sql, mode), Oracle(RELATIONS), random.Random(sql)
    assert isinstance(lab.view.body, Selected)
    held: dict[str, list[Row]] = {"r": [], "q": []}
    for step in range(60):
        deltas = random_deltas(rng, held, scale, rng.choice([1, 1, 40]), rng.choice([5, 1000]))
        assert lab.step(deltas) == {}
        for name, rows in held.items():
            oracle.fill(name, Counter(rows))
        _, expected = oracle.ask(oracle_sql(sql, mode))
        assert not difference(lab.result, expected), f"step {step}\n{difference(lab.result, expected)}"


@pytest.mark.parametrize("sql", [QUARTER, BY_GROUP])
def test_hints_change_no_answer(sql: str) -> None:
    labs, rng = [SelectionLab(sql), SelectionLab(sql)], random.Random(2)
    numbers = node_of(labs[1]).numbers
    held: dict[str, list[Row]] = {"r": [], "q": []}
    for _ in range(40):
        deltas = random_deltas(rng, held, 1, 20, 200)
        for place in range(6, len(numbers)):
            numbers[place] = rng.choice([rng.randint(-5, 300), -(2**63), 2**63 - 1])
        for lab in labs:
            assert lab.step(deltas) == {}
        assert labs[0].result == labs[1].result


def test_many_groups_come_and_go() -> None:
    lab = SelectionLab(EVERY_KEY)
    rows = [(row(n % 3, 1, f"group {n}"), 1) for n in range(300)]
    lab.step({"r": rows})
    assert lab.result == Counter()
    lab.step({"q": [((1, 1, "x", None), 1)]})
    assert lab.result == Counter({(f"group {n}", 1): 1 for n in range(300)})
    lab.step({"r": [(each, -1) for each, _ in rows[::2]]})
    assert lab.result == Counter({(f"group {n}", 1): 1 for n in range(1, 300, 2)})
    lab.step({"q": [((1, 1, "x", None), -1)]})
    assert lab.result == Counter()
    assert {name: len(held.dump()) for name, held in lab.structures.items() if "result" in name} == {"view/v/result": 0}


def test_negative_sums_are_looked_at_key_by_key() -> None:
    """With a negative weight further up the condition is true on both sides of a key for which it is false."""
    lab = SelectionLab(QUARTER, "dbtoaster")
    rows = [row(1, 1), row(2, -9), row(3, 9), row(4, 2)]
    lab.step({"r": [(each, 1) for each in rows]})
    above = {a: sum(b for other, b, *_ in rows if other > a) for a, *_ in rows}
    chosen = [(a, b) for a, b, *_ in rows if 4 * above[a] < 3]
    assert {a for a, _ in chosen} == {4}
    assert lab.result == Counter({(sum(a * b for a, b in chosen), len(chosen)): 1})
    lab.step({"r": [(row(2, -9), -1)]})
    assert lab.result == Counter({(9 * 3 + 2 * 4, 2): 1})


def test_sums_that_no_condition_reads_may_be_negative() -> None:
    """The threshold is searched for all the same: the kernel remembers where its tests turned."""
    lab = SelectionLab(QUARTER)
    lab.step({"r": [(row(-n, 5), 1) for n in range(1, 101)]})
    assert lab.result == Counter({(5 * sum(-n for n in range(2, 26)), 24): 1})
    assert node_of(lab).numbers.tolist()[-2:] == [-1, -25]


def test_bounds_beyond_64_bits() -> None:
    """A key at the end of the 64 bits, moved by a constant, is greater than every key."""
    greatest, least = 2**63 - 1, -(2**63)
    sql = "SELECT COUNT(*) AS c, SUM(r.b) AS x FROM r WHERE (SELECT COUNT(*) FROM r z WHERE z.a {} r.a {}) {} 1"
    rows = [row(greatest, 1), row(greatest - 1, 2), row(0, 4), row(least + 1, 8), row(least, 16)]
    oracle = Oracle(RELATIONS)
    oracle.fill("r", Counter(rows))
    for compare in ("<", "<=", ">", ">="):
        for shift in ("+ 1", "- 1", "+ 2", ""):
            for relation in (">", "<="):
                text = sql.format(compare, shift, relation)
                lab = SelectionLab(text)
                lab.step({"r": [(each, 1) for each in rows]})
                assert lab.result == oracle.ask(text)[1], text


def test_scalars_come_from_an_index_over_the_same_rows() -> None:
    lab = SelectionLab(QUARTER)
    assert [name for name, held in lab.structures.items() if isinstance(held, Totals)] == ["view/v/result"]
    lab = SelectionLab(QUARTER.replace("FROM r)", "FROM r WHERE s = 'x')"))
    assert len([name for name, held in lab.structures.items() if isinstance(held, Totals)]) == 2


def test_a_product_past_its_limit_fails_the_view() -> None:
    lab = SelectionLab("SELECT SUM(r.a * q.d) AS x FROM r, q WHERE (SELECT COUNT(*) FROM r) > 0")
    much = 2**62
    assert lab.step({"r": [((much, 1, "x", None), 1)], "q": [((much, 1, "x", None), 1)]}) == {}
    errors = lab.step({"r": [((much, 1, "x", None), 2**20)], "q": [((much, 1, "x", None), 2**20)]})
    assert isinstance(errors["v"], ViewOverflowError)


@pytest.mark.parametrize("sql", [QUARTER, BY_GROUP])
def test_a_restored_state_goes_on(sql: str) -> None:
    """Hints and sums of factors are in no record."""
    labs, rng = [SelectionLab(sql), SelectionLab(sql)], random.Random(1)
    held: dict[str, list[Row]] = {"r": [], "q": []}
    for _ in range(12):
        deltas = random_deltas(rng, held, 1, 10, 100)
        for lab in labs:
            assert lab.step(deltas) == {}
        assert labs[0].result == labs[1].result
        labs[1].restart()
        labs[1].check()


def test_a_step_of_another_relation_changes_nothing() -> None:
    lab = SelectionLab(QUARTER)
    lab.step({"r": [(row(n), 1) for n in range(9)]})
    before = node_of(lab).numbers.tolist()
    lab.step({"q": [((1, 1, "x", None), 1)]})
    assert node_of(lab).numbers.tolist() == before


def test_groups_may_be_numbered_anew() -> None:
    """Sums of factors stand by number of group, and those change when strings are forgotten."""
    lab = SelectionLab(BY_GROUP)
    lab.step({"r": [(row(n, 1, s), 1) for n, s in enumerate("zyx" * 5)], "q": [((9, 1, "x", None), 1)]})
    assert len(lab.result) > 1
    for held in lab.structures.values():
        held.load(held.dump()[::-1].copy())
    lab.graph.renumber()
    fresh = SelectionLab(BY_GROUP)
    fresh.step({"r": [(row(n, 1, s), 1) for n, s in enumerate("zyx" * 5)], "q": [((9, 1, "x", None), 1)]})
    for each in (lab, fresh):
        each.step({"q": [((7, 1, "x", None), 1)]})
    assert lab.result == fresh.result


def test_equal_plans_have_equal_source() -> None:
    relations = read_script(query_path("vwap")).relations
    script = read_script(query_path("mst")).selects[0].sql
    texts = []
    for name in ("one", "another"):
        program = compile_program([NamedSelect(name, script)], relations)
        lab = SelectionLab(program.views[0].sql, relations=relations)
        texts.append(lab.graph.sources())
    assert texts[0] == texts[1]


ORDERS = tuple(Column(name, "int64") for name in ("t", "id", "broker_id", "volume", "price"))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelCache]:
    kernels = KernelCache(tmp_path_factory.mktemp("kernels"))
    yield kernels
    kernels.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vwap", "mst"])
def test_the_compiled_tier_says_the_same(name: str, kernels: KernelCache) -> None:
    relations = (Relation("bids", ORDERS), Relation("asks", ORDERS))
    sql = read_script(query_path(name)).selects[0].sql
    labs = [SelectionLab(sql, relations=relations), SelectionLab(sql, relations=relations, kernels=kernels)]
    rng = random.Random(name)
    held: dict[str, list[Row]] = {"bids": [], "asks": []}
    for step in range(150):
        deltas: dict[str, list[tuple[Row, int]]] = {}
        for side, rows in held.items():
            for _ in range(rng.choice([0, 1, 1, 100])):
                if rows and rng.random() < 0.48:
                    deltas.setdefault(side, []).append((rows.pop(rng.randrange(len(rows))), -1))
                else:
                    rows.append(
                        (step, 1, rng.randrange(9), rng.randint(1, 99), rng.randint(0, 10 ** rng.randint(1, 5)))
                    )
                    deltas.setdefault(side, []).append((rows[-1], 1))
        for lab in labs:
            assert lab.step(deltas) == {}
        assert labs[0].result == labs[1].result
