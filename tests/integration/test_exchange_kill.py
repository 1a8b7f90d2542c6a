"""An exchange whose journal waits for the disk is killed under load, again and again, at random moments.

Two traders send OUCH as fast as it is answered, a listener follows the ITCH feed, and snapshots are written on the
way; some kills hit the exchange while it starts. Whatever anybody was told must be found again, and the exchange must
then be what a market is that has applied the same journal in one go.

``DELTABOOK_KILLS`` says how often in the long test, ``DELTABOOK_TEST_SEED`` which moments.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from deltabook.wire import admin
from exchange_server.journal.verification import verify
from exchange_server.logins import hash_password
from exchange_server.outputs import all_outputs
from tests.integration._exchange_load import Listener, Trader, Uninterrupted, drive

pytestmark = pytest.mark.process

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "2"))
KILLS = int(os.environ.get("DELTABOOK_KILLS", "50"))

COMMAND = [sys.executable, "-c", "from deltabook.cli.exchange import command; command()"]
OPTIONS = [
    "--port", "none", "--itch-port", "0", "--ouch-port", "0", "--admin-port", "0", "--instruments", "ACME,GLOBEX",
    "--agents", "none", "--fsync", "always", "--snapshot-inputs", "100", "--status-interval", "0",
]  # fmt: skip
STARTING = 0.15
"""Of the kills, how many hit an exchange that is not there yet."""
SNAPSHOT_S = 1.0
"""After its start an exchange first looks whether a snapshot is due."""


@contextmanager
def exchange(directory: Path, users: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An exchange, which is killed at the end."""
    arguments = [*COMMAND, "--dir", str(directory), "--users", str(users), *OPTIONS]
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=60)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def ports_of(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """Wait until it serves."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        assert process.stderr is not None
        raise AssertionError(process.stderr.read().decode())
    ready = json.loads(line)
    assert ready["event"] == "ready"
    ports: dict[str, int] = ready["ports"]
    return ports


def hash_of(port: int) -> admin.StateHash:
    """The hash of the state of a running exchange."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{admin.HASH_PATH}", timeout=60) as answer:
        return msgspec.json.decode(answer.read(), type=admin.StateHash)


class Kills:
    """The same directory, killed again and again."""

    def __init__(self, path: Path, seed: int) -> None:
        self._directory = path / "exchange"
        self._users = path / "users.toml"
        self._chance = random.Random(seed)
        self._now = iter(time.monotonic, None)
        self._write_users()
        self.traders = [Trader("ALPHA", "one", seed), Trader("BETA", "two", seed + 1)]
        self.listener = Listener("ALPHA", "one")
        self._rest = {name: Trader(name, "", 0) for name in ("ALPHA", "BETA")}
        """What the streams of the uninterrupted run say."""
        self._uninterrupted: Uninterrupted | None = None
        self.from_snapshots = 0
        """Starts that had a snapshot to begin with."""

    def _write_users(self) -> None:
        users = [("ALPHA", "one", 7), ("BETA", "two", 8)]
        self._users.write_text(
            "\n".join(
                f'[[user]]\nname = "{name}"\npassword = "{hash_password(word)}"\nbroker = {broker}\nprotocol = "ouch5"'
                for name, word, broker in users
            )
        )

    def kill(self) -> None:
        """Start, check what was found, load, and kill at a random moment."""
        with exchange(self._directory, self._users) as process:
            if self._chance.random() < STARTING:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(self._chance.uniform(0.0, 0.8))
                return
            ports = ports_of(process)
            self.check(hash_of(ports["admin"]))
            self._connect(ports)
            # As often around a snapshot as in the time before it.
            load_s = self._chance.choice(
                (self._chance.uniform(0.01, 0.5), SNAPSHOT_S + self._chance.uniform(-0.3, 0.3))
            )
            drive([*self.traders, self.listener], next(self._now) + load_s, self._now)
            process.kill()
            for client in (*self.traders, self.listener):
                client.end()

    def _connect(self, ports: dict[str, int]) -> None:
        for trader in self.traders:
            trader.connect(ports["ouch"])
        self.listener.connect(ports["itch"])

    def check(self, found: admin.StateHash) -> None:
        """What a start has found is what the journal gives, and holds everything that anybody was told."""
        if self._uninterrupted is None:
            self._uninterrupted = Uninterrupted(self._directory)
        one = self._uninterrupted
        one.advance(found.inputs)
        assert one.market.state_hash() == found.hash, f"after {found.inputs} inputs"
        self.from_snapshots += any((self._directory / "snapshots").glob("*.snapshot"))
        feed = one.messages("feed.itch")
        assert feed[: len(self.listener.received)] == self.listener.received
        for trader, name in zip(self.traders, ("ALPHA", "BETA"), strict=True):
            told = one.messages(f"private/ouch:{name}.packets")
            assert told[: len(trader.received)] == trader.received
            account = one.market.account_named(f"ouch:{name}")
            rest = self._rest[name]
            for message in told[len(rest.received) :]:
                rest.received.append(message)
                rest.hear(message)
            acknowledged = set(trader.open_shares)
            assert acknowledged <= set(rest.open_shares), "an acknowledged order is not in the stream"
            live = {ref for ref, shares in rest.open_shares.items() if shares}
            assert live == set(account.orders if account else ()), (
                "what was acknowledged and has not ended is in the book"
            )

    def finish(self) -> None:
        """One more start: everything is there, for whoever asks from the first message on too."""
        with exchange(self._directory, self._users) as process:
            ports = ports_of(process)
            self.check(hash_of(ports["admin"]))
            late = Listener("BETA", "two")
            late.connect(ports["itch"])
            self._connect(ports)
            expected = len(self._uninterrupted.messages("feed.itch") if self._uninterrupted else ())
            while len(late.received) < expected:
                assert late.take()
            while len(self.listener.received) < expected:
                assert self.listener.take()
            assert self.listener.received[:expected] == late.received[:expected]
            for client in (*self.traders, self.listener, late):
                assert client.socket is not None
                client.socket.close()
        report = verify(self._directory, all_outputs)
        assert report.problems == ()
        assert len(self.listener.received) > 100


def kill_again_and_again(path: Path, seed: int, kills: int) -> None:
    """Kill the exchange so often, and compare what it has come to with a market of the same journal."""
    runs = Kills(path, seed)
    for _ in itertools.repeat(None, kills):
        runs.kill()
    runs.finish()
    assert all(trader.open_shares for trader in runs.traders)
    assert runs.from_snapshots or kills < 10


def test_whatever_was_acknowledged_is_found_again_after_a_kill(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, 1, 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_whatever_was_acknowledged_survives_many_kills(tmp_path: Path) -> None:
    sys.stderr.write(f"DELTABOOK_TEST_SEED={SEED} DELTABOOK_KILLS={KILLS}\n")
    kill_again_and_again(tmp_path, SEED, KILLS)
