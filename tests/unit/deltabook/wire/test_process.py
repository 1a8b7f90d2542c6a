"""What a process sets for itself, in processes of their own, and how a supervised process ends."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from deltabook.wire.process import Reporter, SupervisedProcess, stop_on_signals
from deltabook.wire.status import Failed, parse_event


class Reactor(Clock):
    """A clock that notes when it is stopped."""

    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class Unstoppable(SupervisedProcess):
    """A process whose end fails, at once or later."""

    def __init__(self, reactor: Reactor, stdout: io.BytesIO, *, raises: bool) -> None:
        super().__init__(reactor, exit_with_stdin=False)
        self._reporter = Reporter("runtime", stdout, reactor, 0, dict)
        self._raises = raises

    def _begin(self) -> Any:
        return {}

    def _ready(self, ports: Any) -> None:
        self._reporter.ready(ports)

    def _end(self) -> Deferred[Any]:
        if self._raises:
            raise OSError("a full disk")
        return fail(OSError("a full disk"))


@pytest.mark.parametrize("raises", [True, False])
def test_an_end_that_fails_is_a_failure(raises: bool) -> None:
    reactor, stdout = Reactor(), io.BytesIO()
    process = Unstoppable(reactor, stdout, raises=raises)
    process._start()
    process._stop("SIGTERM")
    assert reactor.is_stopped
    assert process._failure == "a full disk"
    assert parse_event(stdout.getvalue().splitlines()[-1]) == Failed("runtime", "a full disk")


def test_as_many_files_may_be_open_as_there_may_be_connections() -> None:
    code = (
        "import resource\nfrom deltabook.wire.process import allow_files\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))\n"
        "print(allow_files(300), allow_files(200), allow_files(10_000), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "300 300 512 (512, 512)"


class Turns:
    """A reactor that carries out calls at once."""

    def callFromThread(self, call: Any, *given: Any) -> None:
        call(*given)


STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_every_signal_that_ends_a_process_is_a_stop() -> None:
    for number in STOPS:
        stopped: list[str] = []
        stop_on_signals(Turns(), stopped.append)
        os.kill(os.getpid(), number)
        assert stopped == [number.name]


@pytest.mark.usefixtures("handlers")
def test_a_hangup_is_never_a_second_signal() -> None:
    """A closed terminal sends SIGHUP several times; a second signal would end a clean stop at once."""
    stopped: list[str] = []
    stop_on_signals(Turns(), stopped.append)
    for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)
    assert stopped == ["SIGHUP", "SIGTERM"]


@pytest.mark.usefixtures("handlers")
def test_a_process_of_nohup_outlives_its_terminal() -> None:
    stopped: list[str] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop_on_signals(Turns(), stopped.append)
    os.kill(os.getpid(), signal.SIGHUP)
    assert stopped == []
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
