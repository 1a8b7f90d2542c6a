"""The simulation finds bugs that are put into the runtime."""

from __future__ import annotations

import pytest

from tests.mutations.running import ROOT
from tests.simulation.bugs import BUGS, Bug, find_bugs

FEW = "an epoch is published before it is committed", "the cut of one origin is not kept"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.what)
def test_bugs_fit_the_code(bug: Bug) -> None:
    assert (ROOT / bug.file).read_text().count(bug.find) == 1


@pytest.mark.parametrize("what", FEW)
def test_a_bug_is_found(what: str) -> None:
    (finding,) = find_bugs([bug for bug in BUGS if bug.what == what], seeds=1000, jobs=1)
    assert finding.seeds is not None, finding.output


@pytest.mark.slow
@pytest.mark.mutation
@pytest.mark.timeout(7200)
def test_every_bug_is_found() -> None:
    missed = [finding.bug.what for finding in find_bugs(BUGS, seeds=1000, jobs=2) if finding.seeds is None]
    assert not missed
