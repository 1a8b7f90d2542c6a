# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""The ports of an exchange while it runs: a users file that changes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import succeed
from twisted.internet.testing import MemoryReactorClock

from deltabook.wire.soupbin import LoginRequest, encode_login
from exchange_server import logins
from exchange_server.config import ExchangeConfig
from exchange_server.faces import Faces
from exchange_server.logins import LoginGate, hash_password
from tests.generators.ouch_desk import enter
from tests.generators.ouch_floor import PASSWORD, Client, OuchFloor

SECRET = hash_password(PASSWORD)


def users(path: Path, *names: str, more: str = "") -> None:
    """Put another users file in the place of the one that is there."""
    new = path.with_name("new")
    new.write_text("".join(f'[[user]]\nname = "{n}"\npassword = "{SECRET}"\nbroker = 7\n{more}\n' for n in names))
    new.chmod(0o600)
    new.rename(path)


def test_a_changed_users_file_ends_sessions_of_removed_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "LoginGate", partial(LoginGate, in_thread=lambda compare: succeed(compare())))
    file, floor, reactor = tmp_path / "users.toml", OuchFloor(tmp_path / "exchange"), MemoryReactorClock()
    users(file, "ALPHA", "BRAVO")
    config = ExchangeConfig(directory=str(tmp_path), port=None, ouch_port=0, users_file=str(file))
    faces = Faces(config, floor.exchange, None, reactor, floor.failures.append)
    faces.open()
    server: Any = faces.servers["ouch"]

    def connect(name: str) -> Client:
        client = Client(server.buildProtocol(None))
        client.connection.dataReceived(encode_login(LoginRequest(name, PASSWORD, "", 0)))
        client.take()
        return client

    alpha, bravo = connect("ALPHA"), connect("BRAVO")
    users(file, "BRAVO", "CARLO", more="[user.limits]\nopen_orders = 1\n")
    reactor.advance(1)
    assert alpha.end() == "the user was removed, or has another password or protocol"
    assert bravo.end() == ""
    bravo.send(enter(1), enter(2))
    reactor.advance(0)
    assert bravo.letters() == "AJ"
    assert connect("ALPHA").wire.disconnecting
    assert not connect("CARLO").wire.disconnecting
    faces.close(send=False)
    floor.close()
    assert floor.failures == []
