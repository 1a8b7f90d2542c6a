"""A trade that is declared void reaches the owners of both of its orders, whatever protocol they speak."""

from __future__ import annotations

from pathlib import Path

import msgspec

from deltabook.wire.symbols import Instrument
from exchange_server.matching import Bust, Market, MarketRules, Phase
from exchange_server.matching.inputs import AnyInput
from exchange_server.matching.market_state import MOST_EXECUTIONS
from tests.generators.ouch_desk import MIDNIGHT_NS, Desk, enter, enter_42, short
from tests.generators.text_floor import Floor, fields


def bust(desk: Desk, match_id: int, symbol: str = "ACME") -> None:
    desk.apply(Bust(0, match_id, symbol, desk.market.shared.parties(match_id)))


def traded() -> Desk:
    """An order of 5.0 that one of 4.2 has executed: match 1."""
    desk = Desk()
    desk.open("A")
    desk.open("B", "ouch42", 8)
    desk.send("A", enter(1, quantity=100))
    desk.send("B", enter_42("TOKEN", "S", 40))
    desk.raw("A"), desk.raw("B")
    return desk


def test_both_versions_of_ouch_are_told_byte_by_byte() -> None:
    desk = traded()
    bust(desk, 1)
    stamp = (desk.time_ns - MIDNIGHT_NS).to_bytes(8)
    match = (1).to_bytes(8)
    assert desk.raw("A") == [b"B" + stamp + (1).to_bytes(4) + match + b"S" + b"c1".ljust(14)]
    assert desk.raw("B") == [b"B" + stamp + b"TOKEN".ljust(14) + match + b"S"]


def test_nobody_else_is_told() -> None:
    desk = traded()
    desk.open("C")
    bust(desk, 1)
    bust(desk, 2)
    assert desk.take("C") == []
    assert short(desk.take("A"), "match_number") == [("B", 1)]


def test_everybody_in_a_cross_is_told_of_it() -> None:
    desk = Desk()
    for name in ("A", "B"):
        desk.open(name)
    desk.apply(Phase(0, "ACME", "auction-open"))
    desk.send("A", enter(1, "B", 100))
    desk.send("B", enter(1, "S", 60))
    desk.apply(Phase(0, "ACME", "continuous"))
    desk.raw("A"), desk.raw("B")
    bust(desk, desk.market.next_match_id - 1)
    assert [short(desk.take(name), "user_ref_num") for name in ("A", "B")] == [[("B", 1)], [("B", 1)]]


def test_a_snapshot_remembers_who_took_part() -> None:
    desk = traded()
    again = Market.restore(desk.market.rules, desk.market.state())
    assert again.shared.parties(1) == desk.market.shared.parties(1) != ()
    assert again.state_hash() == desk.market.state_hash()


def test_a_snapshot_without_executions_is_read() -> None:
    """Those of versions before 0.2 end one field earlier."""
    desk = traded()
    state = msgspec.msgpack.decode(desk.market.state())
    again = Market.restore(desk.market.rules, msgspec.msgpack.encode(state[:-1]))
    assert again.shared.parties(1) == ()
    assert again.state_hash() == desk.market.state_hash()


def test_so_many_executions_are_remembered() -> None:
    desk = traded()
    first = desk.market.shared.executions[0]
    desk.market.shared.executions.extend([first] * (2 * MOST_EXECUTIONS))
    assert len(desk.market.shared.executions) == MOST_EXECUTIONS


def test_a_journal_of_before_says_what_it_said() -> None:
    """Without parties, as version 0.1 wrote it, nobody is told: the numbers of private streams stay as they were."""
    desk = traded()
    item = msgspec.msgpack.decode(msgspec.msgpack.encode([10, 0, 1, "ACME"]), type=AnyInput)
    assert isinstance(item, Bust)
    desk.apply(item)
    assert (desk.take("A"), desk.take("B")) == ([], [])


def test_brokers_of_the_text_protocol_are_told(tmp_path: Path) -> None:
    rules = MarketRules(instruments=(Instrument("ACME"), Instrument("GLOBEX")))
    floor = Floor(tmp_path, rules=rules)
    maker, heard = floor.connect("0,7")
    taker, also_heard = floor.connect("0,8")
    maker.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    taker.dataReceived(b"1,0,0,8,S,3,100,ACME\n")
    floor.clock.advance(0)
    heard.take(), also_heard.take()
    floor.submit(Bust(0, 1, "ACME", floor.exchange.market.shared.parties(1)))
    assert fields(heard.take()) == [["B", "3", "100", "ACME", "1", "1"]]
    assert fields(also_heard.take()) == [["B", "3", "100", "ACME", "1", "1"]]
    floor.close()
