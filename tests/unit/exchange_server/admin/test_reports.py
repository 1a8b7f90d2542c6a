"""What an operator sees is what there is, and seeing it changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deltabook.wire import admin
from exchange_server.admin import MOST_HASHED
from exchange_server.errors import OperationError
from exchange_server.matching.inputs import Enter, MarketRules, OpenAccount
from exchange_server.matching.order import HIDDEN, STOP, AccountLimits
from tests.generators.operated import Operated
from tests.generators.text_floor import RULES


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path)
    yield operated
    operated.close()


def order(side: str, volume: int, price: int, flags: int = 0, **more: int) -> Enter:
    return Enter(0, 0, 4, 0, "ACME", side, volume, price, flags, **more)


def test_a_book_shows_displayed_lots_to_the_requested_depth(operated: Operated) -> None:
    operated.submit(order("B", 5, 98), order("B", 3, 99), order("B", 4, 99), order("B", 9, 100, HIDDEN))
    operated.submit(order("S", 7, 101), order("S", 8, 103), order("S", 1, 110, STOP, stop_ticks=90))
    book = operated.report("/v1/books/ACME", admin.Book)
    assert book.bids == (admin.Level(99, 7, 2), admin.Level(98, 5, 1))
    assert book.asks == (admin.Level(101, 7, 1), admin.Level(103, 8, 1))
    assert (book.symbol, book.phase, book.last_ticks, book.tick_size) == ("ACME", "continuous", None, "0.01")
    assert book.time_ns == operated.exchange.market.last_time_ns
    shallow = operated.report("/v1/books/ACME?depth=1", admin.Book)
    assert (shallow.bids, shallow.asks) == (book.bids[:1], book.asks[:1])


def test_statistics_count_events_with_a_line_per_symbol(operated: Operated) -> None:
    operated.submit(order("B", 5, 98), order("S", 2, 98), order("S", 4, 99), order("B", 1, 97))
    found = operated.report(admin.STATISTICS_PATH, admin.Statistics)
    assert (found.inputs, found.orders, found.trades, found.live_orders) == (4, 4, 1, 3)
    acme, globex = found.symbols
    assert (acme.bid_ticks, acme.bid_volume, acme.ask_ticks, acme.ask_volume) == (98, 3, 99, 4)
    assert (acme.last_ticks, acme.live_orders, acme.locate) == (98, 3, 1)
    assert (globex.bid_ticks, globex.ask_ticks, globex.last_ticks, globex.live_orders) == (None, None, None, 0)


def test_statistics_of_many_symbols_go_on_behind_one(operated: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "MOST_SYMBOLS", 1)
    first = operated.report(admin.STATISTICS_PATH, admin.Statistics)
    assert ([line.symbol for line in first.symbols], first.total_symbols) == (["ACME"], 2)
    rest = operated.report(f"{admin.STATISTICS_PATH}?after=ACME", admin.Statistics)
    assert [line.symbol for line in rest.symbols] == ["GLOBEX"]
    assert not operated.report(f"{admin.STATISTICS_PATH}?after=GLOBEX", admin.Statistics).symbols


def test_refusals_are_counted_by_their_reason(operated: Operated) -> None:
    trader, _ = operated.connect("0,7,,1")
    trader.dataReceived(b"1,0,0,7,B,5,100,NONE\n2,0,0,7,B,5,100,NONE\n3,0,0,7,D,0,0,ACME\n")
    operated.clock.advance(0)
    found = operated.report(admin.STATISTICS_PATH, admin.Statistics)
    assert found.refused == {"unknown_symbol": 2, "unknown_order": 1}


def test_sessions_have_face_address_and_owner(operated: Operated) -> None:
    trader, _ = operated.connect("0,7,,1")
    listener, _ = operated.connect("1,,1")
    stranger, _ = operated.connect()
    trader.peer, listener.peer, stranger.peer = "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"
    trader.dataReceived(b"1,0,0,7,B,5,100,ACME\n")
    operated.clock.advance(0)
    listener.pauseProducing()
    operated.quote(10)
    found = operated.report(admin.SESSIONS_PATH, admin.Sessions)
    assert found.total == 3
    lines = {line.session: (line.face, line.account, line.follows) for line in found.sessions}
    assert lines == {
        "text:127.0.0.1:1": ("text", "text:7", True),
        "text:127.0.0.1:2": ("text", "", True),
        "text:127.0.0.1:3": ("text", "", False),
    }
    assert [line.lag_bytes > 0 for line in found.sessions] == [False, True, False]


def test_accounts_are_listed_in_order_by_page(operated: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    for broker in (9, 7, 8):
        trader, _ = operated.connect(f"0,{broker},,1")
        trader.dataReceived(f"1,0,0,{broker},B,5,{100 + broker},ACME\n".encode())
        operated.clock.advance(0)
    monkeypatch.setattr(admin, "MOST_ACCOUNTS", 2)
    first = operated.report(admin.ACCOUNTS_PATH, admin.Accounts)
    assert ([line.name for line in first.accounts], first.total) == (["text:9", "text:7"], 3)
    assert (first.accounts[0].broker_id, first.accounts[0].open_orders, first.accounts[0].killed) == (9, 1, False)
    assert first.accounts[0].messages > 0
    rest = operated.report(f"{admin.ACCOUNTS_PATH}?after=text:7", admin.Accounts)
    assert ([line.name for line in rest.accounts], rest.total) == (["text:8"], 3)
    assert not operated.report(f"{admin.ACCOUNTS_PATH}?after=text:8", admin.Accounts).accounts


def test_the_hash_is_the_markets(operated: Operated) -> None:
    operated.quote(3)
    found = operated.report(admin.HASH_PATH, admin.StateHash)
    market = operated.exchange.market
    assert found == admin.StateHash(3, market.last_time_ns, market.state_hash())


def test_a_large_market_is_not_held_up_for_its_hash(operated: Operated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exchange_server.admin.reports.MOST_HASHED", 2)
    operated.quote(3)
    with pytest.raises(OperationError, match="expected at most 2 live orders for the hash of a running market, was 3"):
        operated.reports.state_hash()
    assert MOST_HASHED >= 100_000


def test_status_says_where_and_how_the_exchange_is(operated: Operated) -> None:
    operated.clock.advance(2.5)
    found = operated.report(admin.STATUS_PATH, admin.Status)
    assert (found.up_s, found.ports, found.phases) == (2.5, {"text": 4711, "admin": 4712}, {"continuous": 2})
    assert found.figures == {"trades": 0, "session": "SESSION1"}


def test_looking_changes_nothing(operated: Operated) -> None:
    operated.quote(5)
    before = operated.exchange.inputs, operated.exchange.market.state_hash(), operated.next_number
    for path in (
        admin.STATUS_PATH,
        admin.STATISTICS_PATH,
        f"{admin.BOOK_PATH}ACME",
        admin.SESSIONS_PATH,
        admin.ACCOUNTS_PATH,
        admin.HASH_PATH,
        "/metrics",
    ):
        assert operated.ask(path).status == 200
    assert (operated.exchange.inputs, operated.exchange.market.state_hash(), operated.next_number) == before


def test_symbols_with_marks_in_them_are_found(tmp_path: Path) -> None:
    symbol = "BRK/B?"
    rules = MarketRules(instruments=(RULES.instruments[0].__class__(symbol),))
    operated = Operated(tmp_path, rules=rules)
    assert operated.report("/v1/books/BRK%2FB%3F", admin.Book).symbol == symbol
    operated.close()


def test_figures_beyond_64_bits_are_shown_as_the_largest(operated: Operated) -> None:
    """JSON has no larger integers: a report with one would be an error for every reader."""
    largest = 2**63 - 1
    operated.submit(*[order(side, largest, price) for side, price in (("B", 98), ("S", 99)) for _ in range(3)])
    book = operated.report("/v1/books/ACME", admin.Book)
    assert (book.bids, book.asks) == ((admin.Level(98, largest, 3),), (admin.Level(99, largest, 3),))
    acme, _ = operated.report(admin.STATISTICS_PATH, admin.Statistics).symbols
    assert (acme.bid_volume, acme.ask_volume) == (largest, largest)
    limits = AccountLimits(open_notional=largest)
    operated.submit(OpenAccount(0, "text:7", "text", 7), Enter(0, 1, 7, 1, "ACME", "B", largest, 97))
    operated.submit(OpenAccount(0, "text:7", "text", 7, limits))
    assert operated.report(admin.ACCOUNTS_PATH, admin.Accounts).accounts[0].open_notional == largest
