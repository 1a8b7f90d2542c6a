# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""A cluster of this machine: who is started when, what is said of who ends, and that nobody is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from deltabook.cluster import tied
from deltabook.cluster.errors import ClusterError
from deltabook.cluster.local import LocalCluster, LocalConfig
from runtime.spark.java import JavaHome


class Child:
    """A process that does what a test says."""

    def __init__(self, protocol: Any, command: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self.protocol, self.command, self.environ = protocol, command, environ
        self.pid = 4711
        self.signals: list[str] = []
        self.obeys = True

    def says(self, line: str) -> None:
        self.protocol.errReceived(line.encode() + b"\n")

    def signalProcess(self, name: str) -> None:
        if self.pid == 0:
            raise ProcessExitedAlready
        self.signals.append(name)
        if self.obeys or name == "KILL":
            self.ends(signal.Signals["SIG" + name])

    def ends(self, number: signal.Signals | None = None) -> None:
        self.pid = 0
        reason = ProcessDone(None) if number is None else ProcessTerminated(signal=number)
        self.protocol.processEnded(Failure(reason))


class Machine(Clock):
    """A reactor whose processes are `Child`."""

    def __init__(self) -> None:
        super().__init__()
        self.children: list[Child] = []

    def spawnProcess(self, protocol: Any, program: str, args: Any, env: Mapping[str, str], path: Any) -> Child:
        del program, path
        self.children.append(Child(protocol, tuple(args), env))
        return self.children[-1]


class Rig:
    """A cluster on such a machine, and what it says."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.machine = Machine()
        self.failures: list[str] = []
        self.told: list[tuple[str, bytes]] = []
        config = LocalConfig(directory, workers=workers)
        self.cluster = LocalCluster(
            self.machine, config, {}, self.failures.append, lambda name, line: self.told.append((name, line))
        )
        self.ports: list[dict[str, int]] = []
        self.refusals: list[Failure] = []
        self.cluster.start().addCallbacks(self.ports.append, self.refusals.append)

    def master_up(self) -> None:
        """The master is there."""
        self.master.says("INFO Master: Starting Spark master at spark://127.0.0.1:47")
        self.master.says("INFO MasterWebUI: Bound MasterWebUI to 127.0.0.1, and started at http://127.0.0.1:11")

    def up(self) -> None:
        """All are there."""
        self.master_up()
        for worker in self.workers:
            worker.says("INFO Worker: Successfully registered with master spark://127.0.0.1:47")

    @property
    def master(self) -> Child:
        return self.machine.children[0]

    @property
    def workers(self) -> list[Child]:
        return self.machine.children[1:]


@pytest.fixture(autouse=True)
def any_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for one takes as long as to start it."""
    java = JavaHome(Path("/java"), 17, "JAVA_HOME")
    monkeypatch.setattr("deltabook.cluster.daemons.find_java", lambda environ: java)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_workers_are_started_when_the_master_has_an_address(rig: Rig) -> None:
    assert len(rig.machine.children) == 1
    rig.master.says("INFO Master: Starting Spark master at spark://127.0.0.1:47")
    assert not rig.workers
    rig.master.says("INFO MasterWebUI: Bound MasterWebUI to 127.0.0.1, and started at http://127.0.0.1:11")
    assert [worker.command[-1] for worker in rig.workers] == ["spark://127.0.0.1:47"] * 2
    first, second = rig.workers
    first.says("INFO Worker: Successfully registered with master spark://127.0.0.1:47")
    first.says("INFO Worker: Successfully registered with master spark://127.0.0.1:47")
    assert rig.ports == []
    second.says("INFO Worker: Successfully registered with master spark://127.0.0.1:47")
    assert rig.ports == [{"master": 47, "ui": 11}]
    assert rig.cluster.figures() == {"workers": 2, "cores": 2, "lost_workers": 0}


def test_every_line_is_passed_on_and_an_endless_line_bounded(rig: Rig) -> None:
    rig.master.protocol.errReceived(b"half")
    rig.master.protocol.errReceived(b" a line\nand")
    assert rig.told == [("master", b"half a line")]
    rig.master.protocol.errReceived(b"x" * 10**6)
    rig.master.protocol.errReceived(b"\n")
    assert len(rig.told[-1][1]) == 64 * 1024


def test_a_worker_that_ends_is_counted_and_not_started_again(rig: Rig) -> None:
    rig.up()
    rig.workers[0].ends(signal.SIGKILL)
    assert rig.cluster.figures() == {"workers": 1, "cores": 1, "lost_workers": 1}
    assert len(rig.workers) == 2
    assert rig.failures == []


def test_without_its_master_a_cluster_has_failed(rig: Rig) -> None:
    rig.up()
    rig.master.ends(signal.SIGKILL)
    assert rig.failures == ["expected the master to run, was: ended by SIGKILL"]


def test_a_start_fails_once(rig: Rig) -> None:
    """The owner stops what is left; until then other processes may end too."""
    rig.master_up()
    for child in (*rig.workers, rig.master):
        child.ends(signal.SIGKILL)
    assert (len(rig.refusals), rig.failures) == (1, [])


@pytest.mark.parametrize("who", [0, 1])
def test_a_start_fails_with_who_ends_in_it(rig: Rig, who: int) -> None:
    if who:
        rig.master_up()
    rig.machine.children[who].ends()
    (refusal,) = rig.refusals
    assert refusal.check(ClusterError)
    assert "ended with 0" in str(refusal.value)


def test_a_start_has_an_end(rig: Rig) -> None:
    rig.machine.advance(121)
    (refusal,) = rig.refusals
    assert "expected the master to be ready within 120 s" in str(refusal.value)


def test_a_stop_asks_all_and_waits_for_all(rig: Rig) -> None:
    rig.up()
    stubborn = rig.workers[1]
    stubborn.obeys = False
    stopped: list[None] = []
    rig.cluster.stop().addCallback(stopped.append)
    assert [child.signals for child in rig.machine.children] == [["TERM"]] * 3
    assert stopped == []
    rig.machine.advance(11)
    assert stubborn.signals == ["TERM", "KILL"]
    assert stopped == [None]
    assert rig.failures == []
    assert rig.cluster.lost_workers == 0
    assert rig.machine.getDelayedCalls() == []


def test_a_directory_is_one_cluster_alone(tmp_path: Path) -> None:
    Rig(tmp_path)
    with pytest.raises(ClusterError, match="in use"):
        Rig(tmp_path)


@pytest.mark.process
def test_a_program_ends_when_who_started_it_is_killed() -> None:
    """Its input stays open, as the test holds the other end: it is the signal that ends it."""
    program = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, {tied.__file__!r}, '/bin/cat'])\n"
        "child.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(b"x\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == b"x\n"  # it is cat by now
        parent.kill()
        assert parent.stdout.read() == b""  # the last one that could write has gone
