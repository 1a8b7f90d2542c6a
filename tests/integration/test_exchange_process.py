"""The exchange as a process over real sockets, killed in mid-flow and started again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-c", "from deltabook.cli.exchange import command; command()"]
QUIET = ["--agents", "none"]


@contextmanager
def exchange(directory: Path, *options: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A running exchange and its port; it is killed at the end if it still runs."""
    arguments = ["--dir", str(directory), "--port", str(port), "--status-interval", "0", *options]
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        ready: dict[str, Any] = json.loads(process.stdout.readline())
        assert ready["event"] == "ready"
        yield process, ready["ports"]["text"]
    finally:
        process.kill()
        process.wait(timeout=20)
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


class Client:
    """A blocking connection that reads line by line."""

    def __init__(self, port: int, login: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._file = self._socket.makefile("rb")
        self.send(login)
        self.reply = self._file.readline().decode().strip().split(",")

    def send(self, *lines: str) -> None:
        self._socket.sendall("".join(f"{line}\n" for line in lines).encode())

    def read_while(self, wanted: Callable[[list[bytes]], bool]) -> list[bytes]:
        """Sequenced lines until a condition fails or the connection ends; a line cut short by that is not one."""
        got: list[bytes] = []
        try:
            while wanted(got):
                line = self._file.readline()
                if not line.endswith(b"\n"):
                    break
                if line.split(b",")[4] != b"H" and not line.startswith(b"0,"):
                    got.append(line)
        except ConnectionError:
            pass
        return got

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def shorter_than(count: int) -> Callable[[list[bytes]], bool]:
    """Whether there are fewer lines than that."""
    return lambda lines: len(lines) < count


def numbers(lines: list[bytes]) -> list[int]:
    return [int(line.split(b",", 1)[0]) for line in lines]


def test_listeners_over_a_kill_and_after_it_have_the_same_feed(tmp_path: Path) -> None:
    got: list[bytes] = []
    port = 0
    session = ""
    for rounds in range(3):
        with exchange(tmp_path, "--rate", "20000", port=port) as (process, port):
            listener = Client(port, f"1,{session},{len(got) + 1}")
            assert listener.reply[2] == str(len(got) + 1)
            session = session or listener.reply[1]
            assert listener.reply[1] == session
            got += listener.read_while(shorter_than(3000))
            if rounds < 2:
                os.kill(process.pid, signal.SIGKILL)
                # What the kernel had taken from the dead exchange still arrives.
                got += listener.read_while(lambda _: True)
            else:
                late = Client(port, f"1,{session},1")
                assert late.read_while(shorter_than(len(got))) == got
                late.close()
            listener.close()
    assert numbers(got) == list(range(1, len(got) + 1))
    times = [int(line.split(b",")[1]) for line in got]
    assert times == sorted(times)


def test_a_client_that_resends_after_a_kill_has_traded_once(tmp_path: Path) -> None:
    requests = [
        f"{n},0,0,7,{'B' if n % 2 else 'S'},{n % 9 + 1},{100 + n % 3},ACME" for n in range(1, 2001)
    ]  # fmt: skip
    got: list[bytes] = []
    with exchange(tmp_path / "killed", *QUIET) as (process, port):
        client = Client(port, "0,7,,1")
        session = client.reply[1]
        client.send(*requests[:1500])
        got += client.read_while(shorter_than(700))
        os.kill(process.pid, signal.SIGKILL)
        got += client.read_while(lambda _: True)
        client.close()
    with exchange(tmp_path / "killed", *QUIET, port=port) as (_, port):
        client = Client(port, f"0,7,{session},{len(got) + 1}")
        assert client.reply[:3] == ["A", session, str(len(got) + 1)]
        client.send(*requests)
        got += client.read_while(lambda lines: not lines or lines[-1].split(b",")[8] != b"2000")
        client.close()
        client = Client(port, f"0,7,{session},1")
        all_lines = client.read_while(shorter_than(len(got)))
        client.close()
    assert all_lines[: len(got)] == got
    assert numbers(got) == list(range(1, len(got) + 1))
    accepted = [line.split(b",")[8] for line in got if line.split(b",")[4] == b"A"]
    assert accepted == [str(n).encode() for n in range(1, 2001)]
    with exchange(tmp_path / "undisturbed", *QUIET) as (_, port):
        client = Client(port, "0,7,,1")
        client.send(*requests)
        undisturbed = client.read_while(shorter_than(len(got)))
        client.close()

    def without_time(lines: list[bytes]) -> list[list[bytes]]:
        return [line.split(b",")[2:] for line in lines]

    assert without_time(undisturbed) == without_time(got)


def test_a_taken_port_is_one_clear_line_and_exit_code_1(tmp_path: Path) -> None:
    with exchange(tmp_path / "a", *QUIET) as (_, port):
        arguments = ["--dir", str(tmp_path / "b"), "--port", str(port), *QUIET]
        second = subprocess.run(
            [sys.executable, "-m", "deltabook", "exchange", *arguments], capture_output=True, timeout=60, check=False
        )
    assert second.returncode == 1
    assert second.stdout == b""
    errors = [line for line in second.stderr.decode().splitlines() if "failed" in line]
    assert errors[-1].startswith(f"deltabook exchange: failed: expected a free port, was 127.0.0.1:{port}")
    assert "Traceback" not in second.stderr.decode()


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGHUP", "stdin"])
def test_a_clean_stop_says_why_and_exits_with_0(tmp_path: Path, how: str) -> None:
    with exchange(tmp_path, "--exit-with-stdin") as (process, port):
        listener = Client(port, "1,,1")
        listener.read_while(shorter_than(100))
        assert process.stdin is not None
        assert process.stdout is not None
        if how == "stdin":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[how])
        assert [json.loads(line)["event"] for line in process.stdout] == ["status", "stopped"]
        assert process.wait(timeout=20) == 0
        listener.close()


def test_flow_waits_for_those_it_is_told_to_wait_for(tmp_path: Path) -> None:
    with exchange(tmp_path, "--start-on", "1", "--start-on-brokers", "1") as (_, port):
        listener = Client(port, "1")
        assert listener.reply[2] == "1"
        trader = Client(port, "0,9001")
        assert trader.reply == ["A", listener.reply[1], "1", "0"]
        assert numbers(listener.read_while(shorter_than(10))) == list(range(1, 11))
        listener.close()
        trader.close()
