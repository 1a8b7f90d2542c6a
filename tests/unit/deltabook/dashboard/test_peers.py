"""Where the dashboard's peers are, given or read in a file that others write."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.dashboard.errors import DashboardError
from deltabook.dashboard.peers import Link, Peer


def test_an_address_that_is_given_is_that() -> None:
    assert Peer("127.0.0.1:80").where() == "127.0.0.1:80"


def test_a_file_is_read_whenever_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "peers.json"
    peer = Peer(listed_in=str(path), name="results")
    assert peer.where() == ""
    path.write_text('{"algo": "127.0.0.1:2"}')
    assert peer.where() == ""
    for port in (3, 4):
        path.write_text(f'{{"algo": "127.0.0.1:2", "results": "127.0.0.1:{port}"}}')
        assert peer.where() == f"127.0.0.1:{port}"


@pytest.mark.parametrize("text", ["", "[1]", '{"results": 3}', '{"results": '])
def test_another_file_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "peers.json"
    path.write_text(text)
    with pytest.raises(DashboardError, match=f"expected name: HOST:PORT as JSON in {path}, was"):
        Peer(listed_in=str(path), name="results").where()


def test_a_lamp_says_where_its_peer_is_now(tmp_path: Path) -> None:
    path = tmp_path / "peers.json"
    link = Link(Peer(listed_in=str(path), name="results"), lambda: 0)
    link.lost("not there yet")
    assert (link.line.state, link.line.address) == ("connecting", "")
    path.write_text('{"results": "127.0.0.1:3"}')
    link.live()
    assert (link.line.state, link.line.address) == ("live", "127.0.0.1:3")
    path.write_text("{")
    link.lost("gone")
    assert (link.line.state, link.line.words, link.line.address) == ("lost", "gone", "127.0.0.1:3")
    assert Link(None, lambda: 0).state == "off"
