"""The interpreted tier executes kernel source as it stands."""

from __future__ import annotations

import gc
import linecache
import traceback

import pytest

from runtime.native.tiers import KernelSourceError, kernel_name, plain_kernel

ADD = """
from runtime.native.plain import array, jit, root

@jit
def step(p):
    cells = array(root(p), 0)
    cells[0] += cells[1]
    return 0
"""


def test_step_edits_the_arrays_of_its_table() -> None:
    cells = memoryview(bytearray(16)).cast("q")
    cells[0], cells[1] = 3, 4
    assert plain_kernel(ADD)([cells]) == 0
    assert cells.tolist() == [7, 4]


def test_a_source_is_executed_once() -> None:
    assert plain_kernel(ADD) is plain_kernel(ADD)


def test_names_depend_on_the_source_alone() -> None:
    assert kernel_name(ADD) == kernel_name("".join(list(ADD)))
    assert kernel_name(ADD) != kernel_name(ADD + " ")


def test_tracebacks_show_the_source() -> None:
    kernel = plain_kernel("def step(p):\n    return p[5]\n")
    with pytest.raises(IndexError) as caught:
        kernel([])
    assert "return p[5]" in "".join(traceback.format_exception(caught.value))


def test_the_memo_is_bounded() -> None:
    """The lines for tracebacks go with the kernels."""
    capacity = plain_kernel.cache_parameters()["maxsize"]
    assert capacity is not None
    sources = [f"def step(p): return {number}" for number in range(capacity + 50)]
    for source in sources:
        plain_kernel(source)
    gc.collect()
    assert sum(f"<kernel {kernel_name(source)}>" in linecache.cache for source in sources) <= capacity


def test_names_keep_no_more_sources_than_kernels() -> None:
    """Each entry of a memo keeps a whole source in memory."""
    assert kernel_name.cache_parameters() == plain_kernel.cache_parameters()


def test_a_source_without_a_step_is_refused() -> None:
    with pytest.raises(KernelSourceError, match="expected a function `step`"):
        plain_kernel("def other(p): return 0")
