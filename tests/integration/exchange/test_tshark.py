"""Wireshark's dissectors read what the exchange and its clients say, and complain of nothing.

Not collected where there is no `tshark` (see conftest.py).
"""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from deltabook.wire import ouch42
from deltabook.wire.mold import encode_end
from deltabook.wire.soupbin import CLIENT_HEARTBEAT, LOGOUT, UNSEQUENCED, LoginRequest, encode_login, encode_packet
from exchange_server.nasdaq.mold import datagrams
from tests.generators.ouch_desk import enter_42
from tests.generators.ouch_floor import PASSWORD, Client, OuchFloor, user
from tests.generators.pcap import Capture, TcpConversation

PORT = 26_400


def dissected(path: Path, decode_as: str, *fields: str) -> list[list[str]]:
    """Of each packet of a capture, the values of some fields; none of them is malformed or worth a warning."""
    command = ["tshark", "-n", "-r", str(path), "-d", decode_as, "-T", "fields", "-E", "aggregator=,"]
    for field in (*fields, "_ws.malformed", "_ws.expert.severity", "_ws.expert.message"):
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.replace("'", "").split("\t") for line in done.stdout.splitlines()]
    for *_, malformed, severities, words in rows:
        assert not malformed
        # Of the kinds only chat (a connection is opened) and notes (a connection is closed) are no complaint.
        worst = max((int(severity) for severity in severities.split(",") if severity), default=0)
        assert worst <= 0x400000, words
    return rows


def conversation(floor: OuchFloor) -> list[tuple[str, bytes]]:
    """What a user of OUCH 4.2 and the exchange say to each other, every kind of request among it."""
    client = Client(floor.server.buildProtocol(None))
    said: list[tuple[str, bytes]] = []

    def say(data: bytes) -> None:
        client.connection.dataReceived(data)
        floor.turn()
        said.append(("client", data))
        said.append(("server", b"".join(client.wire.writes)))
        client.wire.writes.clear()

    def ask(*requests: bytes) -> None:
        say(b"".join(encode_packet(UNSEQUENCED, request) for request in requests))

    say(encode_login(LoginRequest("BRAVO", PASSWORD, "", 1)))
    ask(enter_42("T1", "B", 500), enter_42("T2", "B", 300), enter_42("T3", "S", 100))
    ask(ouch42.encode_request("X", order_token="T1", shares=200))
    ask(
        ouch42.encode_request(
            "U", existing_order_token="T2", replacement_order_token="T4", shares=400, price=99_900,
            time_in_force=ouch42.MARKET_HOURS, display="Y", intermarket_sweep_eligibility="N", minimum_quantity=0,
        )
    )  # fmt: skip
    ask(ouch42.encode_request("M", order_token="T4", buy_sell_indicator="B", shares=100))
    ask(*(enter_42(f"N{number}", "S", 10 + number) for number in range(60)))
    ask(enter_42("BAD", "B", 100, stock="NOPE"))
    ask(ouch42.encode_request("X", order_token="T1", shares=0))
    say(encode_packet(CLIENT_HEARTBEAT))
    say(encode_packet(b"+", b"hello"))
    say(encode_packet(LOGOUT))
    return said


def test_tshark_dissects_soupbintcp_and_ouch(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path / "journal", user("BRAVO", 8, protocol="ouch42"))
    said = conversation(floor)
    floor.close()
    capture = Capture()
    wire = TcpConversation(capture, PORT)
    expected: Counter[str] = Counter()
    for who, data in said:
        getattr(wire, who)(data)
        at = 0
        while at < len(data):
            expected[chr(data[at + 2])] += 1
            at += 2 + int.from_bytes(data[at : at + 2], "big")
    wire.close()
    capture.write(tmp_path / "ouch.pcap")
    rows = dissected(
        tmp_path / "ouch.pcap", f"tcp.port=={PORT},soupbintcp", "soupbintcp.packet_type", "ouch.packet_type"
    )
    packets = Counter(letter for letters, *_ in rows for letter in letters.split(",") if letter)
    assert packets == expected
    assert {"L", "A", "S", "U", "H", "R", "O", "+"} <= set(packets)
    messages = Counter(letter for _, letters, *_ in rows for letter in letters.split(",") if letter)
    assert sum(messages.values()) == expected["U"] + expected["S"], "each message was one of OUCH"
    assert {"O", "U", "X", "M", "A", "C", "E", "J", "S"} <= set(messages)


def test_tshark_dissects_moldudp64(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path / "journal")
    for number in range(100):
        floor.rest("B", 1 + number, 900)
    records = floor.exchange.feeds["itch"].records
    packets = records.read(0, 1 << 20)
    capture = Capture()
    for datagram, _, _ in datagrams(packets, "SESSION1", 1):
        capture.datagram(datagram, PORT)
    capture.datagram(encode_end("SESSION1", records.next_number), PORT)
    capture.write(tmp_path / "mold.pcap")
    rows = dissected(
        tmp_path / "mold.pcap", f"udp.port=={PORT},moldudp64",
        "moldudp64.session", "moldudp64.sequence", "moldudp64.count", "moldudp64.msgseq",
    )  # fmt: skip
    assert {row[0].strip() for row in rows} == {"SESSION1"}
    numbers = [int(number) for row in rows for number in row[3].split(",") if number]
    assert numbers == list(range(1, records.next_number))
    assert int(rows[-1][2], 0) == 0xFFFF
    floor.close()
