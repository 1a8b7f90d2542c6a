"""The exchange's simulation finds bugs that are put into the exchange."""

from __future__ import annotations

import pytest

from tests.mutations.running import ROOT
from tests.simulation.bugs import Bug, find_bugs
from tests.simulation.exchange.bugs import BUGS, SIMULATION

FEW = ("a reader is sent a burst twice", "a snapshot forgets who came first")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.what)
def test_bugs_fit_the_code(bug: Bug) -> None:
    assert (ROOT / bug.file).read_text().count(bug.find) == 1


@pytest.mark.parametrize("what", FEW)
def test_a_bug_is_found(what: str) -> None:
    (finding,) = find_bugs([bug for bug in BUGS if bug.what == what], seeds=500, jobs=1, simulation=SIMULATION)
    assert finding.seeds is not None, finding.output


@pytest.mark.slow
@pytest.mark.mutation
@pytest.mark.timeout(3600)
def test_every_bug_is_found() -> None:
    findings = find_bugs(BUGS, seeds=2000, jobs=2, simulation=SIMULATION)
    missed = [finding.bug.what for finding in findings if finding.seeds is None]
    assert not missed
