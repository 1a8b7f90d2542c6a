"""What recorded events do, as they were and as orders."""

from __future__ import annotations

from deltabook.wire.symbols import Instrument
from exchange_server.inputs import CLIENT, RECORDING, REMAIN, Input, MarketRules, ReplayMode
from exchange_server.market import Market


class Tape:
    """Plays records and shows the feed without sequence and time."""

    def __init__(self, mode: ReplayMode, factor: int = 0, first_order_id: int = 1000) -> None:
        self.market = Market(
            MarketRules(
                instruments=(Instrument("PAST"),),
                replay_symbol="PAST",
                replay_mode=mode,
                outlier_factor=factor,
                first_order_id=first_order_id,
            )
        )
        self._position = 0

    def play(self, action: str, order: int, volume: int = 0, price: int = 0, origin: str = RECORDING) -> list[str]:
        self._position += 1
        self.market.apply(
            Input(origin, self._position, self._position, order, order % 10, action, volume, price, "PAST")
        )
        self.market._check()
        return [line.strip().split(",", 2)[2] for line in self.market.take_output()[0]]


def test_as_recorded_the_book_may_be_crossed_and_nothing_is_matched() -> None:
    tape = Tape("as-recorded")
    assert tape.play("B", 11, 5, 100) == ["11,1,B,5,100,PAST"]
    assert tape.play("S", 12, 5, 90) == ["12,2,S,5,90,PAST"]
    assert tape.market.trades == 0


def test_as_recorded_executions_carry_the_resting_price_and_the_last_one_is_f() -> None:
    tape = Tape("as-recorded")
    tape.play("B", 11, 5, 100)
    assert tape.play("E", 11, 2) == ["11,1,E,2,100,PAST"]
    assert tape.play("E", 11, 3) == ["11,1,F,3,100,PAST"]
    tape.play("B", 13, 5, 100)
    assert tape.play("F", 13, 0, 101) == ["13,3,F,5,101,PAST"]


def test_as_recorded_a_delete_says_what_remained_and_a_trade_changes_no_book() -> None:
    tape = Tape("as-recorded")
    tape.play("B", 11, 5, 100)
    assert tape.play("T", 99, 7, 101) == ["99,9,T,7,101,PAST"]
    assert tape.play("D", 11) == ["11,1,D,5,100,PAST"]


def test_as_recorded_what_cannot_be_is_counted_and_changes_nothing() -> None:
    tape = Tape("as-recorded")
    tape.play("B", 11, 5, 100)
    assert tape.play("B", 11, 6, 100) == []
    assert tape.play("D", 77) == tape.play("C", 11) == tape.play("E", 11, 0) == []
    assert tape.play("B", 1000, 5, 100) == []
    assert tape.market.replay_counts == {
        "refused_adds": 2, "unknown_orders": 1, "ignored_records": 1, "empty_executions": 1,
    }  # fmt: skip


def test_as_orders_adds_trade_and_what_they_filled_is_gone_for_later_records() -> None:
    tape = Tape("as-orders")
    tape.play("B", 11, 5, 100)
    assert tape.play("S", 12, 5, 99) == ["1000,1,F,5,100,PAST"]
    assert tape.play("D", 11) == tape.play("D", 12) == []
    assert tape.market.replay_counts == {"gone_orders": 2}
    assert tape.market.recorded_ids == {}


def test_as_orders_an_execution_takes_priority_into_account_and_then_reduces_the_recorded_order() -> None:
    tape = Tape("as-orders")
    tape.play("B", 5, 4, 100, origin=CLIENT)
    tape.play("B", 11, 5, 100)
    assert tape.play("E", 11, 3) == ["1000,5,E,3,100,PAST", "1001,1,X,3,100,PAST"]
    assert tape.market.recorded_ids == {11: (1001, 2)}


def test_as_orders_an_execution_of_an_order_in_front_hits_it() -> None:
    tape = Tape("as-orders")
    tape.play("S", 11, 5, 100)
    assert tape.play("E", 11, 3) == ["1000,1,E,3,100,PAST"]
    assert tape.play("F", 11) == ["1000,1,F,2,100,PAST"]
    assert tape.market.recorded_ids == {}


def test_a_change_reduces_to_what_remains_at_the_orders_own_price() -> None:
    for mode in ("as-orders", "as-recorded"):
        tape = Tape(mode)
        tape.play("B", 11, 5, 100)
        assert tape.play(REMAIN, 11, 2, 777)[0].endswith(",1,X,3,100,PAST")
        assert tape.play(REMAIN, 11, 4) == []
        assert tape.play(REMAIN, 11, 0)[0].endswith(",1,D,2,100,PAST")


def test_outlying_prices_are_dropped_and_counted() -> None:
    tape = Tape("as-orders", factor=10)
    assert tape.play("B", 1, 5, 0) == []
    assert len(tape.play("B", 2, 5, 100)) == 1
    assert tape.play("S", 3, 5, 1001) == []
    assert len(tape.play("S", 4, 5, 1000)) == 1
    assert tape.market.replay_counts == {"dropped_prices": 2}
