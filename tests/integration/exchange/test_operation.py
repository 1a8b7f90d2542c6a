"""An exchange is operated while it runs, as a process over real sockets; its journal is read when it has stopped."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from deltabook.cli import main
from deltabook.wire import admin
from deltabook.wire.itch import frames
from tests.generators.certificates import make_certificate
from tests.integration._processes import DEADLINE_S, Running, exchange

pytestmark = pytest.mark.process

QUIET = ("--agents", "none", "--instruments", "ACME,GLOBEX")
TOKEN = "a-token-that-is-long-enough"


def run(*arguments: str) -> Result:
    """`deltabook exchange`, in this process."""
    return CliRunner().invoke(main, ["exchange", *arguments])


def answer(*arguments: str) -> Any:
    """What a command says in JSON, which goes well."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


class Trader:
    """A text client that waits for each answer."""

    def __init__(self, process: Running, broker: int) -> None:
        port = process.ready().ports["text"]
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self._lines = self._socket.makefile("rb")
        self._socket.sendall(f"0,{broker},,1\n".encode())
        self.peer = "{}:{}".format(*self._socket.getsockname())
        assert self._lines.readline().startswith(b"A,")
        self._broker = broker

    def ask(self, number: int, side: str, volume: int, price: int, symbol: str = "ACME") -> str:
        """The first word about an order: A accepted, R refused."""
        self._socket.sendall(f"{number},0,0,{self._broker},{side},{volume},{price},{symbol}\n".encode())
        for line in self._lines:
            fields = line.decode().rstrip("\n").split(",")
            if fields[4] in {"A", "R"} and fields[8] == str(number):
                return fields[4]
        raise AssertionError("expected an answer, was the end of the connection")

    def is_cut(self) -> bool:
        """Wait for the end of the connection."""
        try:
            return all(line for line in self._lines)
        except ConnectionError:
            return True

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


@contextmanager
def trading(process: Running, broker: int) -> Iterator[Trader]:
    trader = Trader(process, broker)
    try:
        yield trader
    finally:
        trader.close()


def test_an_operator_halts_resumes_inspects_and_cuts_sessions(tmp_path: Path) -> None:
    where = ("--dir", str(tmp_path))
    with exchange(tmp_path, *QUIET) as process, trading(process, 7) as trader, trading(process, 8) as other:
        assert trader.ask(1, "B", 5, 100) == "A"
        assert answer("halt", "ACME", "--reason", "NEWS", *where)["what"] == "ACME is halted"
        assert trader.ask(2, "B", 5, 101) == "R"
        assert trader.ask(3, "B", 5, 101, "GLOBEX") == "A"
        answer("resume", "ACME", *where)
        assert other.ask(1, "S", 2, 100) == "A"
        assert answer("book", "ACME", *where)["bids"] == [[100, 3, 1]]
        found = answer("statistics", *where)
        assert (found["orders"], found["trades"], found["refused"]) == (3, 1, {"halted": 1})
        sessions = {line["session"]: line["account"] for line in answer("sessions", *where)["sessions"]}
        assert sessions == {f"text:{trader.peer}": "text:7", f"text:{other.peer}": "text:8"}
        answer("sessions", "cut", f"text:{trader.peer}", *where)
        assert trader.is_cut()
        assert other.ask(2, "S", 1, 200) == "A"
        assert answer("accounts", "kill", "text:7", *where)["what"].startswith("account text:7 is stopped, 2 of")
        assert answer("book", "ACME", *where)["bids"] == []
        live = answer("hash", *where)
        process.stop()
    assert answer("hash", str(tmp_path)) == live
    assert answer("verify", str(tmp_path))["problems"] == []
    assert not (tmp_path / admin.PORTS_FILE).exists()
    result = run("status", *where)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "expected an exchange that runs on" in result.stderr


def test_a_start_from_the_last_snapshot_has_the_same_hash(tmp_path: Path) -> None:
    where = ("--dir", str(tmp_path))
    with exchange(tmp_path, "--rate", "20000", "--itch-port", "0") as process:
        process.wait_for("orders", 3_000)
        figures = process.stop()
    before = answer("hash", str(tmp_path))
    with exchange(tmp_path, "--rate", "0.001", "--itch-port", "0") as process:
        process.ready()
        assert answer("hash", *where) == before
        assert f"{before['inputs']} inputs, 0 of them applied again" in process.errors()
        assert process.figures()["itch_sequence"] == figures["itch_sequence"]
        process.stop()
    middle = before["inputs"] // 2
    assert answer("hash", str(tmp_path), "--at-request", str(middle))["inputs"] == middle
    by_message = answer("hash", str(tmp_path), "--at-message", str(figures["sequence"]))
    assert by_message["inputs"] <= before["inputs"]
    exported = answer("export-itch", str(tmp_path), str(tmp_path / "day.itch"))
    assert exported["messages"] == figures["itch_sequence"]
    assert sum(1 for _ in frames((tmp_path / "day.itch").read_bytes())) == figures["itch_sequence"]


def test_metrics_are_served_where_the_operator_asks(tmp_path: Path) -> None:
    with exchange(tmp_path, *QUIET, "--fsync", "always") as process, trading(process, 7) as trader:
        trader.ask(1, "B", 5, 100)
        address = f"http://127.0.0.1:{process.ready().ports['admin']}/metrics"
        with urllib.request.urlopen(address, timeout=DEADLINE_S) as page:
            families = list(text_string_to_metric_families(page.read().decode()))
    found = {sample.name: sample.value for family in families for sample in family.samples}
    assert found["deltabook_exchange_orders_total"] == 1
    assert found["deltabook_exchange_fsync_seconds_count"] >= 1
    assert found["deltabook_exchange_fsync_seconds_sum"] > 0
    assert found["deltabook_exchange_journal_bytes"] > 0


def test_whoever_does_not_say_the_token_is_not_let_in(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "other").write_text("another-token-of-some-length\n")
    place = tmp_path / "exchange"
    where = ("--dir", str(place))
    with exchange(place, *QUIET, "--admin-token-file", str(tmp_path / "token")) as process:
        process.ready()
        for more in ((), ("--token-file", str(tmp_path / "other"))):
            result = run("halt", "ACME", *where, *more)
            assert (result.exit_code, result.stdout) == (1, "")
            assert "expected the token, was another or none" in result.stderr
        assert answer("halt", "ACME", *where, "--token-file", str(tmp_path / "token"))["inputs"] == 1
    assert TOKEN not in process.errors()


def test_an_admin_port_with_a_certificate_serves_tls_alone(tmp_path: Path) -> None:
    cert, key = map(str, make_certificate(tmp_path))
    (tmp_path / "token").write_text(TOKEN + "\n")
    place, token = tmp_path / "exchange", ("--token-file", str(tmp_path / "token"))
    secured = ("--admin-token-file", str(tmp_path / "token"), "--admin-tls-cert", cert, "--admin-tls-key", key)
    with exchange(place, *QUIET, *secured, "--admin-interface", "0.0.0.0") as process:
        where = ("--admin", f"127.0.0.1:{process.ready().ports['admin']}")
        assert answer("halt", "ACME", *where, *token, "--ca-file", cert)["inputs"] == 1
        result = run("status", *where, *token)
        assert (result.exit_code, result.stdout) == (1, "")
        listening = msgspec.json.decode((place / admin.PORTS_FILE).read_bytes(), type=admin.Listening)
        assert listening.is_secure


@pytest.mark.slow
def test_a_day_goes_from_its_opening_auction_to_its_end(tmp_path: Path) -> None:
    day = ("--opening-auction", "0.3", "--trading", "0.3", "--closing-auction", "0.3")
    with exchange(tmp_path, *QUIET, "--itch-port", "0", *day) as process:
        port = process.ready().ports["itch"]
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as listener:
            listener.sendall(b"\x00\x2fL" + b" " * 16 + b" " * 10 + b"1".rjust(20))
            data = listener.makefile("rb")
            said: list[str] = []
            while (length := data.read(2)) and (packet := data.read(int.from_bytes(length, "big")))[:1] != b"Z":
                if packet[:2] == b"SS":
                    said.append(packet[12:13].decode())
                elif packet[:2] == b"SH" and packet[12:20] == b"ACME    ":
                    said.append(packet[20:21].decode() + "H")
        assert said == ["O", "S", "QH", "TH", "Q", "QH", "HH", "M", "E", "C"]
        assert answer("status", "--dir", str(tmp_path))["phases"] == {"closed": 2}
        process.stop()


@pytest.mark.parametrize(
    ("options", "ports"),
    [
        (("--port", "none", "--itch-port", "0"), {"itch", "admin"}),
        (("--admin-port", "none", "--reactor", "select"), {"text"}),
        (("--glimpse-port", "0", "--mold-to", "127.0.0.1:9", "--mold-port", "0", "--reactor", "asyncio"),
         {"text", "admin", "glimpse", "mold-requests"}),
    ],
)  # fmt: skip
def test_those_ports_are_open_that_are_asked_for(tmp_path: Path, options: tuple[str, ...], ports: set[str]) -> None:
    with exchange(tmp_path, *QUIET, *options) as process:
        wanted = process.ready().ports
        process.stop()
    assert set(wanted) == ports


def test_a_killed_exchange_is_distinguished_from_a_running_one(tmp_path: Path) -> None:
    with exchange(tmp_path, *QUIET) as process:
        process.ready()
        process.kill()
    result = run("status", "--dir", str(tmp_path))
    assert result.exit_code == 1
    assert "expected an exchange's admin port at 127.0.0.1:" in result.stderr
    with exchange(tmp_path, *QUIET) as process:
        process.ready()
        assert answer("status", "--dir", str(tmp_path))["pid"] == process.pid


def test_a_user_logs_in_with_a_hashed_password_and_is_stopped(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["exchange", "passwd", "joe", "--stdin", "--broker", "9"], input="secret\n")
    assert result.exit_code == 0, result.output
    assert "secret" not in result.output
    users = tmp_path / "users.toml"
    users.write_text(result.stdout)
    users.chmod(0o600)
    with exchange(tmp_path / "exchange", *QUIET, "--ouch-port", "0", "--users", str(users)) as process:
        port = process.ready().ports["ouch"]
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as client:
            client.sendall(b"\x00\x2fLJOE   SECRET    " + b" " * 10 + b"1".rjust(20))
            assert client.makefile("rb").read(3)[2:] == b"A"
            (session,) = answer("sessions", "--dir", str(tmp_path / "exchange"))["sessions"]
            assert (session["face"], session["account"], session["follows"]) == ("ouch", "ouch:JOE", True)
            (account,) = answer("accounts", "--dir", str(tmp_path / "exchange"))["accounts"]
            assert (account["messages"], account["open_notional"]) == (1, None)
            killed = answer("accounts", "kill", "ouch:JOE", "--dir", str(tmp_path / "exchange"))
            assert killed["what"].startswith("account ouch:JOE is stopped")
        process.stop()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--mold-to", "somewhere:9"), "expected an IPv4 address and a port (HOST:PORT) for datagrams"),
        (("--admin-token-file", "nothing"), "expected a token in nothing, was No such file"),
        (("--ouch-port", "0", "--users", "nothing"), "expected to read the users file nothing"),
    ],
)
def test_impossible_settings_are_one_line_and_leave_no_lock(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    for _ in range(2):
        result = run("--dir", str(tmp_path), *QUIET, *options)
        assert (result.exit_code, result.stdout) == (1, "")
        assert words in result.stderr.splitlines()[-1]
