"""Flows one delta at a time, and several at once, say what the kernel for batches says of them."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from typing import Any

import pytest

from runtime.compiler import NamedSelect, compile_program
from runtime.compiler.program import Flow
from runtime.views.tuplewise import TuplewiseProgram
from tests.generators.deltas import Shards
from tests.generators.programs import normal
from tests.unit.runtime.compiler.test_flow import QUERIES, RELATIONS

VALUES: dict[str, list[Any]] = {
    "string": ["x", "y", "Z", "xy"],
    "date": [date(2020, 1, 1), date(2020, 1, 2)],
    "bool": [True, False],
    "float64": [-0.5, 0.0, 2.0],
}


def row(rng: random.Random, relation: str) -> tuple[Any, ...]:
    """Few values, so that rows meet; NULLs where a column may have them."""
    return tuple(
        None if column.nullable and rng.random() < 0.25 else rng.choice(VALUES.get(column.type, range(-2, 5)))
        for column in RELATIONS[relation].columns
    )


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_flows_equal_those_of_the_kernel_for_batches(seed: int) -> None:
    rng = random.Random(seed)
    selects = [NamedSelect(f"v{place}", sql) for place, sql in enumerate(QUERIES)]
    program = compile_program(selects, RELATIONS.values())
    kernel, shards = TuplewiseProgram(program), Shards(program, 1)
    flows = [view.name for view in program.views if isinstance(view.body, Flow) and view.name not in kernel.unsupported]
    assert len(flows) > 10
    totals = {name: Counter(kernel.result(name)) for name in flows}
    held: list[tuple[str, tuple[Any, ...]]] = []
    for _ in range(8):
        deltas = []
        for _ in range(rng.randint(1, 6)):
            if held and rng.random() < 0.45:
                name, gone = held.pop(rng.randrange(len(held)))
                deltas.append((name, gone, -1))
            else:
                name = rng.choice([relation.name for relation in program.relations])
                held.append((name, row(rng, name)))
                deltas.append((*held[-1], 1))
        steps = [deltas] if rng.random() < 0.5 else [[delta] for delta in deltas]
        for step in steps:
            for view, values, number in kernel.step(step):
                if view in totals:
                    totals[view][values] += number
        kernel._check()
        batch: dict[str, list[Any]] = {relation.name: [] for relation in program.relations}
        for name, values, weight in deltas:
            batch[name].append((values, weight))
        assert shards.step([batch]) == {}
        for name in flows:
            found = Counter(kernel.result(name))
            assert {r: n for r, n in totals[name].items() if n} == found, name
            assert Counter({normal(r): n for r, n in found.items()}) == shards.result(name), (name, held)
    for name, values in held:
        kernel.apply(name, values, -1)
    assert kernel.entries() == TuplewiseProgram(program).entries(), "what has gone leaves nothing behind"
