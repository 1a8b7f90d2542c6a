"""Breaks the code on purpose, one place at a time, and checks that tests fail each time.

A test that has never failed proves nothing. Each break of `tests.mutations.breaks` names a row of a feature list, or a
file of tests. It is applied to a copy of the tree, where the tests named ``test_row_NN_…``, or those of the file, run.
One of them must fail. An error while tests are collected is not a failure; a test that exceeds its time limit is one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutations.breaks import Break

__all__ = ["ROOT", "run_breaks", "tree_copy"]

ROOT = Path(__file__).resolve().parents[2]
"""Root of the tree."""
_COPIED = (
    "algo_engine", "deltabook", "deploy", "exchange_server", "queries", "runtime", "scripts", "tests", "conftest.py",
    "pyproject.toml",
)  # fmt: skip
_FAILED = 1  # pytest: tests ran, and some failed
_TEST_SECONDS, _RUN_SECONDS = 40, 170


def tree_copy(folder: Path) -> Path:
    """Copy the sources that tests need into a folder; return the folder."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy2(source, folder / name)
    return folder


def apply(tree: Path, broken: Break) -> str:
    """Apply a break to a tree; return the previous text of the file.

    Raise `ValueError` if the break does not fit the code.
    """
    path = tree / broken.file
    text = path.read_text()
    if text.count(broken.find) != 1:
        raise ValueError(
            f"{broken.what}: expected the text once in {broken.file}, was {text.count(broken.find)} times: "
            f"{broken.find!r}"
        )
    path.write_text(text.replace(broken.find, broken.replacement))
    return text


def run_tests(tree: Path, tests: str, row: int) -> tuple[int, str]:
    """Run the tests of a row, or for row 0 all tests, in a folder or file of a tree.

    Return the exit code of pytest, which is 1 for a hang too, and the last lines that it printed.
    """
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--timeout={_TEST_SECONDS}",
        "-m", "not slow", tests, *(["-k", f"test_row_{row:02}_"] if row else []),
    ]  # fmt: skip
    # After a change of the same length within a second, Python would run the bytecode of the previous text.
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "DELTABOOK_EXAMPLES": "all"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _FAILED, "no end within the time limit"
    return done.returncode, "\n".join(done.stdout.splitlines()[-15:])


def run_breaks(tests: str, breaks: Sequence[Break], jobs: int) -> Iterator[tuple[Break, str]]:
    """Run the tests with each break; yield the break and the problem, empty if one of its tests failed."""
    with tempfile.TemporaryDirectory(prefix="deltabook-breaks-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            trees.put(tree_copy(Path(folder) / str(job)))

        def run(broken: Break) -> tuple[Break, str]:
            tree = trees.get()
            try:
                return broken, _verdict(tree, tests, broken)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(run, breaks)


def _verdict(tree: Path, tests: str, broken: Break) -> str:
    try:
        text = apply(tree, broken)
    except (OSError, ValueError) as error:
        return str(error)
    try:
        code, output = run_tests(tree, broken.tests or tests, broken.row)
    finally:
        (tree / broken.file).write_text(text)
    return "" if code == _FAILED else f"expected red tests (exit code {_FAILED}), was exit code {code}\n{output}"
