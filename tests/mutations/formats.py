"""Breaks the formats on purpose, one place at a time, and demands that the row's own tests turn red.

::

    python -m tests.mutations.formats [--row N] [--jobs 2]

A test that has never failed proves nothing. Each break of `tests.mutations.format_breaks` names a row of the formats'
feature list; it is applied to a copy of the tree, and the tests named ``test_row_NN_…`` run there. They must fail: an
error while they are collected does not count, a hang that meets the time limit does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import click

from tests.mutations.format_breaks import BREAKS, Break

__all__ = ["ROW_TESTS", "run_breaks", "tree_copy"]

ROOT = Path(__file__).resolve().parents[2]
ROW_TESTS = "tests/features/formatters"
_COPIED = ("algo_engine", "deltabook", "exchange_server", "queries", "runtime", "tests", "pyproject.toml")
_FAILED = 1  # pytest: tests ran, and some failed
_TEST_SECONDS, _RUN_SECONDS = 40, 170


def tree_copy(folder: Path) -> Path:
    """A copy of the sources that tests can run in."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy2(source, folder / name)
    return folder


def apply(tree: Path, broken: Break) -> str:
    """Put the break into the tree; the file's text as it was. Raises `ValueError` if it does not fit the code."""
    path = tree / broken.file
    text = path.read_text()
    if text.count(broken.find) != 1:
        raise ValueError(
            f"row {broken.row}: expected the text once in {broken.file}, was {text.count(broken.find)} times: "
            f"{broken.find!r}"
        )
    path.write_text(text.replace(broken.find, broken.replacement))
    return text


def run_rows(tree: Path, row: int | None) -> tuple[int, str]:
    """Run a row's tests in a tree, or all rows'; pytest's exit code (1 for a hang too) and what it printed last."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--timeout={_TEST_SECONDS}",
        "-m", "not slow", ROW_TESTS,
    ]  # fmt: skip
    if row is not None:
        command += ["-k", f"test_row_{row:02}_"]
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return _FAILED, "no end in time"
    return done.returncode, "\n".join(done.stdout.splitlines()[-15:])


def run_breaks(breaks: Sequence[Break], jobs: int) -> Iterator[tuple[Break, str]]:
    """Each break with what is wrong about it: nothing if the row's tests turned red."""
    with tempfile.TemporaryDirectory(prefix="deltabook-breaks-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            trees.put(tree_copy(Path(folder) / str(job)))

        def run(broken: Break) -> tuple[Break, str]:
            tree = trees.get()
            try:
                return broken, _verdict(tree, broken)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(run, breaks)


def _verdict(tree: Path, broken: Break) -> str:
    try:
        text = apply(tree, broken)
    except (OSError, ValueError) as error:
        return str(error)
    try:
        code, said = run_rows(tree, broken.row)
    finally:
        (tree / broken.file).write_text(text)
    return "" if code == _FAILED else f"expected red tests (exit code {_FAILED}), was exit code {code}\n{said}"


@click.command()
@click.option("--row", type=int, help="The breaks of this row alone.")
@click.option("--jobs", default=2, show_default=True, help="How many at once.")
def main(row: int | None, jobs: int) -> None:
    """Break the formats in every way that is written down, and see the rows' tests turn red."""
    chosen = [broken for broken in BREAKS if row in {None, broken.row}]
    wrong = 0
    for broken, verdict in run_breaks(chosen, jobs):
        wrong += bool(verdict)
        click.echo(f"{'GREEN' if verdict else 'red  '} row {broken.row:2} {broken.file}: {broken.what}")
        if verdict:
            click.echo(verdict)
    click.echo(f"{len(chosen)} breaks, {len(chosen) - wrong} seen red, {wrong} not")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
