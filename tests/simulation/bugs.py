"""Puts bugs into the runtime, one at a time, and reports after how many seeds the simulation has found each.

::

    python -m tests.simulation.bugs [--seeds 1000] [--jobs 2] [--only WORDS]

A simulation that finds nothing may be unable to find anything. So each bug of `bugs.toml` is put into a copy of the
tree, where seeds are run from the first one on until one of them fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import click
import msgspec

from tests.mutations.running import tree_copy

__all__ = ["BUGS", "Bug", "Finding", "bug_hunt", "find_bugs", "load_bugs"]

_SECONDS: Final = 1800


class Bug(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Change that makes the runtime wrong."""

    what: str
    """Description of the wrong behaviour."""
    file: str
    """File to change, from the root of the tree."""
    find: str
    """Text that the file contains once."""
    replacement: str
    """Text that replaces it."""


class Finding(msgspec.Struct, frozen=True):
    """Result for a bug."""

    bug: Bug
    """The bug."""
    seeds: int | None
    """Number of seeds after which the bug was found; None if it was not."""
    output: str
    """Message of the simulation."""


def load_bugs(path: Path) -> tuple[Bug, ...]:
    """Return the bugs of a file."""
    return msgspec.toml.decode(path.read_bytes(), type=dict[str, tuple[Bug, ...]])["bug"]


BUGS: Final = load_bugs(Path(__file__).with_name("bugs.toml"))
"""Bugs of the runtime."""


def find_bugs(bugs: Sequence[Bug], seeds: int, jobs: int, *, simulation: str = "tests.simulation") -> Iterator[Finding]:
    """Look for each bug in up to ``seeds`` seeds of a simulation; yield the findings in order."""
    with tempfile.TemporaryDirectory(prefix="deltabook-bugs-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            place = Path(folder) / str(job)
            place.mkdir()
            trees.put(tree_copy(place))

        def look(bug: Bug) -> Finding:
            tree = trees.get()
            try:
                return _look(tree, bug, seeds, simulation)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(look, bugs)


def _look(tree: Path, bug: Bug, seeds: int, simulation: str) -> Finding:
    path = tree / bug.file
    text = path.read_text()
    if (count := text.count(bug.find)) != 1:
        raise ValueError(f"expected the text once in {bug.file}, was {count} times: {bug.find!r}")
    path.write_text(text.replace(bug.find, bug.replacement))
    command = [sys.executable, "-m", simulation, "--seeds", str(seeds), "--jobs", "1", "--until-found"]
    try:
        done = subprocess.run(
            command, cwd=tree, capture_output=True, text=True, timeout=_SECONDS, check=False,
            env=os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    finally:
        path.write_text(text)
    found = re.search(r"^seed (\d+): (.*)$", done.stdout, re.MULTILINE)
    if found is None:
        return Finding(bug, None, (done.stdout + done.stderr)[-500:].strip())
    return Finding(bug, int(found[1]) + 1, found[2])


def bug_hunt(what: str, bugs: Sequence[Bug], simulation: str) -> click.Command:
    """Return the command line that runs a simulation on a tree with each bug."""

    @click.command(help=what)
    @click.option("--seeds", default=1000, show_default=True, help="Largest number of seeds for each bug.")
    @click.option("--jobs", default=2, show_default=True, help="Number of bugs at once.")
    @click.option("--only", default="", help="Only bugs with this text in their description.")
    def run(seeds: int, jobs: int, only: str) -> None:
        chosen = [bug for bug in bugs if only in bug.what]
        missed = 0
        for finding in find_bugs(chosen, seeds, jobs, simulation=simulation):
            missed += finding.seeds is None
            after = "NOT FOUND" if finding.seeds is None else f"{finding.seeds:5} seeds"
            click.echo(f"{after:>11}  {finding.bug.what}\n             {finding.output[:160]}")
        click.echo(f"{len(chosen)} bugs, {len(chosen) - missed} found within {seeds} seeds, {missed} not")
        sys.exit(1 if missed else 0)

    return run


if __name__ == "__main__":
    bug_hunt(
        "Put each bug of the list into the runtime, and check that the simulation finds it.", BUGS, "tests.simulation"
    )()
