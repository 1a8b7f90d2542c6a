"""Flows of a program in one graph, step by step, equal what an interpreter computes from all rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest

from runtime.compiler import NamedSelect, compile_program
from runtime.native.cache import KernelCache
from runtime.plan import Flow, Program, View
from runtime.views.graph import Graph, GraphBuilder
from runtime.views.nodes import flow_body
from runtime.views.routing import Part
from runtime.views.strings import Strings
from tests.generators.batch_rows import tuples_of
from tests.generators.programs import normal
from tests.unit.runtime.compiler._flow_interpreter import run_flow
from tests.unit.runtime.compiler.test_flow import QUERIES, RELATIONS

VALUES: dict[str, list[Any]] = {
    "string": ["x", "y", "Z", "xy"],
    "date": [date(2020, 1, 1), date(2020, 1, 2)],
}
FEW = [sql for place, sql in enumerate(QUERIES) if place % 24 == 0]
"""Queries whose kernels are compiled."""


def row(rng: random.Random, relation: str) -> tuple[Any, ...]:
    """Few values, so that rows meet; NULLs where a column may have them."""
    return tuple(
        None if column.nullable and rng.random() < 0.25 else rng.choice(VALUES.get(column.type, range(-2, 5)))
        for column in RELATIONS[relation].columns
    )


def program_of(queries: Sequence[str]) -> tuple[Program, list[View]]:
    program = compile_program([NamedSelect(f"v{n}", sql) for n, sql in enumerate(queries)], RELATIONS.values())
    return program, [view for view in program.views if isinstance(view.body, Flow)]


def graph_of(program: Program, views: Sequence[View], strings: Strings) -> Graph:
    builder = GraphBuilder(program, strings, {}, part_of=lambda view, number: Part(number, True), from_payloads=False)
    for view in views:
        assert isinstance(view.body, Flow)
        with builder.of(view):
            flow_body.lower(view, view.body, builder)
    return builder.build({})


class Run:
    """A graph of flows, and the rows that their changes add up to."""

    def __init__(self, program: Program, views: Sequence[View]) -> None:
        self.strings = Strings()
        self.graph = graph_of(program, views, self.strings)
        self.rows: dict[str, Counter[tuple[Any, ...]]] = {view.name: Counter() for view in views}

    def step(self, deltas: Sequence[tuple[str, tuple[Any, ...], int]]) -> None:
        for relation, values, weight in deltas:
            if relation in self.graph.relations:
                self.graph.relations[relation].append(values, weight, self.strings)
        self.strings.refresh()
        assert self.graph.run() == {}
        for name, output in self.graph.outputs.items():
            for values, weight in tuples_of(output.batches, self.strings, is_distinct=output.is_distinct):
                self.rows[name][normal(values)] += weight
                if not self.rows[name][normal(values)]:
                    del self.rows[name][normal(values)]
        self.graph.finish()


def check(run: Run, program: Program, views: Sequence[View], held: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    for view in views:
        assert isinstance(view.body, Flow)
        found = run_flow(view.body, program.maps, RELATIONS, held)
        expected = Counter({normal(values): number for values, number in found.items()})
        assert run.rows[view.name] == expected, (view.name, view.sql)


def deltas_of(rng: random.Random, held: dict[str, list[tuple[Any, ...]]]) -> list[tuple[str, tuple[Any, ...], int]]:
    deltas = []
    for _ in range(rng.randint(1, 6)):
        name = rng.choice(list(RELATIONS))
        if held[name] and rng.random() < 0.45:
            deltas.append((name, held[name].pop(rng.randrange(len(held[name]))), -1))
        else:
            held[name].append(row(rng, name))
            deltas.append((name, held[name][-1], 1))
    return deltas


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_flows_equal_their_queries(seed: int) -> None:
    rng = random.Random(seed)
    program, views = program_of(QUERIES)
    assert len(views) > 90
    run = Run(program, views)
    held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in RELATIONS}
    for number in range(16):
        run.step(deltas_of(rng, held) if number else [])
        if rng.random() < 0.4 or not number:
            check(run, program, views, held)


@pytest.mark.slow
def test_compiled_flows_equal_interpreted_ones(tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = random.Random(2)
    program, views = program_of(FEW)
    plain, compiled = Run(program, views), Run(program, views)
    kernels = KernelCache(tmp_path_factory.mktemp("kernels"))
    kernels.compile_now(compiled.graph.sources())
    assert compiled.graph.use(kernels.get), kernels.failures
    kernels.close()
    held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in RELATIONS}
    for _ in range(300):
        deltas = deltas_of(rng, held)
        plain.step(deltas)
        compiled.step(deltas)
        assert plain.rows == compiled.rows
    check(compiled, program, views, held)


def test_equal_plans_have_equal_sources() -> None:
    """A kernel is cached by its source, so neither names nor addresses may be in it."""
    program, views = program_of(FEW)
    other, others = program_of(["SELECT a FROM r WHERE b IN (SELECT v FROM n)", *FEW])
    sources = set(graph_of(other, others, Strings(["z"])).sources())
    assert sources.issuperset(graph_of(program, views, Strings()).sources())


def test_a_flow_without_new_rows_calls_no_kernel() -> None:
    program, views = program_of(["SELECT r.a, n.v FROM r LEFT JOIN n ON r.a = n.k"])
    run = Run(program, views)
    run.step([("r", (1, 2, "x"), 1)])
    for node in run.graph.nodes:
        node.kernel = lambda table: pytest.fail("called")
    run.step([])
