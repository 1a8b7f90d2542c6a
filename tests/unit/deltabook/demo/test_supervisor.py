"""The supervisor over real processes: whatever they do, the demo ends, says why, and leaves none behind."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from deltabook.demo import (
    ChildError,
    DemoError,
    DemoFigures,
    DemoTimeouts,
    InterruptedDemoError,
    Screen,
    Stage,
    Supervisor,
)

pytestmark = pytest.mark.process

FAKE_CHILD = Path(__file__).with_name("fake_child.py")
ROOT = Path(__file__).parents[4]
LIMITS = DemoTimeouts(ready_s=60, first_update_s=60, stop_s=30, kill_s=30, tick_s=0.1)
ENVIRON = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT)}


class Recorder(Screen):
    """Keeps the reported lines, and calls `on_report` with each."""

    def __init__(self, on_report: Callable[[str], None] = lambda line: None) -> None:
        self.lines: list[str] = []
        self.drawn = 0
        self.is_closed = False
        self._on_report = on_report

    def report(self, line: str) -> None:
        self.lines.append(line)
        self._on_report(line)

    def draw(self, figures: DemoFigures) -> None:
        del figures
        self.drawn += 1

    def close(self) -> None:
        self.is_closed = True


def fake(role: str, stop_order: int, mode: str = "well", path: Path | None = None) -> Stage:
    def command(ports: Mapping[str, int]) -> list[str]:
        del ports
        return [sys.executable, str(FAKE_CHILD), role, mode, *([] if path is None else [str(path)])]

    return Stage(role, command, stop_order)


def stages(exchange: str = "well", runtime: str = "well", algo: str = "well", path: Path | None = None) -> list[Stage]:
    modes = {"exchange": (exchange, 2), "runtime": (runtime, 3), "algo": (algo, 1)}
    return [fake(role, order, mode, path) for role, (mode, order) in modes.items()]


def supervisor(
    folder: Path, of: list[Stage], screen: Screen | None = None, seconds: float = 0.2, limits: DemoTimeouts = LIMITS
) -> Supervisor:
    return Supervisor(of, folder, screen or Recorder(), seconds=seconds, environ=ENVIRON, limits=limits)


def pids(lines: list[str]) -> list[int]:
    return [int(found[1]) for line in lines if (found := re.search(r"\(pid (\d+)", line))]


def assert_gone(numbers: list[int]) -> None:
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_a_demo_runs_its_time_and_its_figures_are_the_childrens(tmp_path: Path) -> None:
    screen = Recorder()
    figures = supervisor(tmp_path, stages(), screen).run()
    assert figures.shortfalls() == []
    assert figures.summary() == "1000 messages, 10 epochs, 60 view updates, 7 orders sent, 3 filled"
    assert figures.strategies() == {"sobi": {"fills": 2}}
    assert figures.record()["roles"]["exchange"]["stopping"] == 1  # type: ignore[index]
    assert screen.is_closed
    assert screen.drawn > 0
    assert screen.lines[0] == "starting exchange"
    assert "exchange is up" in screen.lines[1]
    assert "text port 4711" in screen.lines[1]
    assert len(pids(screen.lines)) == 3
    assert_gone(pids(screen.lines))


def test_later_stages_are_given_the_ports_of_earlier_ones(tmp_path: Path) -> None:
    seen: list[dict[str, int]] = []
    first, second, third = stages()

    def command(ports: Mapping[str, int]) -> list[str]:
        seen.append(dict(ports))
        return list(second.command(ports))

    supervisor(tmp_path, [first, Stage("runtime", command, 3), third]).run()
    assert seen == [{"exchange.text": 4711}]


def test_a_page_is_named_first_and_the_others_when_ready(tmp_path: Path) -> None:
    """`peers.json` is there as soon as one of them is, and never half of it."""
    seen: list[dict[str, str]] = []
    path = tmp_path / "peers.json"

    def look(line: str) -> None:
        if line.startswith("starting "):
            seen.append(json.loads(path.read_text()) if path.exists() else {})

    screen = Recorder(look)
    peers = [("exchange", "text"), ("results", "http"), ("algo", "http")]
    with_peers = [Stage(s.role, s.command, s.stop_order, peer) for s, peer in zip(stages(), peers, strict=True)]
    page = fake("dashboard", 0)
    run = supervisor(tmp_path, [Stage(page.role, page.command, 0, page="http"), *with_peers], screen)
    run.run()
    text, http = "127.0.0.1:4711", "127.0.0.1:4712"
    assert seen == [{}, {}, {"exchange": text}, {"exchange": text, "results": http}]
    assert json.loads(path.read_text()) == {"exchange": text, "results": http, "algo": http}
    assert screen.lines[2] == f"open http://{http}/ in a browser"
    assert run.figures.page == f"http://{http}/"


def test_children_are_stopped_in_their_order(tmp_path: Path) -> None:
    order = tmp_path / "order"
    limits = DemoTimeouts(ready_s=60, first_update_s=60, stop_s=30, tick_s=0.1)
    modes = stages("order", "order", "order", order)
    supervisor(tmp_path, modes, limits=limits).run()
    assert order.read_text().split() == ["algo", "exchange", "runtime"]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("crash", "runtime: out of paper, repeatedly"),
        ("failed_event", "runtime: expected paper, was none, repeatedly"),
        ("killed", "runtime: ended by SIGKILL, repeatedly"),
    ],
)
def test_a_child_that_keeps_dying_fails_the_demo(tmp_path: Path, mode: str, reason: str) -> None:
    """It is started three times more; then the others are stopped."""
    screen = Recorder()
    with pytest.raises(ChildError) as failed:
        supervisor(tmp_path, stages(runtime=mode), screen, seconds=60).run()
    assert str(failed.value) == reason
    if mode == "crash":
        assert failed.value.log_lines[0] == "some log line"
    assert sum(" died (" in line for line in screen.lines) == 3
    assert_gone(pids(screen.lines))


def test_a_child_that_dies_is_started_again_on_its_ports(tmp_path: Path) -> None:
    """The page's file says so meanwhile, and the figures of before stay."""
    seen: list[dict[str, int]] = []
    news: list[str] = []
    first, _, third = stages()

    def command(ports: Mapping[str, int]) -> list[str]:
        seen.append(dict(ports))
        return [sys.executable, str(FAKE_CHILD), "runtime", "crash_once", str(tmp_path / "mark")]

    def look(line: str) -> None:
        peers = json.loads((tmp_path / "peers.json").read_text()) if (tmp_path / "peers.json").exists() else {}
        news.append(peers.get("results.news", ""))

    screen = Recorder(look)
    runtime = Stage("runtime", command, 3, ("results", "http"))
    figures = supervisor(tmp_path, [first, runtime, third], screen).run()
    assert figures.view_updates == 60
    assert seen == [{"exchange.text": 4711}, {"exchange.text": 4711, "runtime.http": 4712, **seen[1]}]
    assert "runtime died (out of paper) and is being restarted" in screen.lines
    assert sum(line.startswith("runtime is up again (pid ") for line in screen.lines) == 1
    assert "It died (out of paper) and is being restarted." in news
    assert json.loads((tmp_path / "peers.json").read_text()) == {"results": "127.0.0.1:4712"}
    assert_gone(pids(screen.lines))


def test_chaos_kills_the_runtime_again_and_again(tmp_path: Path) -> None:
    """However often, it is no reason to give up; the others are left alone."""
    back = 0

    def interrupt(line: str) -> None:
        nonlocal back
        back += line.startswith("runtime is up again")
        if back == 5:
            os.kill(os.getpid(), signal.SIGINT)

    screen = Recorder(interrupt)
    run = Supervisor(stages(), tmp_path, screen, seconds=20, environ=ENVIRON, limits=LIMITS, chaos_s=0.1)
    with pytest.raises(InterruptedDemoError):
        run.run()
    kills = [line for line in screen.lines if line.startswith("chaos: kill -9 ")]
    died = [line for line in screen.lines if line == "runtime died (ended by SIGKILL) and is being restarted"]
    assert len(died) >= 5
    assert len(kills) >= len(died)
    assert not any(line.startswith(("exchange died", "algo died")) for line in screen.lines)
    assert_gone(pids(screen.lines))


def test_the_demos_time_counts_from_the_start_of_spark(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def go_on(line: str) -> None:
        if line.startswith("Spark is starting"):
            fifo.write_bytes(b"")

    screen = Recorder(go_on)
    supervisor(tmp_path, stages(runtime="spark", path=fifo), screen).run()
    said = [line.split(" after ")[0] for line in screen.lines]
    begin = said.index("first view update")
    assert said[begin + 1 : begin + 4] == [
        "Spark is starting, usually 20 s; the express lane publishes until then",
        "Spark is up",
        "running for 0.2 s",
    ]


def test_a_child_that_ignores_sigterm_is_killed_and_named(tmp_path: Path) -> None:
    screen = Recorder()
    limits = DemoTimeouts(ready_s=60, first_update_s=60, stop_s=0.2, kill_s=30, tick_s=0.1)
    with pytest.raises(ChildError, match=r"^exchange: expected to stop within 0\.2 s, was killed$"):
        supervisor(tmp_path, stages(exchange="hang"), screen, limits=limits).run()
    assert_gone(pids(screen.lines))


def test_a_child_that_ends_badly_when_stopped_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="algo: ended with exit code 3 when it was stopped"):
        supervisor(tmp_path, stages(algo="unclean")).run()


def test_a_child_that_never_gets_ready_is_named(tmp_path: Path) -> None:
    limits = DemoTimeouts(ready_s=0.2, stop_s=30, tick_s=0.1)
    with pytest.raises(DemoError, match=r"^expected exchange to be ready within 0\.2 s, was not; ") as failed:
        supervisor(tmp_path, stages(exchange="mute"), limits=limits).run()
    assert f"{tmp_path / 'exchange.log'} shows its progress" in str(failed.value)


def test_a_demo_without_view_updates_fails(tmp_path: Path) -> None:
    limits = DemoTimeouts(ready_s=60, first_update_s=0.2, stop_s=30, tick_s=0.1)
    with pytest.raises(DemoError, match=r"expected a first view update within 0\.2 s") as failed:
        supervisor(tmp_path, stages(runtime="idle"), limits=limits).run()
    assert str(tmp_path / "runtime.log") in str(failed.value)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_demo_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    def interrupt(line: str) -> None:
        if line.startswith("first view update"):
            os.kill(os.getpid(), number)

    screen = Recorder(interrupt)
    order = tmp_path / "order"
    before = signal.getsignal(number)
    with pytest.raises(InterruptedDemoError) as interrupted:
        supervisor(tmp_path, stages("order", "order", "order", order), screen, seconds=60).run()
    assert interrupted.value.signal_number == number
    assert order.read_text().split() == ["algo", "exchange", "runtime"]
    assert signal.getsignal(number) == before
    assert_gone(pids(screen.lines))


def test_a_closed_terminal_stops_the_demo_cleanly(tmp_path: Path) -> None:
    """A terminal that is closed sends SIGHUP more than once, and can no longer be written."""

    class Closing(Recorder):
        def draw(self, figures: DemoFigures) -> None:
            super().draw(figures)
            if self.is_lost:
                raise OSError(errno.EIO, "Input/output error")

        def close(self) -> None:
            raise OSError(errno.EIO, "Input/output error")

        is_lost = False

    def hang_up(line: str) -> None:
        if line.startswith("first view update"):
            screen.is_lost = True
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)

    screen = Closing(hang_up)
    order = tmp_path / "order"
    limits = DemoTimeouts(ready_s=60, first_update_s=60, stop_s=30, kill_s=30, tick_s=0)
    with pytest.raises(InterruptedDemoError):
        supervisor(tmp_path, stages("order", "order", "order", order), screen, seconds=60, limits=limits).run()
    assert order.read_text().split() == ["algo", "exchange", "runtime"]
    assert_gone(pids(screen.lines))


def test_a_second_interrupt_kills_at_once(tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        if line.startswith("first view update"):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    screen = Recorder(interrupt)
    order = tmp_path / "order"
    with pytest.raises(InterruptedDemoError):
        supervisor(tmp_path, stages("hang", "hang", "hang"), screen, seconds=60).run()
    assert not order.exists()
    assert_gone(pids(screen.lines))


def test_what_a_child_started_goes_with_it(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    supervisor(tmp_path, stages(runtime="grandchild", path=fifo)).run()
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # the end: nobody holds the other side any more
    os.close(reader)


DRIVER = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from test_supervisor import FAKE_CHILD, Recorder, stages, supervisor
supervisor(Path({folder!r}), stages("fifo", "fifo", "fifo", Path({fifo!r})),
           Recorder(lambda line: print(line, flush=True)), seconds=300).run()
"""


def test_when_the_supervisor_is_killed_the_children_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    code = DRIVER.format(here=str(FAKE_CHILD.parent), folder=str(tmp_path), fifo=str(fifo))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=ENVIRON) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            if line.startswith("first view update"):
                driver.kill()
    assert driver.returncode == -signal.SIGKILL
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # returns when the last child has ended
    os.close(reader)
