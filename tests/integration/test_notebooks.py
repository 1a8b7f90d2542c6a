"""The notebooks of examples/ run from their first cell to the last.

They name the kernel ``python3``, which Jupyter starts with the interpreter that asks for it.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
SECONDS = 300
"""A cell that takes longer hangs."""


def read(path: Path) -> nbformat.NotebookNode:
    """A notebook; the library is partly without types."""
    return nbformat.reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-any-return,no-untyped-call]


def test_there_are_three() -> None:
    assert [path.stem for path in EXAMPLES] == ["backtest", "sweep", "view"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    book = read(path)
    nbformat.validate(book)
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert cells
    assert [cell.outputs for cell in cells] == [[]] * len(cells)
    assert {cell.execution_count for cell in cells} == {None}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    """What a cell shows is there in more than plain text: a summary, a table, a picture."""
    book = read(path)
    work = tmp_path / "work"
    work.mkdir()
    NotebookClient(book, timeout=SECONDS, resources={"metadata": {"path": str(work)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output for output in outputs if output.output_type in {"error", "stream"} and "stderr" in str(output)] == []
    shown = [set(output.data) for output in outputs if "data" in output]
    assert any("text/html" in kinds for kinds in shown)
    assert any("image/png" in kinds for kinds in shown)
