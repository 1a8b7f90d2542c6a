"""Breaks the code on purpose, one place at a time, and demands that the row's own tests turn red.

A test that has never failed proves nothing. Each break of `tests.mutations.breaks` names a row of a feature list, or a
file of tests; it is applied to a copy of the tree, and the tests named ``test_row_NN_…``, or those of the file, run
there. They must fail: an error while they are collected does not count, a hang that meets the time limit does.
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
"""The tree."""
_COPIED = (
    "algo_engine", "deltabook", "deploy", "exchange_server", "queries", "runtime", "scripts", "tests", "conftest.py",
    "pyproject.toml",
)  # fmt: skip
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
            f"{broken.what}: expected the text once in {broken.file}, was {text.count(broken.find)} times: "
            f"{broken.find!r}"
        )
    path.write_text(text.replace(broken.find, broken.replacement))
    return text


def run_tests(tree: Path, tests: str, row: int) -> tuple[int, str]:
    """Run a row's tests, or all for row 0, of a folder or file of a tree.

    Gives pytest's exit code, 1 for a hang too, and what it printed last.
    """
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--timeout={_TEST_SECONDS}",
        "-m", "not slow", tests, *(["-k", f"test_row_{row:02}_"] if row else []),
    ]  # fmt: skip
    # A break of the same length in the same second would run the bytecode of the text before it.
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return _FAILED, "no end in time"
    return done.returncode, "\n".join(done.stdout.splitlines()[-15:])


def run_breaks(tests: str, breaks: Sequence[Break], jobs: int) -> Iterator[tuple[Break, str]]:
    """Each break with what is wrong about it: nothing if its own tests, or its row's in the folder, turned red."""
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
        code, said = run_tests(tree, broken.tests or tests, broken.row)
    finally:
        (tree / broken.file).write_text(text)
    return "" if code == _FAILED else f"expected red tests (exit code {_FAILED}), was exit code {code}\n{said}"
