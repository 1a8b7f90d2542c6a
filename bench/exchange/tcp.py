"""The exchange as a process, with OUCH sessions that send orders and listeners that read its ITCH feed."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from bench.exchange.crowd import PASSWORD
from bench.exchange.load_process import Job, Result
from bench.report import Record, record
from exchange_server.logins import hash_password

__all__ = ["measure_tcp"]

_USERS: Final = ("ALPHA", "BRAVO", "CHARLY", "DELTA")
_SYMBOL: Final = "ACME"
_ORDER_BYTES: Final = 50
_BUSY_POLL_MS: Final = 100
_TIMEOUT_S: Final = 600


@contextmanager
def _exchange(folder: Path, fsync: str, busy_poll_ms: int) -> Iterator[dict[str, int]]:
    """Run an exchange without flow of its own; yield its ports."""
    users = folder / "users.toml"
    secret = hash_password(PASSWORD)
    users.write_text(
        "".join(
            f'[[user]]\nname = "{name}"\nbroker = {number}\nprotocol = "ouch5"\npassword = "{secret}"\n'
            for number, name in enumerate(_USERS, 1)
        ),
        "utf-8",
    )
    users.chmod(0o600)
    command = [sys.executable, "-m", "deltabook", "exchange", "--dir", str(folder / "exchange"), "--agents", "none"]
    command += ["--instruments", _SYMBOL, "--port", "none", "--itch-port", "0", "--ouch-port", "0"]
    command += ["--users", str(users), "--fsync", fsync, "--status-interval", "0", "--exit-with-stdin"]
    command += ["--busy-poll-ms", str(busy_poll_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["ports"]
        finally:
            process.terminate()
            process.wait()


def _load(job: Job) -> Result:
    command = [sys.executable, "-m", "bench.exchange.load_process"]
    done = subprocess.run(
        command, input=msgspec.json.encode(job) + b"\n", capture_output=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode:
        raise RuntimeError(f"expected a load that ends, was {done.stderr.decode()[-1_000:]}")
    return msgspec.json.decode(done.stdout, type=Result)


def _run(job: Job, fsync: str) -> Result:
    busy_poll_ms = _BUSY_POLL_MS if job.polls else 0
    with (
        tempfile.TemporaryDirectory(prefix="bench-exchange-") as folder,
        _exchange(Path(folder), fsync, busy_poll_ms) as ports,
    ):
        return _load(msgspec.structs.replace(job, ouch_port=ports["ouch"], itch_port=ports["itch"]))


def _pipelined(orders: int, listeners: int, sessions: int) -> Job:
    return Job(0, 0, list(_USERS[:sessions]), _SYMBOL, listeners, orders)


def _rates(job: Job, fsync: str, runs: int) -> list[float]:
    return [result.orders / result.seconds for result in (_run(job, fsync) for _ in range(runs))]


def _latencies(orders: int, fsync: str, runs: int, *, polls: bool) -> list[list[float]]:
    job = Job(0, 0, [_USERS[0]], _SYMBOL, 16, orders, in_flight_one=True, polls=polls)
    return [_run(job, fsync).latencies_us for _ in range(runs)]


def _echo_us(pings: int) -> list[float]:
    """Return the microseconds of round trips to a server that only answers, with messages of the same sizes."""
    command = [sys.executable, "-m", "bench.exchange.echo_process"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            address = ("127.0.0.1", int(process.stdout.readline()))
            with socket.create_connection(address) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return [_ping_us(connection) for _ in range(pings)]
        finally:
            process.kill()


def _ping_us(connection: socket.socket) -> float:
    before = time.perf_counter_ns()
    connection.sendall(bytes(_ORDER_BYTES))
    connection.recv(4_096)
    return (time.perf_counter_ns() - before) / 1_000


def measure_tcp(quick: bool) -> list[Record]:
    """Measure ``exchange.tcp.*``: orders per second through all parts, and the time of one order."""
    runs, orders, pings = (1, 40_000, 2_000) if quick else (5, 1_000_000, 20_000)
    _allow_files()
    what = "OUCH 5.0 in, matched, journalled, ITCH out to 16 listeners; half of the orders execute"
    records = [
        record("exchange.tcp.orders_per_s", _rates(_pipelined(orders, 16, 4), "interval", runs), "orders/s", what),
        record(
            "exchange.tcp.one_session.orders_per_s", _rates(_pipelined(orders, 16, 1), "interval", runs), "orders/s"
        ),
        record("exchange.tcp.no_listener.orders_per_s", _rates(_pipelined(orders, 0, 4), "interval", runs), "orders/s"),
        record("exchange.tcp.always.orders_per_s", _rates(_pipelined(orders, 16, 4), "always", runs), "orders/s"),
    ]
    many = _pipelined(orders // 20, 1_000, 4)
    results = [_run(many, "interval") for _ in range(runs)]
    records.append(
        record("exchange.tcp.listeners_1000.orders_per_s", [r.orders / r.seconds for r in results], "orders/s")
    )
    sent = [1_000 * r.feed_bytes / r.seconds / 1e6 for r in results]
    records.append(record("exchange.tcp.listeners_1000.mb_per_s", sent, "MB/s"))
    echoes = [_echo_us(pings) for _ in range(runs)]
    for name, fsync, polls in (
        ("exchange.tcp", "interval", True),
        ("exchange.tcp.sleeping", "interval", False),
        ("exchange.tcp.always", "always", False),
    ):
        took = _latencies(pings, fsync, runs, polls=polls)
        for percent in (50, 99):
            values, least = ([float(np.percentile(run, percent)) for run in runs_] for runs_ in (took, echoes))
            records.append(record(f"{name}.p{percent}_us", values, "us", "an echo on the same reactor, asleep", least))
    return records


def _allow_files() -> None:
    """Raise the limit of open files, here and for child processes: a thousand listeners need as many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 8_192 if hard == resource.RLIM_INFINITY else min(8_192, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
