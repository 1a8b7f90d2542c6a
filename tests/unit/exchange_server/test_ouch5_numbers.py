"""An account of OUCH 5.0 that has used its last number is told so."""

from __future__ import annotations

import pytest

from deltabook.wire.ouch5 import encode_request
from exchange_server.matching.order import RefuseReason
from tests.generators.ouch_desk import Desk, cancel, enter, replace, short

LAST = 2**32 - 1
EXHAUSTED = ("J", LAST, 0x0F)


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.open("A")
    desk.ask("A", enter(1), enter(LAST))
    return desk


def asked(desk: Desk, *messages: bytes) -> list[tuple[object, ...]]:
    return short(desk.ask("A", *messages), "user_ref_num", "reason")


def test_orders_behind_the_last_number_are_rejected(desk: Desk) -> None:
    desk.ask("A", cancel(LAST))
    assert asked(desk, enter(LAST), enter(7), enter(0)) == [EXHAUSTED, ("J", 7, 0x0F), ("J", 0, 0x0F)]
    assert desk.market.refused[RefuseReason.EXHAUSTED] == 3


def test_orders_that_are_wrong_in_another_way_are_rejected_too(desk: Desk) -> None:
    assert asked(desk, enter(7, symbol="NOPE")) == [("J", 7, 0x0F)]


def test_replacements_and_mass_cancels_are_rejected(desk: Desk) -> None:
    (told,) = desk.ask("A", replace(1, 9))
    assert (told.type, told.fields["user_ref_num"], told.fields["cl_ord_id"]) == ("J", 9, "r9")
    mass = encode_request("C", user_ref_num=9, firm="FIRM", symbol="")
    assert asked(desk, mass) == [("J", 9, 0x0F)]


def test_a_run_of_orders_that_reaches_the_end_is_told_of_each() -> None:
    desk = Desk()
    desk.open("A")
    told = asked(desk, *(enter(min(LAST - 50 + n, LAST)) for n in range(80)), cancel(LAST), enter(LAST))
    assert [each[0] for each in told] == ["A"] * 51 + ["C", "J"]
    told = asked(desk, *(enter(LAST) for _ in range(80)))
    assert told == [EXHAUSTED] * 80


def test_repetitions_of_live_orders_stay_unanswered(desk: Desk) -> None:
    """A client that does not know whether its last request came may send it again."""
    assert asked(desk, enter(LAST), enter(1)) == []


def test_repetitions_before_the_end_stay_unanswered() -> None:
    desk = Desk()
    desk.open("A")
    desk.ask("A", enter(1), enter(LAST - 1), cancel(1))
    assert asked(desk, enter(1), enter(LAST - 1)) == []


def test_orders_can_be_cancelled_all_the_same(desk: Desk) -> None:
    assert asked(desk, cancel(1)) == [("C", 1, "U")]
