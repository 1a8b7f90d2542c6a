"""What recorded events do, as they were and as orders."""

from __future__ import annotations

from exchange_server.matching import Recorded, ReplayMode
from exchange_server.matching.inputs import REMAIN
from tests.generators.order_desk import AGENT, OrderDesk


class Tape(OrderDesk):
    """Plays records of a file."""

    def __init__(self, mode: ReplayMode, factor: int = 0, **rules: object) -> None:
        super().__init__(
            ("PAST",), replay_symbols=("PAST",), replay_mode=mode, outlier_factor=factor, first_order_id=1_000, **rules
        )
        self._position = 0

    def play(self, action: str, order: int, volume: int = 0, price: int = 0, new: int = 0) -> list[str]:
        self._position += 1
        self.apply(Recorded(0, self._position, order, order % 10, action, volume, price, "PAST", new))
        return self.feed()


def test_as_recorded_a_crossed_book_matches_nothing() -> None:
    tape = Tape("as-recorded")
    assert tape.play("B", 11, 5, 100) == ["added 11 B 5@100"]
    assert tape.play("S", 12, 5, 90) == ["added 12 S 5@90"]
    assert (tape.market.trades, tape.market.replay_position) == (0, 2)


def test_as_recorded_executions_carry_the_resting_price() -> None:
    tape = Tape("as-recorded")
    tape.play("B", 11, 5, 100)
    assert tape.play("E", 11, 2) == ["executed 11 2@100"]
    assert tape.play("E", 11, 3) == ["executed 11 3@100"]
    tape.play("B", 13, 5, 100)
    assert tape.play("F", 13, 0, 101) == ["executed 13 5@101"]
    assert tape.market.books["PAST"].orders == {}


def test_as_recorded_a_delete_says_the_rest_and_trades_nothing() -> None:
    tape = Tape("as-recorded")
    tape.play("B", 11, 5, 100)
    assert tape.play("T", 99, 7, 101) == ["printed 9 7@101"]
    assert tape.play("D", 11) == ["deleted 11 5"]
    assert tape.market.trades == 1


def test_as_recorded_a_replacement_is_one() -> None:
    tape = Tape("as-recorded")
    tape.play("B", 11, 5, 100)
    assert tape.play("U", 11, 4, 101, new=12) == ["replaced 11 12 4@101"]
    assert tape.play("U", 12, 4, 101, new=12) == []
    assert [(order.order_id, order.broker_id) for order in tape.market.books["PAST"].resting()] == [(12, 1)]


def test_as_recorded_impossible_records_are_counted_alone() -> None:
    tape = Tape("as-recorded")
    tape.play("B", 11, 5, 100)
    assert tape.play("B", 11, 6, 100) == []
    assert tape.play("D", 77) == tape.play("C", 11) == tape.play("E", 11, 0) == []
    assert tape.play("B", 1000, 5, 100) == []
    assert tape.market.replay_counts == {
        "refused_adds": 2, "unknown_orders": 1, "ignored_records": 1, "empty_executions": 1,
    }  # fmt: skip


def test_as_recorded_takes_no_foreign_requests_and_no_phases() -> None:
    tape = Tape("as-recorded")
    tape.open("ann")
    tape.play("B", 11, 5, 100)
    tape.enter("ann", "B", 5, 100, symbol="PAST")
    tape.cancel("ann", 11)
    assert tape.told("ann") == ["refused REPLAYED", "refused REPLAYED"]
    tape.mass_cancel()
    tape.phase("halted", "PAST")
    assert tape.feed() == ["trading H"]
    assert tape.play("S", 12, 5, 100) == ["added 12 S 5@100"]


def test_as_orders_adds_trade_and_filled_orders_are_gone() -> None:
    tape = Tape("as-orders")
    tape.play("B", 11, 5, 100)
    assert tape.play("S", 12, 5, 99) == ["executed 1000 5@100"]
    assert tape.play("D", 11) == tape.play("D", 12) == []
    assert tape.market.replay_counts == {"gone_orders": 2}
    assert tape.market.shared.recorded_ids == {}


def test_as_orders_an_execution_honours_priority_then_reduces() -> None:
    tape = Tape("as-orders")
    tape.enter(AGENT, "B", 4, 100, symbol="PAST")
    tape.play("B", 11, 5, 100)
    assert tape.play("E", 11, 3) == ["executed 1000 3@100", "reduced 1001 3"]
    assert tape.market.shared.recorded_ids == {11: (1001, 2)}


def test_as_orders_an_execution_of_an_order_in_front_hits_it() -> None:
    tape = Tape("as-orders")
    tape.play("S", 11, 5, 100)
    assert tape.play("E", 11, 3) == ["executed 1000 3@100"]
    assert tape.play("F", 11) == ["executed 1000 2@100"]
    assert tape.market.shared.recorded_ids == {}


def test_as_orders_a_replacement_ends_and_adds_an_order() -> None:
    tape = Tape("as-orders")
    tape.play("B", 11, 5, 100)
    assert tape.play("U", 11, 4, 101, new=12) == ["deleted 1000 5", "added 1001 B 4@101"]
    assert tape.market.shared.recorded_ids == {12: (1001, 4)}
    assert tape.play("U", 12, 4, 102, new=12) == ["deleted 1001 4", "added 1002 B 4@102"]
    assert tape.market.shared.recorded_ids == {12: (1002, 4)}
    tape.enter(AGENT, "S", 4, 110, symbol="PAST")
    tape.feed()
    assert tape.play("U", 12, 4, 110, new=12) == ["deleted 1002 4", "executed 1003 4@110"]
    assert tape.market.shared.recorded_ids == {}


def test_as_orders_reaches_stops_and_meets_no_collar() -> None:
    tape = Tape("as-orders", collar_bps=100)
    tape.enter(AGENT, "S", 1, 300, stop=150, symbol="PAST")
    tape.play("B", 11, 5, 150)
    tape.play("S", 12, 1, 150)
    assert [order.price_ticks for order in tape.market.books["PAST"].resting()] == [150, 300]


def test_as_orders_in_another_phase_nothing_executes() -> None:
    tape = Tape("as-orders")
    tape.play("B", 11, 5, 100)
    tape.phase("paused", "PAST")
    tape.feed()
    assert tape.play("S", 12, 5, 99) == ["added 1001 S 5@99"]
    assert tape.play("E", 11, 2) == ["reduced 1000 2"]
    tape.phase("halted", "PAST")
    tape.feed()
    assert tape.play("S", 13, 5, 99) == []
    assert tape.market.replay_counts == {"refused_adds": 1}


def test_a_change_reduces_to_the_rest_at_the_orders_price() -> None:
    modes: tuple[ReplayMode, ...] = ("as-orders", "as-recorded")
    for mode in modes:
        tape = Tape(mode)
        tape.play("B", 11, 5, 100)
        assert tape.play(REMAIN, 11, 3, 777)[0].endswith(" 2")
        assert tape.play(REMAIN, 11, 3) == []
        assert tape.play("X", 11, 1)[0].endswith(" 1")
        assert tape.play(REMAIN, 11, 0)[0].startswith("deleted")


def test_outlying_prices_are_dropped_and_counted() -> None:
    tape = Tape("as-orders", factor=10)
    assert tape.play("B", 1, 5, 0) == []
    assert len(tape.play("B", 2, 5, 100)) == 1
    assert tape.play("S", 3, 5, 1001) == []
    assert len(tape.play("S", 4, 5, 1000)) == 1
    assert tape.market.replay_counts == {"dropped_prices": 2}
