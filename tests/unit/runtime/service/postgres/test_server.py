"""Connections: who is let in, and every bound on those who are not yet."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from deltabook.wire.access import Access
from tests.generators.postgres_lab import TOKEN, PostgresLab, fields_of, message, query, text

TLS_REQUEST = struct.pack("!ii", 8, 80877103)
GSS_REQUEST = struct.pack("!ii", 8, 80877104)


def test_a_program_of_this_machine_gets_the_settings() -> None:
    found = PostgresLab().connect().begin(database="anything")
    assert found[0] == ("R", struct.pack("!i", 0))
    told = dict(content[:-1].decode().split("\0") for code, content in found if code == "S")
    assert told["server_version"].startswith("15.0 (Deltabook ")
    assert told["TimeZone"] == "UTC"
    assert told["session_authorization"] == "me"
    assert [code for code, _ in found][-2:] == ["K", "Z"]


def test_nobody_else_is_let_in_without_a_token() -> None:
    ((code, content),) = PostgresLab().connect("192.0.2.1").begin()
    assert code == "E"
    assert fields_of(content)["M"] == "expected a connection from this machine, was 192.0.2.1"


def test_the_token_is_the_password() -> None:
    lab = PostgresLab(token=TOKEN)
    found = lab.connect("192.0.2.1").log_in(TOKEN)
    assert found[0][1].startswith(struct.pack("!i", 12) + b"v=")
    assert found[-1] == ("Z", b"I")


@pytest.mark.parametrize("password", ["0123456789abcdeg", "", TOKEN[:-1]])
def test_another_password_is_refused(password: str) -> None:
    lab = PostgresLab(token=TOKEN)
    client = lab.connect()
    ((code, content),) = client.log_in(password)
    assert (code, fields_of(content)["C"]) == ("E", "28P01")
    assert TOKEN not in fields_of(content)["M"]
    assert client.transport.disconnecting
    assert not lab.factory.sessions


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace("c=biws", "c=eSws"),
        lambda final: final.replace("r=r", "r=q"),
        lambda final: final.partition(",p=")[0],
        lambda final: final[:-4],
        lambda _: "",
    ],
    ids=["channel", "nonce", "no proof", "short proof", "nothing"],
)
def test_a_last_message_that_is_not_the_firsts_is_refused(change: object) -> None:
    client = PostgresLab(token=TOKEN).connect()
    ((code, _),) = client.log_in(TOKEN, change=change)
    assert code == "E"
    assert client.transport.disconnecting


def test_no_setting_of_the_client_skips_the_first_message() -> None:
    """The progress of the authentication is the server's: a parameter of the startup message cannot pretend it."""
    client = PostgresLab(token=TOKEN).connect()
    client.begin(**{"first message": "was read"})
    bare = b"n,,n=,r=rOprNGfwEbeRWgbNEkqO"
    ((code, answer),) = client.send(message(b"p", text("SCRAM-SHA-256") + struct.pack("!i", len(bare)) + bare))
    assert (code, answer[:4]) == ("R", struct.pack("!i", 11))


def test_nothing_is_answered_before_the_password() -> None:
    client = PostgresLab(token=TOKEN).connect()
    client.begin()
    assert client.error(query("SELECT 1"))["C"] == "08P01"
    assert client.transport.disconnecting


def test_a_port_with_a_key_speaks_nothing_in_the_clear() -> None:
    lab = PostgresLab(tls="a context")
    assert fields_of(lab.connect().begin()[0][1])["C"] == "28000"
    client = lab.connect()
    client.protocol.dataReceived(TLS_REQUEST)
    assert client.transport.value() == b"S"
    client.transport.clear()
    assert client.transport.tls == "a context"
    assert client.begin()[-1] == ("Z", b"I")


def test_cleartext_after_the_request_for_tls_is_refused() -> None:
    """Somebody on the way could have put it there (CVE-2021-23214)."""
    client = PostgresLab(tls="a context").connect()
    ((code, _),) = client.send(TLS_REQUEST + b"x")
    assert code == "E"
    assert client.transport.tls is None


def test_gss_is_refused_and_the_client_goes_on() -> None:
    client = PostgresLab().connect()
    client.protocol.dataReceived(GSS_REQUEST)
    client.protocol.dataReceived(TLS_REQUEST)
    assert client.transport.value() == b"NN"
    client.transport.clear()
    assert client.begin()[-1] == ("Z", b"I")
    other = PostgresLab().connect()
    for _ in range(5):
        other.protocol.dataReceived(GSS_REQUEST)
    assert other.transport.disconnecting


def test_a_client_has_to_say_in_time_who_it_is() -> None:
    lab = PostgresLab(request_s=30)
    slow, let_in = lab.connect(), lab.session()
    slow.protocol.dataReceived(b"\0\0")
    lab.clock.advance(29)
    assert not slow.transport.disconnecting
    lab.clock.advance(2)
    assert fields_of(slow.read()[0][1])["C"] == "57P05"
    assert slow.transport.disconnecting
    assert not let_in.transport.disconnecting
    lab.clock.advance(61)
    assert slow.transport.is_aborted


def test_connections_are_bounded_in_all_and_by_client() -> None:
    lab = PostgresLab(connections=3, connections_per_client=2, token=TOKEN)
    first, _ = lab.connect(), lab.connect()
    refused = lab.connect()
    assert fields_of(refused.read()[0][1])["C"] == "53300"
    assert refused.transport.disconnecting
    lab.connect("192.0.2.1")
    assert fields_of(lab.connect("192.0.2.2").read()[0][1])["M"] == "expected at most 3 connections, was one more"
    first.lose()
    assert not lab.connect().transport.disconnecting
    assert lab.factory.figures().refused_connections == 2


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!i", 7),
        struct.pack("!i", 10_001),
        struct.pack("!i", -1),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!ii", 9, 3 << 16) + b"u",
        struct.pack("!ii", 9, 3 << 16) + b"\0",
        struct.pack("!ii", 14, 3 << 16) + b"user\0\0",
    ],
)
def test_a_first_message_that_is_none_ends_the_connection(data: bytes) -> None:
    client = PostgresLab().connect()
    assert [code for code, _ in client.send(data)] == ["E"]
    assert client.transport.disconnecting


@pytest.mark.parametrize(
    "data",
    [
        b"?\0\0\0\4",
        b"Q\0\0\0\3",
        b"Q" + struct.pack("!i", 1024 * 1024 + 1),
        b"Q" + struct.pack("!i", -5),
        message(b"p", b"x"),
        message(b"Q", b"no end"),
        message(b"P", text("a"), text("b"), struct.pack("!h", 100)),
        message(b"B", text(""), text(""), struct.pack("!h", -1)),
        message(b"D", b"X", text("")),
        message(b"E", text("")),
    ],
)
def test_a_message_that_is_none_ends_this_session_and_no_other(data: bytes) -> None:
    lab = PostgresLab()
    other, client = lab.session(), lab.session()
    assert client.error(data)["C"] == "08P01"
    assert client.transport.disconnecting
    assert other.rows("SELECT 1") == [["1"]]


def test_messages_that_arrive_are_bounded_together() -> None:
    lab = PostgresLab(bodies_bytes=150_000)
    first, second = lab.session(), lab.session()
    part = b"Q" + struct.pack("!i", 200_000) + b"x" * 100_000
    assert first.send(part) == []
    assert second.error(part)["C"] == "53200"
    second.lose()
    assert lab.factory.arriving_bytes == 100_005
    first.lose()
    assert lab.factory.arriving_bytes == 0


def test_a_client_is_slowed_to_its_rate() -> None:
    lab = PostgresLab(requests_per_s=10, burst=2)
    client = lab.session()
    found = client.send(query("SHOW timezone") * 4)
    assert [code for code, _ in found].count("Z") == 2
    lab.clock.advance(0.11)
    assert [code for code, _ in client.read()].count("Z") == 1
    lab.clock.advance(0.11)
    assert [code for code, _ in client.read()].count("Z") == 1


def test_a_newer_minor_version_is_negotiated_down() -> None:
    client = PostgresLab().connect()
    content = text("user") + text("me") + text("_pq_.x") + text("1") + b"\0"
    found = client.send(struct.pack("!ii", len(content) + 8, (3 << 16) + 2) + content)
    assert found[0] == ("v", struct.pack("!ii", 3 << 16, 1) + text("_pq_.x"))
    assert found[-1] == ("Z", b"I")


def test_pages_and_names_of_other_networks_do_not_matter() -> None:
    """With names of a private network everybody there is let in, as over HTTP."""
    lab = PostgresLab(access=Access(names=("runtime",)))
    assert lab.connect("192.0.2.1").begin()[-1] == ("Z", b"I")


def test_numbers_of_sessions_begin_again_and_skip_those_in_use() -> None:
    factory = PostgresLab().factory
    first, _ = factory.numbered()
    used: Any = None
    factory.sessions |= {first: used, 2**31 - 1: used}
    factory._number = 2**31 - 2
    number, _ = factory.numbered()
    assert (first, number) == (1, 2)
