"""Rows 24 to 28 of docs/features/exchange.md: users, cancel on disconnect, limits of rate and orders, sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltabook.wire._messages import DecodedMessage
from deltabook.wire.ouch5 import decode_reply
from deltabook.wire.soupbin import LoginAccepted, LoginRejected
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.logins import hash_password, load_users
from exchange_server.matching.order import AccountLimits
from tests.generators.ouch_desk import cancel, enter, enter_42, replace, short
from tests.generators.ouch_floor import PASSWORD, OuchFloor, user
from tests.generators.soup_lab import messages

# -- 24: users and passwords from a file, hashed ---------------------------------------------------------------------


def users_file(path: Path, *names: str) -> Path:
    file = path / "users.toml"
    file.write_text(
        "".join(
            f'[[user]]\nname = "{name}"\npassword = "{hash_password(PASSWORD)}"\nbroker = {broker}\n'
            for broker, name in enumerate(names, 1)
        )
    )
    file.chmod(0o600)
    return file


def test_row_24_only_users_of_the_file_are_admitted(tmp_path: Path) -> None:
    users = load_users(users_file(tmp_path, "ALPHA", "BRAVO"))
    floor = OuchFloor(tmp_path / "exchange", *users.values())
    assert floor.knock("ALPHA", PASSWORD).reply() == LoginAccepted("SESSION1", 1)
    assert floor.knock("bravo", PASSWORD.upper()).reply() == LoginAccepted("SESSION1", 1)
    for name, password in [("ALPHA", "guess"), ("ALPHA", ""), ("CHARLY", PASSWORD), ("", "")]:
        client = floor.knock(name, password)
        assert client.reply() == LoginRejected("A")
        assert client.wire.disconnecting
    assert floor.server.clients == 2
    floor.close()


def test_row_24_the_file_has_salted_hashes_alone(tmp_path: Path) -> None:
    text = users_file(tmp_path, "ALPHA", "BRAVO").read_text()
    assert PASSWORD not in text.lower()
    hashes = [line for line in text.splitlines() if line.startswith("password")]
    assert len(set(hashes)) == 2
    broken = tmp_path / "plain.toml"
    broken.write_text(f'[[user]]\nname = "ALPHA"\npassword = "{PASSWORD}"\nbroker = 1\n')
    with pytest.raises(ExchangeConfigurationError, match=r"user 1 \('ALPHA'\)") as caught:
        load_users(broken)
    assert PASSWORD not in str(caught.value)


def test_row_24_user_names_stay_unknown_and_tries_bounded(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path)
    said = {floor.knock(name, "guess").take()[1].payload for name in ("ALPHA", "NOBODY")}
    assert len(said) == 1
    for _ in range(10):
        floor.knock("ALPHA", "guess")
    assert b"too many wrong passwords" in floor.knock("ALPHA", PASSWORD).take()[1].payload
    assert isinstance(floor.knock("BRAVO", PASSWORD).reply(), LoginAccepted)
    floor.close()


def test_row_24_sessions_are_served_during_a_password_check(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path)
    alpha = floor.connect("ALPHA")
    floor.slow_gate = []
    bravo = floor.knock("BRAVO")
    alpha.send(enter(1))
    assert alpha.letters() == "A"
    assert bravo.take() == []
    floor.finish_comparisons()
    assert isinstance(bravo.reply(), LoginAccepted)
    floor.close()


# -- 25: cancel on disconnect, as a choice ---------------------------------------------------------------------------


def lost(client_end: str) -> Callable[[OuchFloor], None]:
    """A way in which ALPHA's only session ends."""

    def end(floor: OuchFloor) -> None:
        client = floor.connect("ALPHA")
        client.send(enter(1), enter(2))
        if client_end == "lost":
            client.lose()
        elif client_end == "logout":
            client.connection.dataReceived(b"\x00\x01O")
        elif client_end == "garbage":
            client.send(b"?")
        else:
            for _ in range(64):
                floor.clock.advance(0.25)
        floor.turn()

    return end


@pytest.mark.parametrize("how", ["lost", "logout", "garbage", "idle"])
@pytest.mark.parametrize("chosen", [True, False])
def test_row_25_a_users_orders_end_with_its_connection(tmp_path: Path, how: str, chosen: bool) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", cancel_on_disconnect=chosen), user("BRAVO", 8, cancel_on_disconnect=True))
    bravo = floor.connect("BRAVO")
    bravo.send(enter(1))
    lost(how)(floor)
    assert floor.live == (1 if chosen else 3) - (how == "idle")
    told = short(floor_told(floor), "reason")
    assert told == [("A",), ("A",)] + [("C", "Z"), ("C", "Z")] * chosen
    floor.close()


def floor_told(floor: OuchFloor) -> list[DecodedMessage]:
    """What ALPHA was told beside the day's beginning, whenever it was."""
    client = floor.connect("ALPHA", sequence=2)
    client.take()
    return [decode_reply(message) for message in messages(client.rest)]


@pytest.mark.parametrize("chosen", [True, False])
def test_row_25_the_exchanges_own_end_is_a_disconnect_too(tmp_path: Path, chosen: bool) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", cancel_on_disconnect=chosen))
    floor.connect("ALPHA").send(enter(1), enter(2))
    floor.restart()
    assert floor.live == (0 if chosen else 2)
    floor.close()


def test_row_25_only_the_last_of_a_users_sessions_counts(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", cancel_on_disconnect=True))
    one, two = floor.connect("ALPHA"), floor.connect("ALPHA")
    one.send(enter(1))
    one.lose()
    floor.turn()
    assert floor.live == 1
    two.lose()
    again = floor.connect("ALPHA")
    floor.turn()
    assert floor.live == 1, "it was back before anything was cancelled"
    again.lose()
    floor.turn()
    assert floor.live == 0
    floor.close()


# -- 26: a rate limit per user ---------------------------------------------------------------------------------------


def test_row_26_a_user_that_is_too_fast_is_refused_alone(tmp_path: Path) -> None:
    limits = AccountLimits(requests_per_s=3)
    floor = OuchFloor(tmp_path, user("ALPHA", limits=limits), user("BRAVO", 8))
    one, two, bravo = floor.connect("ALPHA"), floor.connect("ALPHA"), floor.connect("BRAVO")
    one.send(enter(1), enter(2))
    two.send(enter(3), enter(4), replace(1, 5))
    bravo.send(*(enter(ref) for ref in range(1, 50)))
    floor.turn()
    told = short(two.told(), "user_ref_num", "reason")
    assert told == [("A", 1), ("A", 2), ("A", 3), ("J", 4, 0x29), ("J", 5, 0x29)]
    assert bravo.letters() == "A" * 49
    floor.clock.advance(0.34)
    one.send(enter(6), enter(7))
    assert [letter for letter, *_ in short(one.told())][-2:] == ["A", "J"]
    floor.close()


def test_row_26_whoever_is_too_fast_may_still_cancel(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", limits=AccountLimits(requests_per_s=1)))
    client = floor.connect("ALPHA")
    client.send(enter(1), enter(2), cancel(1))
    assert client.letters() == "AJC"
    floor.close()


def test_row_26_wrong_requests_count_too(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", limits=AccountLimits(requests_per_s=2)))
    client = floor.connect("ALPHA")
    client.send(enter(1, price=1), enter(2, price=1), enter(3, price=1), enter(4))
    assert short(client.told(), "user_ref_num", "reason") == [
        ("J", 1, 0x1D),
        ("J", 2, 0x1D),
        ("J", 3, 0x29),
        ("J", 4, 0x29),
    ]
    floor.close()


# -- 27: a limit on open orders (and on what they are worth) per user ------------------------------------------------


def test_row_27_a_user_may_have_so_many_open_orders_and_no_more(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", limits=AccountLimits(open_orders=2)), user("BRAVO", 7))
    client, bravo = floor.connect("ALPHA"), floor.connect("BRAVO")
    client.send(enter(1), enter(2), enter(3), replace(1, 4), cancel(2), enter(5), enter(6))
    told = short(client.told(), "user_ref_num", "reason")
    assert told == [("A", 1), ("A", 2), ("J", 3, 0x20), ("U", 4), ("C", 2, "U"), ("A", 5), ("J", 6, 0x20)]
    bravo.send(enter(1))
    assert bravo.letters() == "A"
    floor.rest("S", 100, 1_001)
    client.send(enter(7))
    assert client.letters() == "EA"
    floor.close()


def test_row_27_the_limit_holds_behind_a_restart(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", limits=AccountLimits(open_orders=2)))
    floor.connect("ALPHA").send(enter(1), enter(2))
    floor.restart()
    client = floor.connect("ALPHA")
    client.send(enter(3), cancel(1), enter(4))
    assert client.letters() == "JCA"
    floor.users["ALPHA"] = user("ALPHA", limits=AccountLimits(open_orders=3))
    floor.restart()
    client = floor.connect("ALPHA")
    client.send(enter(5), enter(6))
    assert client.letters() == "AJ"
    floor.close()


def test_row_27_orders_may_be_worth_so_much_and_no_more(tmp_path: Path) -> None:
    worth = 100 * 1_000
    limits = AccountLimits(order_notional=2 * worth, open_notional=3 * worth)
    floor = OuchFloor(tmp_path, user("ALPHA", limits=limits))
    client = floor.connect("ALPHA")
    client.send(enter(1, quantity=201), enter(2, quantity=200), enter(3, quantity=101), enter(4, quantity=100))
    assert short(client.told(), "user_ref_num", "reason") == [("J", 1, 0x1F), ("A", 2), ("J", 3, 0x1F), ("A", 4)]
    floor.close()


# -- 28: several sessions per broker ---------------------------------------------------------------------------------


def test_row_28_a_broker_has_several_users_and_sessions(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", 7), user("BRAVO", 7, protocol="ouch42"))
    one, two, bravo = floor.connect("ALPHA"), floor.connect("ALPHA"), floor.connect("BRAVO")
    one.send(enter(1))
    two.send(enter(2, "S", price=101_000))
    bravo.send(enter_42("T"))
    floor.turn()
    assert messages(one.take()) == messages(two.take())
    assert bravo.letters() == "A"
    assert floor.server.clients == 3
    owners = {order.broker_id for order in floor.exchange.market.books["ACME"].orders.values()}
    assert owners == {7}
    assert len(floor.exchange.market.accounts) == 3
    floor.close()


def test_row_28_the_sessions_of_a_user_share_its_numbers(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path)
    one, two = floor.connect("ALPHA"), floor.connect("ALPHA")
    one.send(enter(5))
    two.send(enter(5), enter(4), enter(6), cancel(5))
    floor.turn()
    told = short(one.told(), "user_ref_num")
    assert told == [("A", 5), ("A", 6), ("C", 5)]
    assert short(two.told(), "user_ref_num") == told
    floor.close()


def test_row_28_users_cannot_touch_each_others_orders(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", 7), user("BRAVO", 7))
    alpha, bravo = floor.connect("ALPHA"), floor.connect("BRAVO")
    alpha.send(enter(1))
    bravo.send(cancel(1), replace(1, 2))
    assert bravo.letters() == ""
    assert floor.live == 1
    floor.close()


def test_row_28_prevention_covers_users_of_one_broker(tmp_path: Path) -> None:
    floor = OuchFloor(tmp_path, user("ALPHA", 7), user("BRAVO", 7, self_trade="newest"), user("CHARLY", 8))
    alpha, bravo, charly = floor.connect("ALPHA"), floor.connect("BRAVO"), floor.connect("CHARLY")
    alpha.send(enter(1))
    bravo.send(enter(1, "S"))
    assert short(bravo.told(), "decrement_shares") == [("A",), ("D", 100)]
    charly.send(enter(1, "S", 40))
    assert charly.letters() == "AE"
    floor.close()
