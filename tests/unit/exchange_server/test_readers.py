"""Readers that take nothing, whatever they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.wire.soupbin import LoginRequest, encode_packet
from tests.generators.soup_lab import SoupFloor
from tests.generators.text_floor import Floor


def test_a_reader_that_does_not_take_his_farewell_is_closed_all_the_same(tmp_path: Path) -> None:
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
