"""What strategies ask for in numbers that are none goes nowhere, and holds nothing up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from algo_engine.desk.order import EventKind, Side
from algo_engine.desk.records import decode_record, encode_record
from deltabook.wire.text import OrderOptions, WireError
from tests.generators.order_lab import OrderLab


@pytest.fixture
def lab() -> OrderLab:
    """A broker with one order of 10 lots in the market."""
    lab = OrderLab()
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 10, 100)
    lab.settle()
    return lab


def check_refused(lab: OrderLab, asks: list[Callable[[], object]], error: type[Exception], words: str) -> None:
    """Each request raises the error, and none is sent."""
    for ask in asks:
        with pytest.raises(error, match=words):
            ask()
    lab.turn()
    assert not lab.requests
    lab.check_settled()


@pytest.mark.parametrize("number", [10.0, 2.5, "10", None])
def test_a_number_that_is_not_whole_goes_nowhere(lab: OrderLab, number: Any) -> None:
    asks: list[Callable[[], object]] = [
        lambda: lab.desk.submit(Side.BUY, "ACME", 10, number),
        lambda: lab.desk.submit(Side.BUY, "ACME", number, 100),
        lambda: lab.desk.replace(1, number, 100),
        lambda: lab.desk.replace(1, 10, number),
        lambda: lab.desk.reduce(1, number),
        lambda: lab.desk.replace(number, 10, 100),
        lambda: lab.desk.reduce(number, 1),
        lambda: lab.desk.cancel(number),
    ]
    check_refused(lab, asks, TypeError, r"expected a whole number (of lots|of ticks|as client id), was")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
def test_a_number_beyond_64_bits_goes_nowhere(lab: OrderLab, number: int) -> None:
    """Neither the wire nor the tables of a result can represent it."""
    asks: list[Callable[[], object]] = [
        lambda: lab.desk.submit(Side.BUY, "ACME", 10, number),
        lambda: lab.desk.submit(Side.BUY, "ACME", number, 100),
        lambda: lab.desk.replace(1, number, 100),
        lambda: lab.desk.replace(1, 10, number),
    ]
    check_refused(lab, asks, OverflowError, r"expected a number of (lots|ticks) within 64 bits, was")


def test_numbers_and_symbols_of_numpy_are_those_of_python(lab: OrderLab) -> None:
    """The journal in a file represents Python's own types only."""
    number: Any = np.int64
    second = lab.desk.submit(Side.BUY, np.str_("ACME"), number(10), number(100))
    lab.settle()
    lab.desk.replace(number(second), number(9), number(99))
    lab.settle()
    lab.desk.reduce(number(second), number(4))
    lab.settle()
    lab.desk.cancel(number(second))
    lab.settle()
    lab.desk.cancel(True)
    lab.settle()
    assert not lab.exchange.resting
    for record in lab.journal.durable:
        assert decode_record(encode_record(record)) == record
    lab.check_settled()


def test_unreadable_options_do_not_delay_cancellations(lab: OrderLab) -> None:
    with pytest.raises(WireError, match="expected an int64 for until"):
        lab.desk.submit(Side.BUY, "ACME", 10, 100, OrderOptions(expire_ns=1.5e18))  # type: ignore[arg-type]
    lab.desk.kill("enough")
    lab.settle()
    assert not lab.exchange.resting
    lab.check_settled()


def test_a_reduction_by_too_much_is_one_by_all_that_is_left(lab: OrderLab) -> None:
    lab.desk.reduce(1, 2**70)
    lab.settle()
    assert lab.events[-1].kind is EventKind.CANCELLED
    lab.check_settled()
