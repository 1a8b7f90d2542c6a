"""Resources of a runtime over time: samples, the rule for a flat use, and the picture."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.soak.drawing import draw
from tests.soak.resources import USES, WARM_S, ResourceSampler, Sample, growths, read_samples

USED = 1_000_000_000


def samples(disk: Sequence[int], *, every_s: float = 10.0, start_at: int = 0) -> list[Sample]:
    """Return samples of a runtime with constant use of everything but the disk; it was restarted at ``start_at``."""
    found = []
    for number, size in enumerate(disk):
        is_second = bool(start_at) and number >= start_at
        age = (number - start_at * is_second) * every_s
        found.append(Sample(number * every_s, int(is_second), age, USED, 30, 20, USED, 400, 90, size))
    return found


def verdicts(taken: list[Sample]) -> dict[str, bool | None]:
    """Return for each use True if it is flat."""
    return {growth.use: growth.is_flat for growth in growths(taken)}


def test_what_grows_in_the_second_half_is_not_flat() -> None:
    assert set(verdicts(samples([USED] * 80)).values()) == {True}
    growing = verdicts(samples([USED + 20_000_000 * number for number in range(80)]))
    assert growing == dict.fromkeys(USES, True) | {"disk_bytes": False}
    first_half = [10 * USED * min(number, 40) // 40 for number in range(80)]
    assert verdicts(samples(first_half))["disk_bytes"], "what a start fills does not count"


def test_a_growth_within_the_allowance_is_flat() -> None:
    """A small use may grow by more than a tenth after a snapshot."""
    allowed = USES["disk_bytes"]
    assert verdicts(samples([1_000] * 60 + [1_000 + allowed] * 20))["disk_bytes"]
    assert not verdicts(samples([1_000] * 60 + [1_001 + allowed] * 20))["disk_bytes"]


def test_samples_soon_after_a_start_do_not_count() -> None:
    high = [USED] * 58 + [5 * USED] * 15 + [USED] * 7
    assert WARM_S == 15 * 2.0
    assert verdicts(samples(high, every_s=2.0, start_at=58))["disk_bytes"]
    assert not verdicts(samples(high, every_s=2.0))["disk_bytes"], "without that start they do"


def test_too_few_samples_say_nothing() -> None:
    assert set(verdicts(samples([USED] * 12)).values()) == {None}
    assert set(verdicts([]).values()) == {None}


def test_a_process_and_its_children_are_sampled(tmp_path: Path) -> None:
    """Samples of a process and its children are written, and read back unchanged."""
    run, path = tmp_path / "run", tmp_path / "resources.csv"
    run.mkdir()
    (run / "file").write_bytes(b"x" * 1000)
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with ResourceSampler(run, path, every_s=0.01) as sampler:
            sampler.watch(process.pid)
            waiting = threading.Event()
            while not (path.exists() and len(read_samples(path)) > 2):
                waiting.wait(0.01)
            sampler.watch(None)
        process.communicate(b"\n")
    taken = read_samples(path)
    assert {(sample.start, sample.disk_bytes) for sample in taken} == {(0, 1000)}
    for sample in taken:
        assert min(sample.runtime_rss_bytes, sample.children_rss_bytes) > 1_000_000
        assert min(sample.runtime_descriptors, sample.children_descriptors) >= 3
        assert (sample.runtime_threads, sample.children_threads) == (1, 1)
    draw(taken, tmp_path / "resources.png")
    assert (tmp_path / "resources.png").read_bytes().startswith(b"\x89PNG")
