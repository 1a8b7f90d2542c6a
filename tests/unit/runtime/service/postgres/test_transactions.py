"""Transaction blocks: states, savepoints, and what a failed one executes."""

from __future__ import annotations

from weakref import WeakSet

import pytest

from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.settings import Settings
from runtime.service.postgres.statements import End, Question, Savepoint
from runtime.service.postgres.transactions import FAILED, IDLE, IN_BLOCK, TransactionBlock

QUESTION = Question("SELECT 1", 0)


def returned(block: TransactionBlock, statement: Savepoint) -> str:
    """The name of the savepoint to which a session returns, or an empty text."""
    state = block.savepoint(statement, Settings("me").state(), WeakSet())
    return "" if state is None else state.name


def test_an_error_fails_a_block_and_nothing_else() -> None:
    block = TransactionBlock()
    block.fail()
    assert block.status == IDLE
    block.check(QUESTION)
    block.status = IN_BLOCK
    block.fail()
    assert block.status == FAILED
    with pytest.raises(PostgresError, match="expected ROLLBACK"):
        block.check(QUESTION)
    with pytest.raises(PostgresError, match="expected ROLLBACK"):
        block.check(Savepoint("SAVEPOINT", "a"))
    block.check(End(commits=True))
    block.check(Savepoint("ROLLBACK", "a"))


def test_a_savepoint_is_returned_to_as_often_as_wanted() -> None:
    block = TransactionBlock()
    block.status = IN_BLOCK
    for name in ("a", "b", "a"):
        returned(block, Savepoint("SAVEPOINT", name))
    block.fail()
    assert returned(block, Savepoint("ROLLBACK", "b")) == "b"
    assert block.status == IN_BLOCK
    returned(block, Savepoint("ROLLBACK", "b"))
    assert returned(block, Savepoint("RELEASE", "a")) == ""
    with pytest.raises(PostgresError, match="out of none, was 'b'"):
        returned(block, Savepoint("RELEASE", "b"))


def test_savepoints_are_bounded_and_need_a_block() -> None:
    block = TransactionBlock()
    with pytest.raises(PostgresError, match="expected a transaction block for SAVEPOINT"):
        returned(block, Savepoint("SAVEPOINT", "a"))
    block.status = IN_BLOCK
    for _ in range(100):
        returned(block, Savepoint("SAVEPOINT", "a"))
    with pytest.raises(PostgresError, match="at most 100"):
        returned(block, Savepoint("SAVEPOINT", "a"))


def test_an_ended_block_reads_no_epoch() -> None:
    block = TransactionBlock()
    block.is_implicit, block.epoch = True, 7
    pinned = [block.is_pinned]
    block.end()
    pinned.append(block.is_pinned)
    assert pinned == [True, False]
    assert block.epoch is None
