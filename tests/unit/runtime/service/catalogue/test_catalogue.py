"""Changes of the catalogue follow one another, each against the one before; who waits is told once it is published."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock

from runtime.compiler import Column, Linear, NamedSelect, Program, Relation, SqlError, compile_program, decode_program
from runtime.engine.ingest import OnSealed
from runtime.service.catalogue import Catalogue
from runtime.service.errors import CatalogueError, UnknownViewError
from runtime.views.shard import LOWERING

R = Relation("r", (Column("a", "int64"), Column("b", "int64")))


class Reactor(Clock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    def callFromThread(self, call: Any, *args: Any) -> None:
        call(*args)


class Lab:
    """A catalogue whose records are sealed when the test says so."""

    def __init__(self, most_views: int = 4, **options: Any) -> None:
        self.reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
        self.records: list[tuple[bytes, OnSealed]] = []
        self.catalogue = Catalogue(
            self.reactor,
            compile_program([view("first")], [R]),
            [R],
            seal=lambda record, on_sealed: self.records.append((record, on_sealed)),
            in_thread=maybeDeferred,
            most_views=most_views,
            **options,
        )

    def seal(self, epoch: int) -> Program:
        """The oldest record that waits goes into the log."""
        record, on_sealed = self.records.pop(0)
        on_sealed(epoch)
        return decode_program(record)


def view(name: str, sql: str = "SELECT a, SUM(b) AS x FROM r GROUP BY a") -> NamedSelect:
    return NamedSelect(name, sql)


def names(program: Program) -> list[str]:
    return [view.name for view in program.views]


def outcome(deferred: Deferred[Any]) -> list[Any]:
    """What it has fired with, so far."""
    found: list[Any] = []
    deferred.addBoth(found.append)
    return found


def failure(deferred: Deferred[Any]) -> BaseException:
    (found,) = outcome(deferred)
    error: BaseException = found.value
    return error


def test_a_change_is_sealed_and_says_its_epoch() -> None:
    lab = Lab()
    added = outcome(lab.catalogue.add([view("second"), view("third")]))
    assert added == []
    assert names(lab.seal(7)) == ["first", "second", "third"]
    assert added == [7]
    dropped = outcome(lab.catalogue.drop("first"))
    assert names(lab.seal(8)) == ["second", "third"]
    assert dropped == [8]
    assert names(lab.catalogue.program) == ["second", "third"]


def test_changes_that_come_together_follow_each_other() -> None:
    lab = Lab()
    found = [outcome(lab.catalogue.add([view("second")])), outcome(lab.catalogue.add([view("second")])),
             outcome(lab.catalogue.drop("second"))]  # fmt: skip
    assert len(lab.records) == 1, "the others wait"
    assert names(lab.seal(3)) == ["first", "second"]
    assert isinstance(found[1][0].value, SqlError), "the name is taken by now"
    assert names(lab.seal(4)) == ["first"]
    assert (found[0], found[2]) == ([3], [4])


def test_what_is_refused_leaves_everything_as_it_was() -> None:
    lab = Lab(most_views=2)
    assert isinstance(failure(lab.catalogue.add([view("v", "SELECT z FROM r")])), SqlError)
    assert isinstance(failure(lab.catalogue.drop("other")), UnknownViewError)
    error = failure(lab.catalogue.add([view("second"), view("third")]))
    assert str(error) == "expected at most 2 views and streams (--most-views), was 3"
    assert lab.records == []
    added = outcome(lab.catalogue.add([view("second")]))
    lab.seal(2)
    assert added == [2]


def test_changes_that_cannot_be_sealed_any_more_fail() -> None:
    """The input has ended: none may wait for the other's lock for ever."""
    lab = Lab()
    found = [outcome(lab.catalogue.add([view("second")])), outcome(lab.catalogue.drop("first"))]
    for _ in found:
        lab.records.pop(0)[1](None)
    for (failed,) in found:
        assert isinstance(failed.value, CatalogueError)
        assert "expected a feed that is being read" in str(failed.value)
    assert names(lab.catalogue.program) == ["first"]


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a,b", "Upper", "a" * 101, 'a"b'])
def test_a_name_fits_into_paths_and_lists(name: str) -> None:
    with pytest.raises(CatalogueError, match="expected the name of a view in lower case without blanks"):
        Lab().catalogue.add([view(name)])


def test_a_view_that_cannot_be_built_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sealed into the catalogue it could only be marked as failed."""

    def broken(view: Any, body: Any, builder: Any) -> None:
        raise SyntaxError(f"too many nested parentheses in {view.name}")

    monkeypatch.setitem(LOWERING, Linear, broken)
    lab = Lab()
    error = failure(lab.catalogue.add([view("second")]))
    assert isinstance(error, CatalogueError)
    assert str(error).startswith("expected a view that can be built, was second: ")
    assert (lab.records, names(lab.catalogue.program)) == ([], ["first"])


def test_waiters_are_notified_at_publication_or_timeout() -> None:
    lab = Lab()
    lab.catalogue.published(4)
    assert outcome(lab.catalogue.when_published(4, 1.0)) == [True]
    soon, late = outcome(lab.catalogue.when_published(6, 5.0)), outcome(lab.catalogue.when_published(9, 5.0))
    lab.catalogue.published(5)
    assert soon == late == []
    lab.catalogue.published(7)
    assert (soon, late) == ([True], [])
    lab.reactor.advance(5.0)
    assert late == [False]
    lab.catalogue.published(9)
    assert lab.reactor.getDelayedCalls() == []


def test_each_lane_publishes_its_own_versions() -> None:
    lab = Lab()
    spark, express = (outcome(lab.catalogue.when_published(5, 10.0, lane)) for lane in ("spark", "express"))
    lab.catalogue.published(6, "express")
    assert (spark, express) == ([], [True])
    lab.catalogue.published(5)
    assert spark == [True]


def test_slow_work_and_refusals_of_lanes_precede_the_seal() -> None:
    made: list[tuple[list[str], list[str]]] = []
    lab = Lab(lanes=["express"], prepare=lambda old, new: made.append((names(old), names(new))))
    refused = failure(lab.catalogue.add([view("second")]))
    assert isinstance(refused, CatalogueError)
    assert "started without Spark" in str(refused)
    assert outcome(lab.catalogue.when_published(5, 10.0)) == [True], "nothing is to be waited for"
    lab.catalogue.add([NamedSelect("second", "SELECT a FROM r", lane="express")])
    assert made == [(["first"], ["first", "second"])]
    assert [view.lane for view in lab.seal(2).views] == ["spark", "express"]


def test_a_view_without_a_lane_takes_the_running_lane() -> None:
    for lanes, found in ((["express"], "express"), (["spark", "express"], "spark")):
        lab = Lab(lanes=lanes)
        lab.catalogue.add([NamedSelect("second", "SELECT a FROM r", any_lane=True)])
        assert lab.seal(2).views[1].lane == found


def test_wrong_sql_is_refused_before_an_absent_lane() -> None:
    lab = Lab(lanes=["express"])
    assert isinstance(failure(lab.catalogue.add([view("second", "SELECT c FROM r")])), SqlError)
    assert lab.records == []
