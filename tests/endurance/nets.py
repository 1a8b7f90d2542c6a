"""The nets: what each is, how much of it the goal asks for, and the command of one slice of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from tests.mutations.breaks import LISTS

__all__ = ["NETS", "Command", "Net", "Slice"]

_FUZZ_GOAL_S: Final = 20 * 60
_TIMED_STRIDE: Final = 1_000_000
"""Seeds that belong to one slice of a net that runs for a time: far more than it can use."""
_SEED: Final = r"^seed (\d+)$"
SHAPES: Final = (
    "rows", "groups", "join", "range_join", "threshold", "semi", "set_operation", "top", "nested", "select_list",
    "windows", "temporal", "quantified", "values",
)  # fmt: skip
"""The shapes of `tests.conformance.grammar`."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a net a process is to run."""

    start: int
    """The first seed."""
    count: int
    """How many seeds; of a net that runs for a time, those that belong to the slice."""
    seconds: int
    """How long, for a net that runs for a time."""
    number: int = 0
    """How many slices of the net were run before."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command line."""

    arguments: tuple[str, ...]
    """After the Python interpreter."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment."""

    def __str__(self) -> str:
        """For a shell, from the root of the tree."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*settings, "python", shlex.join(self.arguments)])


@dataclass(frozen=True, slots=True)
class Net:
    """One way to find faults, run in slices."""

    name: str
    """What ``--only`` and the report call it."""
    unit: str
    """What the goal counts: seeds, pairs, kills, breaks, or seconds that it has run."""
    goal: int
    """How many."""
    command: Callable[[Slice], Command]
    """Makes the command of a slice. It must end with exit code 0 if and only if nothing was found."""
    counted: str
    """Regular expression; the sum of its first group in what a slice prints says how much the slice has run."""
    sized_by: Literal["count", "time", "fixed"] = "count"
    """A slice is given so many seeds as fill its time, or its time, or it takes what it takes for one seed."""
    first: int = 1
    """Seeds of the first slice, whose rate sizes the next one."""
    size: int | None = None
    """Number of seeds if there are only so many: each commit runs them once."""
    per_pass: int = 1
    """Units for each one that was counted."""
    items: str = ""
    """What ``counted`` counts, where the unit is seconds."""
    limit_s: int = 1200
    """No slice may take longer."""
    failing_seed: str | None = None
    """Regular expression of a failing seed in what is printed, for a net that prints no command with it."""
    again: str = ""
    """The command that repeats it, with ``{}`` for the seed."""


def _seeded(module: str, *options: str) -> Callable[[Slice], Command]:
    return lambda part: Command(
        ("-m", module, "--seeds", str(part.count), "--start", str(part.start), "--jobs", "2", *options)
    )


def _timed(module: str) -> Callable[[Slice], Command]:
    return lambda part: Command(
        ("-m", module, "--seconds", str(part.seconds), "--start", str(part.start), "--jobs", "2")
    )


def _shape(part: Slice) -> Command:
    """The shapes take turns, each with seeds that no other slice has."""
    shape = SHAPES[part.number % len(SHAPES)]
    return _seeded("tests.conformance.fuzz", "--shape", shape)(part)


def _tests(*tests: str, kills: int = 0) -> Callable[[Slice], Command]:
    """Tests that follow from ``DELTABOOK_TEST_SEED``, slow ones included; 0 would be a random one."""
    options = ("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not docker", *tests)
    more = {"DELTABOOK_KILLS": str(kills)} if kills else {}
    return lambda part: Command(
        options, {"DELTABOOK_TEST_SEED": str(part.start + 1), "DELTABOOK_EXAMPLES": "all", **more}
    )


def _mutations(name: str) -> Callable[[Slice], Command]:
    return lambda part: Command(
        ("-m", "tests.mutations", name, "--start", str(part.start), "--breaks", str(part.count))
    )


def _soak(part: Slice) -> Command:
    changes = max(4, part.seconds // 6)
    return Command(
        ("-m", "tests.soak", "--seconds", str(part.seconds), "--seed", str(part.start // _TIMED_STRIDE + 1),
         "--changes", str(changes), "--restarts", "1", "--cuts", str(changes // 10 + 1))
    )  # fmt: skip


_PASSED: Final = r"(\d+) passed"
_KILL: Final = "tests/integration/test_kill.py::"
_KILLS: Final = 10

_NETS: Final = (
    Net("runtime", "seeds", 20_000, _seeded("tests.simulation"), r"^([\d,]+) seeds: ", first=40),
    Net("exchange", "seeds", 10_000, _seeded("tests.simulation.exchange"), r"^([\d,]+) seeds: ", first=40),
    Net("upstreams", "seeds", 2_000, _seeded("tests.simulation.upstreams"), r"^([\d,]+) seeds: ", first=20),
    Net("days", "seeds", 1_000, _seeded("tests.simulation.closed"), r"^([\d,]+) seeds: ", first=20),
    # The tests in which the number of kills is a setting.
    Net("kills-streams", "kills", 100,
        _tests("tests/integration/test_streams_kill.py::test_streams_survive_many_kills", kills=_KILLS),
        _PASSED, "fixed", per_pass=_KILLS),
    Net("kills-adaptor", "kills", 100,
        _tests("tests/integration/trading/test_adaptor_killed.py::test_the_state_of_an_adaptor_survives_many_kills",
               kills=_KILLS),
        _PASSED, "fixed", per_pass=_KILLS),
    Net("kills-runtime", "kills", 100, _tests(f"{_KILL}test_a_runtime_killed_in_its_start_and_in_the_flow"),
        _PASSED, "fixed", per_pass=2),
    Net("kills-express", "kills", 100, _tests(f"{_KILL}test_the_express_lane_alone_killed_again_and_again"),
        _PASSED, "fixed", per_pass=3),
    Net("kills-readers", "kills", 100,
        _tests("tests/integration/trading/test_readers_killed.py::test_readers_come_and_go_below_kills"),
        _PASSED, "fixed", per_pass=6),
    Net("kills-exchange", "kills", 100,
        _tests("tests/integration/test_exchange_kill.py::test_whatever_was_acknowledged_survives_many_kills",
               kills=_KILLS),
        _PASSED, "fixed", per_pass=_KILLS),
    # With the capture of a real market, which is fetched where it is not there yet.
    Net("kills-market", "kills", 100, _tests(f"{_KILL}test_a_runtime_killed_again_and_again", kills=_KILLS),
        _PASSED, "fixed", per_pass=_KILLS, limit_s=7200),
    Net("pairs", "pairs", 10_000, _seeded("tests.conformance.fuzz"), r"^(\d+) pairs ", first=200),
    Net("pairs-shapes", "pairs", 10_000, _shape, r"^(\d+) pairs ", first=200),
    Net("pairs-tiers", "pairs", 10_000, _seeded("tests.conformance.fuzz", "--streams", "20", "--tiers"),
        r"^(\d+) pairs ", first=4),
    Net("fuzz-formats", "seconds", _FUZZ_GOAL_S, _timed("tests.conformance.formats.fuzz"), r"^(\d+) cases ", "time",
        items="cases"),
    Net("fuzz-exchange", "seconds", _FUZZ_GOAL_S, _timed("tests.fuzz.exchange"), r"^([\d,]+) messages, ", "time",
        items="messages"),
    Net("fuzz-stream", "seconds", _FUZZ_GOAL_S, _timed("tests.fuzz.trading"), r"([\d,]+) messages, ", "time",
        items="messages", failing_seed=_SEED, again="python -m tests.fuzz.trading --seed {}"),
    Net("fuzz-service", "seconds", _FUZZ_GOAL_S, _tests("tests/integration/trading/test_service_description.py"),
        _PASSED, "fixed", items="tests"),
    *(
        Net(f"mutations-{rows.name}", "breaks", len(rows.breaks()), _mutations(rows.name), r"^(\d+) breaks, ",
            first=4, size=len(rows.breaks()))
        for rows in LISTS.values()
    ),
    # 8 hours of a market of 2 requests a second, 20 times as fast.
    Net("soak", "seconds", 8 * 3600 // 20, _soak, r"comparisons=(\d+)", "time",
        items="comparisons"),
)  # fmt: skip

NETS: Final[Mapping[str, Net]] = MappingProxyType({net.name: net for net in _NETS})
"""All of them by name, in the order of their turns."""


def reserved(net: Net, count: int) -> int:
    """How far the next seed of a net moves with a slice that was asked for so many seeds."""
    return _TIMED_STRIDE if net.sized_by == "time" else count
