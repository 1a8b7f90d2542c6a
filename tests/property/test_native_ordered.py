"""An ordered index of kernels is a dictionary, in either layout and either tier, which leave the same cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.native.cache import KernelCache
from runtime.native.ordered import OrderedIndex
from runtime.native.structures import Structure
from runtime.native.tiers import MachineKernel
from tests.generators.ordered_index_rig import (
    BELOW,
    HAS_NEGATIVE,
    SCAN,
    TOTAL,
    UP_TO,
    IndexModel,
    IndexRig,
    Row,
    source,
)
from tests.harness.examples import examples

SUMS = 2
_ENDS = st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 1, 2**63 - 2, 0])
_VALUES = st.one_of(st.integers(-3, 3), st.integers(-(2**90), 2**90))


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    """Batches of rows; part of them takes back rows of batches before."""
    span = draw(st.sampled_from([3, 90, 5000, 10**6, 2**62]))
    keys = st.one_of(st.integers(-span, span), _ENDS) if span == 2**62 else st.integers(-span, span)
    groups = st.tuples(st.integers(0, draw(st.sampled_from([0, 2, 40]))))
    row = st.tuples(groups, keys, st.tuples(st.integers(-2, 2), *[_VALUES] * SUMS))
    result: list[list[Row]] = []
    past: list[Row] = []
    for _ in range(draw(st.integers(1, 6))):
        batch = draw(st.lists(row, max_size=20))
        if draw(st.booleans()):
            group, first = draw(groups), draw(st.integers(-span, span))
            count, step = draw(st.integers(1, 400)), draw(st.integers(1, 3))
            run: list[Row] = [(group, first + number * step, (1, number, -number)) for number in range(count)]
            is_reversed = draw(st.booleans())
            batch += run[::-1] if is_reversed else run
        if draw(st.booleans()) and past:
            start, stop = sorted(draw(st.tuples(*[st.integers(0, len(past))] * 2)))
            batch += [(group, key, tuple(-value for value in values)) for group, key, values in past[start:stop]]
        past += batch
        result.append(batch)
    return result


def compare(rigs: list[IndexRig], model: IndexModel, given_rows: list[Row]) -> None:
    """Assert that all indexes answer as the model does and have the same cells."""
    for rig in rigs:
        assert rig.entries() == model.entries
        assert cells_of(rig.index) == cells_of(rigs[0].index)
    keys = sorted({key for _, key, _ in given_rows})[:: max(1, len(given_rows) // 4)][:6] or [0]
    groups = sorted({group for group, _, _ in given_rows})[:3]
    asked = [(number, group, key, (0,) * (1 + SUMS)) for group in groups for key in keys for number in (BELOW, UP_TO)]
    asked += [(number, group, 0, (0,) * (1 + SUMS)) for group in groups for number in (TOTAL, SCAN, HAS_NEGATIVE)]
    expected = model.expected(asked)
    for rig in rigs:
        assert rig.run(asked).tolist() == expected


def cells_of(structure: Structure) -> list[bytes | list[bytes]]:
    """The content of all arrays of a table and of its tables."""
    return [
        cells_of(held) if isinstance(held, Structure) else np.asarray(held).tobytes()  # type: ignore[misc]
        for held in structure._arrays
        if held is not None
    ]


@given(batches(), st.sampled_from([1 << 16, 1 << 8, 0]))
def test_an_ordered_index_is_a_dictionary(given_batches: list[list[Row]], dense_cells: int) -> None:
    rig, model = IndexRig(OrderedIndex(1, SUMS, dense_cells=dense_cells)), IndexModel(SUMS)
    for batch in given_batches:
        rig.add(batch)
        model.add(batch)
        compare([rig], model, batch)
    copy = OrderedIndex(1, SUMS, dense_cells=dense_cells)
    copy.load(rig.index.dump())
    copy._check()
    compare([IndexRig(copy)], model, given_batches[-1])


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> MachineKernel:
    """The compiled kernel."""
    kernels = KernelCache(tmp_path_factory.mktemp("kernels") / "cache")
    try:
        assert kernels.wait([source(SUMS)], 600), kernels.failures
        kernel = kernels.get(source(SUMS))
    finally:
        kernels.close()
    assert kernel is not None
    return kernel


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(900)
@settings(max_examples=examples(200))
@given(given_batches=batches(), dense_cells=st.sampled_from([1 << 16, 1 << 8, 0]))
def test_tiers_leave_the_same_cells(machine: MachineKernel, given_batches: list[list[Row]], dense_cells: int) -> None:
    """Interpreted, compiled, and changing between the two with every call."""
    rigs = [
        IndexRig(OrderedIndex(1, SUMS, dense_cells=dense_cells)),
        IndexRig(OrderedIndex(1, SUMS, dense_cells=dense_cells), machine),
        IndexRig(OrderedIndex(1, SUMS, dense_cells=dense_cells), machine, alternates=True),
    ]
    model = IndexModel(SUMS)
    for batch in given_batches:
        for rig in rigs:
            rig.add(batch)
        model.add(batch)
        compare(rigs, model, batch)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize("dense_cells", [1 << 16, 0], ids=["dense", "tree"])
@pytest.mark.parametrize("seed", range(3))
def test_long_streams_of_orders_stay_exact(machine: MachineKernel, seed: int, dense_cells: int) -> None:
    """Deep trees, compiled: orders come and go, most of them young."""
    rng = np.random.default_rng(seed)
    rig, model = IndexRig(OrderedIndex(1, SUMS, dense_cells=dense_cells), machine), IndexModel(SUMS)
    live: list[Row] = []
    for batch in range(40):
        keys = rng.integers(0, 3000, 1500) if seed == 0 else np.cumsum(rng.integers(0, 3, 1500)) + batch * 2000
        rows: list[Row] = [
            ((int(group),), int(key), (1, int(key), -(int(key) ** 2)))
            for group, key in zip(rng.integers(0, 3, 1500), keys, strict=True)
        ]
        live += rows
        gone = set(rng.choice(len(live), 1400 if batch < 30 else min(len(live), 3000), replace=False).tolist())
        batch_rows = [
            *rows,
            *((group, key, tuple(-v for v in live[at][2])) for at in gone for group, key, _ in [live[at]]),
        ]
        live = [row for at, row in enumerate(live) if at not in gone]
        rig.add(batch_rows)
        model.add(batch_rows)
        compare([rig], model, batch_rows)
