"""The process or the machine dies at every step of the journal: no order is doubled or orphaned."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from algo_engine.desk.journal import MemoryJournal
from algo_engine.desk.order import Side
from algo_engine.desk.portfolio import Holding
from algo_engine.desk.records import Checkpoint, Record
from tests.generators.order_lab import OrderLab


class _Crash(Exception):
    pass


class _Faulty(MemoryJournal):
    """Dies at its n-th step."""

    steps_left = 10**9

    def _step(self) -> None:
        type(self).steps_left -= 1
        if type(self).steps_left == 0:
            raise _Crash

    def append(self, record: Record) -> None:
        self._step()
        super().append(record)
        self._step()

    def sync(self) -> None:
        self._step()
        super().sync()
        self._step()

    def write(self) -> None:
        self._step()
        super().write()
        self._step()

    def begin_sync(self) -> Callable[[], None]:
        self._step()
        sync = super().begin_sync()

        def steps() -> None:
            self._step()
            sync()
            self._step()

        return steps

    def begin_compaction(self, state: Checkpoint) -> Callable[[], None]:
        self._step()
        replace = super().begin_compaction(state)

        def steps() -> None:
            self._step()
            replace()
            self._step()

        return steps

    def end_compaction(self) -> None:
        self._step()
        super().end_compaction()
        self._step()


def _scenario(lab: OrderLab) -> None:
    """Some of everything: orders, fills, a reduction, cancellations, a break."""
    lab.settle()
    first = lab.desk.submit(Side.BUY, "ACME", 10, 100)
    second = lab.desk.submit(Side.SELL, "ACME", 20, 110)
    lab.settle()
    lab.exchange.fill(min(lab.exchange.resting), 4, 100)
    lab.told()
    lab.desk.reduce(second, 5)
    lab.desk.cancel(first)
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 8, 0)
    lab.desk.submit(Side.BUY, "ACME", 30, 98)
    lab.turn()
    lab.deliver_request()
    lab.drop(arriving=1)
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 40, 97)
    lab.settle()
    for match in (0, 1, 0):
        lab.exchange.declare_void(match)
        lab.told()
    lab.settle()
    lab.desk.submit(Side.BUY, "ACME", 4, 0)
    lab.settle()


def check_money(lab: OrderLab) -> None:
    """The holding is that of all trades that are not void."""
    holding = Holding()
    for match, done in enumerate(lab.exchange.executed):
        if match not in lab.exchange.void:
            holding = holding.after(Side(done.order.side), done.volume, done.price)
    assert lab.desk.portfolio.holding("ACME") == holding


@pytest.mark.parametrize("is_behind", [False, True])
@pytest.mark.parametrize("compact_bytes", [64 * 2, 64 * 3, 64 * 5, 1 << 30])
@pytest.mark.parametrize(("arriving", "written"), list(itertools.product([0, 9], [None, 0, 1, 9])))
def test_no_order_is_doubled_or_orphaned_wherever_it_dies(
    arriving: int, written: int | None, compact_bytes: int, is_behind: bool
) -> None:
    """Dies at every step of the journal, with and without what was sent but not answered.

    ``written`` is how many records beyond the last sync a power loss has left; None: the process alone dies.
    """
    for step in range(1, 400):
        _Faulty.steps_left = step
        lab: OrderLab | None = None
        try:
            lab = OrderLab(make_journal=_Faulty, compact_bytes=compact_bytes, is_behind=is_behind)
            _scenario(lab)
        except _Crash:
            if lab is None:
                continue
            _Faulty.steps_left = 10**9
            if written is None:
                lab.kill(arriving=arriving)
            else:
                lab.crash(arriving=arriving, written=written)
            lab.settle()
            lab.check_settled()
            check_money(lab)
            lab.desk.submit(Side.SELL, "ACME", 7, 105)
            lab.settle()
            lab.check_settled()
        else:
            lab.check_settled()
            check_money(lab)
            assert step > 40, "the scenario has that many steps"
            return
    pytest.fail("the scenario never ended")
