"""The rotation of the long runs: it resumes, records what fails, and reports."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest

from tests.conformance.grammar import random_query
from tests.endurance.nets import NETS, SHAPES, Command, Net, Slice
from tests.endurance.report import report
from tests.endurance.rotation import STATE, Rotation, State
from tests.endurance.running import Outcome, replays, run_slice

SLICE_S = 10


def fake(name: str, **options: object) -> Net:
    """A net whose commands say which seeds they are for."""
    values = {"unit": "seeds", "goal": 100, "counted": r"^(\d+) seeds", "first": 5} | options
    return msgspec.convert(
        {"name": name, "command": lambda part: Command((name, str(part.start), str(part.count)))} | values, Net
    )


class FakeRuns:
    """Runs commands of fake nets at ten seeds a second; some seeds fail, and one may be interrupted."""

    def __init__(self) -> None:
        self.seeds: dict[str, list[int]] = {}
        self.failing: dict[str, Outcome] = {}
        self.interrupted_at = -1
        self.now = 0.0
        self._numbers: Iterator[int] = count()

    def __call__(self, command: Command, limit_s: int) -> Outcome:
        if next(self._numbers) == self.interrupted_at:
            raise KeyboardInterrupt
        assert limit_s > SLICE_S
        name, start, amount = command.arguments
        self.seeds.setdefault(name, []).extend(range(int(start), int(start) + int(amount)))
        seconds = int(amount) / 10
        self.now += seconds
        return self.failing.get(name) or Outcome(0, f"{amount} seeds: fine\n", seconds)


def rotation(runs: FakeRuns, directory: Path, *nets: Net, commit: str = "c1") -> Rotation:
    """A rotation of fake nets on their clock."""
    named = {net.name: net for net in nets}
    return Rotation(named, directory, commit, slice_s=SLICE_S, run=runs, clock=lambda: runs.now)


def test_a_rotation_that_is_killed_resumes_and_repeats_no_seed(tmp_path: Path) -> None:
    runs, nets = FakeRuns(), (fake("a"), fake("b"))
    runs.interrupted_at = 3
    with pytest.raises(KeyboardInterrupt):
        rotation(runs, tmp_path, *nets).run(1000, lambda *_: None)
    assert list(runs.seeds) == ["a", "b"]
    assert len(runs.seeds["a"]) > len(runs.seeds["b"]) > 0
    resumed = rotation(runs, tmp_path, *nets)
    assert resumed.state.last == "a"
    turns: list[str] = []
    resumed.run(30, lambda net, _: turns.append(net.name))
    assert turns[:2] == ["b", "a"]
    for name, seeds in runs.seeds.items():
        assert seeds == list(range(len(seeds)))
        assert resumed.state.nets[name].done == len(seeds)
    assert not resumed.has_failures


def test_slices_grow_to_their_time(tmp_path: Path) -> None:
    """By at most a factor of four at once, since a first slice is short."""
    runs, sizes = FakeRuns(), []
    turning = rotation(runs, tmp_path, fake("a"))
    turning.run(60, lambda *_: sizes.append(turning.state.nets["a"].size))
    assert sizes[:4] == [20, 80, 100, 100]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome(1, "5 seeds: 1 bugs\nagain: python -m this --seed 3 -v\n", 1.0), "exit code 1"),
        (Outcome(None, "", 50.0), "no end within"),
        (Outcome(0, "nothing\n", 1.0), "nothing was counted"),
    ],
)
def test_a_failing_slice_is_recorded_and_the_rotation_goes_on(tmp_path: Path, outcome: Outcome, reason: str) -> None:
    runs, nets = FakeRuns(), (fake("bad"), fake("good"))
    runs.failing["bad"] = outcome
    turning = rotation(runs, tmp_path, *nets)
    turning.run(5, lambda *_: None)
    state = turning.state.nets
    assert state["good"].slices > 1
    assert state["bad"].failed == state["bad"].slices > 1
    first = state["bad"].failures[0]
    assert reason in first.reason
    assert first.replays == ["python -m this --seed 3 -v" if outcome.code else "python bad 0 5"]
    assert outcome.output in (tmp_path / first.log).read_text()
    later = rotation(runs, tmp_path, *nets)
    assert later.has_failures, "an earlier run's failure stays on record"
    later.forget_failures()
    mended = rotation(runs, tmp_path, *nets)
    assert not mended.has_failures
    assert mended.state.nets["bad"].next == state["bad"].next > 0


def test_records_and_logs_of_failures_are_bounded(tmp_path: Path) -> None:
    runs = FakeRuns()
    runs.failing["bad"] = Outcome(1, "", 1.0)
    turning = rotation(runs, tmp_path, fake("bad", sized_by="fixed"))
    turning.run(14.95, lambda *_: None)
    assert turning.state.nets["bad"].failed == 150
    assert len(turning.state.nets["bad"].failures) == 100
    assert len(list((tmp_path / "logs").iterdir())) == 101


def test_a_net_of_so_many_seeds_is_run_once_for_each_commit(tmp_path: Path) -> None:
    runs, net = FakeRuns(), fake("table", size=12)
    rotation(runs, tmp_path, net).run(1000, lambda *_: None)
    assert runs.seeds["table"] == list(range(12))
    rotation(runs, tmp_path, net).run(1000, lambda *_: None)
    assert runs.seeds["table"] == list(range(12))
    rotation(runs, tmp_path, net, commit="c2").run(1000, lambda *_: None)
    assert runs.seeds["table"] == [*range(12), *range(12)]


def test_the_report_says_what_was_done_of_each_goal(tmp_path: Path) -> None:
    runs, nets = FakeRuns(), (fake("a", goal=200), fake("bad"), fake("never"))
    runs.failing["bad"] = Outcome(1, "5 seeds: 1 bugs\nagain: python -m this --seed 3 -v\n", 1.0)
    rotation(runs, tmp_path, *nets[:2]).run(1, lambda *_: None)
    turning = rotation(runs, tmp_path, *nets[:2], commit="c2")
    turning.run(0.1, lambda *_: None)
    page = report({net.name: net for net in nets}, turning.state, turning.before, "c2")
    rows = {line.split(" | ")[0]: line for line in page.splitlines()}
    assert rows["| a"] == "| a | 25 seeds | 20 | 200 seeds | 12.5% | 0 | 10.00 seeds/s | 0:00:02 | c2 |"
    assert rows["| never"] == "| never | 0 seeds | 0 | 100 seeds | 0.0% | 0 | - | 0:00:00 | - |"
    assert "## bad: failure 1 of 1\n" in page
    assert "\npython -m this --seed 3 -v\n" in page


def test_a_damaged_state_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / STATE).write_text('{"turn": "x"}')
    with pytest.raises(ValueError, match=r"expected the state of a rotation in .*state\.json"):
        rotation(FakeRuns(), tmp_path, fake("a"))


def test_a_slice_is_a_process_with_a_limit() -> None:
    """What it prints is kept, with its standard error; its temporary files and what it has started go with it."""
    made = run_slice(Command(("-c", "import tempfile; print(tempfile.mkdtemp())")), 60)
    assert made.code == 0
    assert not Path(made.output.strip()).exists()
    endless = "import threading; threading.Event().wait()"
    child = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {endless!r}]).pid)"
    left = run_slice(Command(("-c", child)), 60)
    commands = Path("/proc") / left.output.strip() / "cmdline"
    assert not commands.exists() or not commands.read_bytes(), "it has ended, whether anybody has taken note or not"
    code = "import os, sys; print(os.environ['WHICH']); print('bad', file=sys.stderr); sys.exit(3)"
    ended = run_slice(Command(("-c", code), {"WHICH": "this"}), 60)
    assert (ended.code, sorted(ended.output.split())) == (3, ["bad", "this"])
    assert run_slice(Command(("-c", endless)), 1).code is None


def test_every_net_makes_a_command_and_names_what_repeats_it() -> None:
    for net in NETS.values():
        command = net.command(Slice(7, 20, 30, 2))
        assert shlex.split(str(command))[-len(command.arguments) :] == list(command.arguments)
        assert replays(net, command, "") == [str(command)]
    stream = NETS["fuzz-stream"]
    found = replays(stream, stream.command(Slice(0, 1, 1)), "seed 12\nTraceback\n")
    assert found == ["python -m tests.fuzz.trading --seed 12"]


def test_the_shapes_are_those_of_the_grammar() -> None:
    assert all(random_query(3, shape).startswith(("SELECT", "WITH", "(")) for shape in SHAPES)


def test_the_state_is_whole_after_every_slice(tmp_path: Path) -> None:
    runs = FakeRuns()
    turning = rotation(runs, tmp_path, fake("a"))

    def check(*_: object) -> None:
        assert msgspec.json.decode((tmp_path / STATE).read_bytes(), type=State) == turning.state

    turning.run(20, check)
    assert turning.state.turn > 2
