"""Readers that take nothing, whatever they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.wire.soupbin import LoginRequest, encode_packet
from exchange_server.journal.numbered_file import BLOCK_BYTES
from tests.generators.soup_lab import SoupFloor
from tests.generators.text_floor import Floor, sequenced


def test_a_reader_that_blocks_its_farewell_is_closed(tmp_path: Path) -> None:
    floor = SoupFloor(tmp_path)
    floor.quote(20)
    connection, wire = floor.connect(LoginRequest())
    connection.pauseProducing()
    connection.dataReceived(encode_packet(b"O"))
    assert (wire.disconnecting, wire.aborting) == (True, False)
    floor.clock.pump([1.0] * 40)
    assert wire.aborting
    floor.close()


@pytest.mark.parametrize("login", ["0,7", "1"])
def test_a_text_client_that_does_not_either(tmp_path: Path, login: str) -> None:
    floor = Floor(tmp_path)
    connection, wire = floor.connect(login)
    connection.pauseProducing()
    connection.dataReceived(b"x" * 5_000)
    connection.cut("for a test", flush=True)
    assert (wire.disconnecting, wire.aborting) == (True, False)
    floor.clock.pump([1.0] * 40)
    assert wire.aborting
    floor.close()


@pytest.mark.parametrize("first", [1, 900])
def test_a_reader_gets_no_damaged_records_and_others_continue(tmp_path: Path, first: int) -> None:
    """It is cut where the damage is found, at the login or later; who follows the stream notices nothing."""
    floor = Floor(tmp_path)
    for _ in range(6):  # the index of a stream has an entry at a burst at most
        floor.quote(600)
    _, follower = floor.connect("1")
    follower.take()
    path = floor.exchange.feeds["text"].records.path
    data = path.read_bytes()
    assert len(data) > BLOCK_BYTES
    path.write_bytes(data[:20_000] + bytes(10) + data[20_010:])
    _, wire = floor.connect(f"1,SESSION1,{first}")
    assert wire.aborting
    assert sequenced(wire.take()) == []
    floor.quote(2)
    assert sequenced(follower.take()) == [3_601, 3_602]
    _, whole = floor.connect("1,SESSION1,3500")
    assert sequenced(whole.take()) == list(range(3_500, 3_603))
    floor.close()


def test_a_reader_of_packets_is_cut_as_well(tmp_path: Path) -> None:
    floor = SoupFloor(tmp_path)
    floor.quote(3_000)
    path = floor.exchange.feeds["itch"].records.path
    data = path.read_bytes()
    path.write_bytes(data[:-20] + b"x" + data[-19:])
    _, wire = floor.connect(LoginRequest(sequence=1))
    assert wire.aborting
    floor.close()
