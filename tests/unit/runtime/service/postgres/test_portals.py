"""Prepared statements and portals: names, limits, and the bytes that portals hold."""

from __future__ import annotations

import pytest

from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.parsing import parsed
from runtime.service.postgres.parts import HeldBytes
from runtime.service.postgres.portals import Cursor, Portal, PortalTable, Prepared, PreparedTable, ShownRows

ROWS = ShownRows.of_text(("a",), [("x",), ("y",)])


def prepared(sql: str = "SELECT 1", size: int = 8) -> Prepared:
    return Prepared(parsed(sql)[0], [], size)


def test_every_parameter_has_a_type_number() -> None:
    assert Prepared(parsed("SELECT $1, $3")[0], [20], 1).oids == [20, 0, 0]
    assert Prepared(None, [], 0).oids == []


def test_a_name_is_taken_once_but_for_the_unnamed_one() -> None:
    table = PreparedTable()
    first, second = prepared(), prepared()
    table.add("", first)
    table.add("", second)
    assert table.find("") is second
    table.add("a", first)
    with pytest.raises(PostgresError, match="expected a new name"):
        table.add("a", second)
    assert table.deallocate("a") == "DEALLOCATE"
    with pytest.raises(PostgresError, match="expected a prepared statement, was 'a'"):
        table.deallocate("a")
    table.close("a")


def test_texts_of_statements_are_bounded_together() -> None:
    table = PreparedTable()
    table.add("a", prepared(size=4 * 1024 * 1024))
    with pytest.raises(PostgresError, match="DEALLOCATE"):
        table.add("b", prepared(size=1))
    assert table.deallocate(None) == "DEALLOCATE ALL"
    table.add("b", prepared(size=1))


def test_a_portal_returns_its_bytes() -> None:
    held = HeldBytes(ROWS.nbytes)
    table = PortalTable(held)
    for name in ("a", "b"):
        table.add(name, Portal(prepared(), (), ()))
    table.fill(table.find("a"), Cursor(ROWS, [0]))
    assert held.total == ROWS.nbytes
    with pytest.raises(PostgresError, match="for all sessions"):
        table.fill(table.find("b"), Cursor(ROWS, [0]))
    assert table.close_cursor("a") == "CLOSE CURSOR"
    assert held.total == 0
    with pytest.raises(PostgresError, match="expected a cursor, was 'b'"):
        table.close_cursor("b")


def test_a_portal_that_is_gone_holds_nothing() -> None:
    held = HeldBytes(1000)
    PortalTable(held).fill(Portal(prepared(), (), ()), Cursor(ROWS, [0]))
    assert held.total == 0


def test_cursors_with_hold_outlive_a_block() -> None:
    table = PortalTable(HeldBytes(1000))
    for name in ("a", "b"):
        table.add(name, Portal(prepared(), (), ()))
        table.fill(table.find(name), Cursor(ROWS, [0]))
    table.find("b").outlives = True
    table.clear(keeps_held_cursors=True)
    assert "a" not in table
    assert "b" in table
    assert table.close_cursor(None) == "CLOSE CURSOR ALL"
    assert "b" not in table
