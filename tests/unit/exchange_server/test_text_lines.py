"""The lines of the text face: the feed, what a broker is told, and what its requests become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltabook.wire import text
from deltabook.wire.symbols import Instrument
from exchange_server.matching import order as flags
from exchange_server.matching.inputs import Cancel, Enter, MarketRules, MassCancel, Reduce, Replace, Wire
from exchange_server.matching.order import Account, CancelReason, Order, RefuseReason
from exchange_server.matching.outputs import Imbalance, Now, Touched
from exchange_server.text.protocol import TextEncoder, TextProtocol, TextTeller, input_of

RULES = MarketRules(instruments=(Instrument("ACME"), Instrument("GLOBEX")))


def order(volume: int, **more: Any) -> Order:
    fields = {"order_id": 17, "feed_id": 20, "locate": 2, "price_ticks": 99, "broker_id": 7, "ref": 5, **more}
    return Order(side="S", volume=volume, **fields)


class TestTheFeed:
    @pytest.mark.parametrize(
        ("says", "lines"),
        [
            (lambda feed: feed.added(order(30)), ["20,7,S,30,99,GLOBEX"]),
            (lambda feed: feed.executed(order(25), 5, 99, 1), ["20,7,E,5,99,GLOBEX"]),
            (lambda feed: feed.executed(order(0), 5, 98, 1), ["20,7,F,5,98,GLOBEX"]),
            (lambda feed: feed.reduced(order(25), 5), ["20,7,X,5,99,GLOBEX"]),
            (lambda feed: feed.deleted(order(0), 5), ["20,7,D,5,99,GLOBEX"]),
            (lambda feed: feed.crossed(order(25), 5, 97, 1), ["20,7,X,5,99,GLOBEX"]),
            (lambda feed: feed.crossed(order(0), 5, 97, 1), ["20,7,D,5,99,GLOBEX"]),
            (lambda feed: feed.cross(1, 500, 97, 1, "O"), ["0,0,T,500,97,ACME"]),
            (lambda feed: feed.cross(1, 2**64, 97, 1, "O"), [f"0,0,T,{2**63 - 1},97,ACME"]),
            (lambda feed: feed.traded(order(5), 3, 99, 1), ["0,0,T,3,99,GLOBEX"]),
            (lambda feed: feed.printed(1, 4, 3, 99, 1), ["0,4,T,3,99,ACME"]),
            (
                lambda feed: feed.replaced(order(30), order(40, feed_id=21, price_ticks=95)),
                ["20,7,D,30,99,GLOBEX", "21,7,S,40,95,GLOBEX"],
            ),
            (lambda feed: feed.system("O"), []),
            (lambda feed: feed.listed(1), []),
            (lambda feed: feed.trading(1, "H", "T1"), []),
            (lambda feed: feed.imbalance(Imbalance(1, 2, 3, "B", 4, 5, 6, "O")), []),
            (lambda feed: feed.busted(1, 1), []),
        ],
    )
    def test_each_thing_that_happens_has_its_lines(self, says: Callable[[TextEncoder], None], lines: list[str]) -> None:
        now = Now()
        now.time_ns = 1_000
        feed = TextEncoder(RULES, now)
        says(feed)
        data, count = feed.take()
        assert data.decode().splitlines() == [f"{n},1000,{line}" for n, line in enumerate(lines, 1)]
        assert count == len(lines)
        assert feed.take() == (b"", 0)

    def test_lines_continue_where_the_state_was_taken(self) -> None:
        now = Now()
        now.time_ns = 2**62
        feed = TextEncoder(RULES, now)
        feed.added(order(2**62))
        assert text.parse_feed_message(feed.take()[0]) == text.FeedMessage(1, 2**62, 20, 7, "S", 2**62, 99, "GLOBEX")
        again = TextEncoder(RULES, now)
        again.restore(feed.state())
        again.deleted(order(0), 3)
        assert text.parse_feed_message(again.take()[0]).sequence == again.next_sequence - 1 == 2


class TestABroker:
    @pytest.mark.parametrize(
        ("says", "line"),
        [
            (lambda t: t.accepted(order(10, reserve=30)), "17,7,A,40,99,GLOBEX,5,S"),
            (lambda t: t.executed(order(10), 4, 98, "A", 1), "17,7,E,4,98,GLOBEX,5,maker"),
            (lambda t: t.executed(order(0, reserve=1), 4, 98, "J", 1), "17,7,E,4,98,GLOBEX,5,maker"),
            (lambda t: t.executed(order(0), 4, 98, "R", 1), "17,7,F,4,98,GLOBEX,5,taker"),
            (lambda t: t.executed(order(0), 4, 98, "O", 1), "17,7,F,4,98,GLOBEX,5,cross"),
            (lambda t: t.canceled(order(6), 4, CancelReason.USER, 8), "17,7,X,4,99,GLOBEX,8,user"),
            (lambda t: t.canceled(order(0), 4, CancelReason.POST_ONLY, 8), "17,7,D,4,99,GLOBEX,5,post-only"),
            (lambda t: t.canceled(order(6), 0, CancelReason.USER, 8), "17,7,U,6,99,GLOBEX,8,17"),
            (lambda t: t.prevented(order(6), 4, 4, 98, "A", "oldest"), "17,7,X,4,99,GLOBEX,5,self-trade"),
            (lambda t: t.prevented(order(0), 4, 4, 98, "A", "oldest"), "17,7,D,4,99,GLOBEX,5,self-trade"),
            (lambda t: t.replaced(order(6, order_id=3), order(6, ref=9)), "17,7,U,6,99,GLOBEX,9,3"),
            (lambda t: t.modified(order(6)), "17,7,U,6,99,GLOBEX,5,17"),
            (lambda t: t.refreshed(order(6, reserve=30)), "17,7,N,6,99,GLOBEX,5,20"),
            (lambda t: t.triggered(order(6, stop_ticks=101)), "17,7,T,6,99,GLOBEX,5,101"),
            (
                lambda t: t.refused(8, RefuseReason.RATE, "too many requests", Enter(1, 1, 7, 8, "ACME", "B", 5, 10)),
                "0,7,R,5,10,ACME,8,too many requests",
            ),
            (
                lambda t: t.refused(8, RefuseReason.UNKNOWN_ORDER, "unknown order 3, sorry", Cancel(1, 1, 7, 8, 3)),
                "3,7,R,0,0,,8,unknown order 3  sorry",
            ),
        ],
    )
    def test_each_thing_that_it_is_told_is_a_line(self, says: Callable[[TextTeller], None], line: str) -> None:
        account, now, touched = Account(3, "text:7", "text", 7, next_message=12), Now(), Touched()
        now.time_ns = 1_000
        teller = TextProtocol(RULES).teller(account, now, touched)
        says(teller)
        says(teller)
        data, count = teller.take()
        assert data.decode().splitlines() == [f"{n},1000,{line}" for n in (12, 13)]
        assert (count, account.next_message, touched) == (2, 14, [teller])
        assert text.parse_response(data.splitlines()[0]).sequence == 12

    def test_each_reason_of_a_cancel_has_its_own_word(self) -> None:
        teller = TextProtocol(RULES).teller(Account(3, "text:7", "text", 7), Now(), Touched())
        for reason in CancelReason:
            teller.canceled(order(0), 1, reason, 1)
        details = [text.parse_response(line).detail for line in teller.take()[0].splitlines()]
        assert all(details)
        assert len(set(details)) == len(CancelReason)

    def test_it_sends_no_packets(self) -> None:
        account = Account(3, "text:7", "text", 7)
        market: Any = None
        said = TextProtocol(RULES).apply(market, account, Wire(1, 3, b"abc"))
        assert said == "expected no packets of text:7, was 3 bytes"


class TestRequests:
    @pytest.mark.parametrize(
        ("line", "item"),
        [
            (b"4,0,0,7,B,5,100,ACME", Enter(9, 3, 7, 4, "ACME", "B", 5, 100)),
            (b"4,0,0,7,S,5,0,ACME", Enter(9, 3, 7, 4, "ACME", "S", 5, 0, flags.MARKET)),
            (b"4,0,0,7,S,5,0,ACME,ioc", Enter(9, 3, 7, 4, "ACME", "S", 5, 0, flags.MARKET | flags.IOC)),
            (
                b"4,0,0,7,B,5,100,ACME,ioc;min=2",
                Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.IOC | flags.MINIMUM, minimum=2),
            ),
            (b"4,0,0,7,B,5,100,ACME,min=0", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.MINIMUM)),
            (b"4,0,0,7,B,5,100,ACME,post", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.POST_ONLY)),
            (b"4,0,0,7,B,5,100,ACME,hidden", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.HIDDEN)),
            (b"4,0,0,7,B,5,100,ACME,show=2", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.ICEBERG, display=2)),
            (b"4,0,0,7,B,5,100,ACME,stop=90", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.STOP, stop_ticks=90)),
            (b"4,0,0,7,B,5,100,ACME,until=8", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.EXPIRES, expire_ns=8)),
            (b"4,0,0,7,B,5,100,ACME,open", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.OPENING)),
            (b"4,0,0,7,B,5,100,ACME,close", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.CLOSING)),
            (b"4,0,0,7,B,5,100,ACME,halt", Enter(9, 3, 7, 4, "ACME", "B", 5, 100, flags.HALTED_ONLY)),
            (b"4,0,2,7,X,5,0,ACME", Reduce(9, 3, 7, 4, 2, 5, "ACME")),
            (b"4,0,2,7,D,0,0,ACME", Cancel(9, 3, 7, 4, 2, "ACME")),
            (b"4,0,2,7,U,5,100,ACME", Replace(9, 3, 7, 4, 2, 5, 100, "ACME")),
            (b"4,0,0,7,M,0,0,", MassCancel(9, 3, "", CancelReason.USER, 4)),
            (b"4,0,0,7,M,0,0,ACME", MassCancel(9, 3, "ACME", CancelReason.USER, 4)),
        ],
    )
    def test_each_request_is_an_input_of_its_account(self, line: bytes, item: object) -> None:
        assert input_of(text.parse_request(line), Account(3, "text:7", "text", 7), 9) == item
