"""No bytes whatever make an exception leave a session, or let another session notice."""

from __future__ import annotations

import pytest

from tests.fuzz.exchange.driver import run_round
from tests.fuzz.exchange.floor import TARGETS

_PIECES = 10
_MANY = {"soup": 120_000, "login": 50_000, "ouch5": 70_000, "ouch42": 50_000, "text": 100_000, "mold": 120_000}
"""Messages of a piece: together more than five million, most of what is quick."""


@pytest.mark.parametrize("target", TARGETS)
def test_a_session_survives_some_broken_messages(target: str) -> None:
    done = run_round(target, 0, 3_000)
    assert done.messages >= 3_000
    if target in {"ouch5", "ouch42", "text"}:
        assert done.orders, "expected some of them to be orders"


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("piece", range(_PIECES))
@pytest.mark.parametrize("target", TARGETS)
def test_sessions_survive_millions_of_broken_messages(target: str, piece: int) -> None:
    sent, seed = 0, 1_000_000 * (piece + 1)
    while sent < _MANY[target]:
        sent += run_round(target, seed).messages
        seed += 1
