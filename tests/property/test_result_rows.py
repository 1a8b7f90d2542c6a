"""Rows of a view's result: any changes, saves that are lost or durable, and restarts, in both tiers of the kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.native.cache import KernelCache
from runtime.views.materialised import RESULT_KERNEL_SOURCE, ResultRows
from tests.harness.examples import examples

Row = tuple[int, ...]

BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from([-2, -1, 0, 1, 2])), max_size=40),
        st.sampled_from(["", "", "save", "save all", "restart"]),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelCache]:
    found = KernelCache(tmp_path_factory.mktemp("kernels"))
    assert not found.compile_now([RESULT_KERNEL_SOURCE]).failures
    yield found
    found.close()


def _words(keys: list[int], width: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Rows that share some of their words."""
    words = np.zeros((len(keys), width), np.int64)
    for place in range(width):
        words[:, place] = np.array(keys, np.int64) // (place + 1) - (1 << 40) * (place == 1)
    return words


def _held(result: ResultRows) -> Counter[Row]:
    words, weights = result.dump()
    held = Counter({tuple(row): weight for row, weight in zip(words.tolist(), weights.tolist(), strict=True)})
    assert len(held) == len(weights), "rows are distinct"
    return held


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@settings(max_examples=examples(200), deadline=None)
@given(batches=BATCHES, width=st.integers(1, 4))
def test_a_result_is_the_sum_of_its_changes(
    kernels: KernelCache, tier: str, batches: list[tuple[list[tuple[int, int]], str]], width: int
) -> None:
    held_kernels = kernels if tier == "compiled" else None
    result = ResultRows(width, is_saved=True, kernels=held_kernels)
    expected: Counter[Row] = Counter()
    runs: list[pa.RecordBatch] = [result.save_all()]
    for changes, then in batches:
        words = _words([key for key, _ in changes], width)
        weights = np.array([weight for _, weight in changes], np.int64)
        before = dict(expected)
        for row, weight in zip(words.tolist(), weights.tolist(), strict=True):
            expected[tuple(row)] += weight
        net_words, net_weights = result.add(words, weights)
        net = {tuple(row): weight for row, weight in zip(net_words.tolist(), net_weights.tolist(), strict=True)}
        changed = {row: expected[row] - before.get(row, 0) for row in expected}
        assert net == {row: weight for row, weight in changed.items() if weight}
        assert len(net) == len(net_weights)
        expected = Counter({row: weight for row, weight in expected.items() if weight})
        result._check()
        if then == "save" or (then == "restart" and result.dirty):
            runs.append(result.save())
            assert not result.dirty
        elif then == "save all":
            runs = [result.save_all()]
            assert not result.dirty
        if then == "restart":
            result = ResultRows(width, is_saved=True, kernels=held_kernels)
            for run in runs:
                result.apply_run(run)
            assert not result.dirty
            result._check()
        assert _held(result) == expected


def test_a_differential_save_is_as_long_as_what_changed() -> None:
    result = ResultRows(1, is_saved=True)
    result.add(np.arange(1000).reshape(-1, 1), np.ones(1000, np.int64))
    assert result.save().num_rows == 1000
    result.add(np.array([[3], [5], [2000], [7], [7]]), np.array([-1, 1, 1, 1, -1]))
    run = result.save()
    found = list(zip(*(column.to_pylist() for column in run.columns), strict=True))
    assert sorted(found) == [(3, False, 0), (5, True, 2), (2000, True, 1)]
