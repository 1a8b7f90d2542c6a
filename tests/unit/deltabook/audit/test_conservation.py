"""Exchange and strategies agree after every run, and whatever does not agree is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from algo_engine.desk.journal import JOURNAL, FileJournal, read_journal
from algo_engine.desk.order import Side
from algo_engine.desk.portfolio import Holding
from algo_engine.desk.records import Checkpoint, Intent, Noted, Opened, Received, Record, Reserved
from algo_engine.desk.trades import SPOOL
from deltabook.audit import AuditError, audit
from tests.generators.audit_floor import FEES, AuditFloor


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day of two strategies, ended cleanly."""
    floor = AuditFloor(tmp_path_factory.mktemp("floor"), seed=7)
    floor.trade(400)
    floor.close()
    return floor.path


def problems(path: Path, *, is_running: bool = False) -> list[str]:
    found = audit(path / "algo", path / "exchange", FEES, is_running=is_running)
    return [f"{strategy.name}: {problem}" for strategy in found.strategies for problem in strategy.problems]


def test_a_run_agrees_in_every_order_and_every_unit(run: Path) -> None:
    found = audit(run / "algo", run / "exchange", FEES)
    assert found.agrees
    first, second = found.strategies
    assert (first.name, second.name) == ("first", "second")
    assert first.fills > 100
    assert first.unreceived == second.unreceived == 0
    for symbol in ("ACME", "GLOBEX"):
        one, other = first.accounts[symbol], second.accounts[symbol]
        # They trade with nobody else, or each with itself: what one has paid, the other has got.
        assert one.position_lots + other.position_lots == 0
        assert one.cash + other.cash == 0


@pytest.mark.parametrize("seed", range(3))
def test_journals_that_were_compacted_again_and_again_agree_too(tmp_path: Path, seed: int) -> None:
    floor = AuditFloor(tmp_path, seed, compact_bytes=2_000)
    floor.trade(150)
    floor.close()
    assert problems(tmp_path) == []


@pytest.mark.parametrize("compact_bytes", [2_000, 1 << 30])
def test_a_void_trade_is_reversed_for_both_of_its_owners(tmp_path: Path, compact_bytes: int) -> None:
    """One of them may be both: then both of its trades are void."""
    floor = AuditFloor(tmp_path, seed=5, compact_bytes=compact_bytes)
    floor.trade(150)
    for match in (3, 9, 9, 20):
        floor.declare_void(match)
    floor.trade(50)
    floor.close()
    found = audit(tmp_path / "algo", tmp_path / "exchange", FEES)
    assert problems(tmp_path) == []
    assert sum(strategy.void_trades for strategy in found.strategies) == 6
    first, second = found.strategies
    for symbol in ("ACME", "GLOBEX"):
        assert first.accounts[symbol].position_lots + second.accounts[symbol].position_lots == 0
        assert first.accounts[symbol].cash + second.accounts[symbol].cash == 0


def test_a_void_trade_that_a_strategy_has_not_reversed_is_found(tmp_path: Path) -> None:
    floor = AuditFloor(tmp_path, seed=5)
    floor.trade(150)
    floor.declare_void(9)
    floor.close()
    rewrite(tmp_path, lambda held: changed(Received, "B", held, void=None))
    assert any("void trades: expected 1, was 0" in problem for problem in problems(tmp_path))


def test_what_was_not_heard_is_a_problem_unless_they_still_run(tmp_path: Path) -> None:
    floor = AuditFloor(tmp_path, seed=1)
    floor.trade(60)
    floor.desks["first"].submit(Side.BUY, "ACME", 3, 100)
    floor.clock.advance(0)
    floor.close()
    assert [problem.partition(":")[2] for problem in problems(tmp_path)] != []
    assert all("messages received: expected" in problem for problem in problems(tmp_path))
    assert problems(tmp_path, is_running=True) == []


def rewrite(path: Path, change: Callable[[list[Record]], list[Record]]) -> None:
    """Put other records in the place of a journal's."""
    journal = path / "algo" / "first" / JOURNAL
    records, _ = read_journal(journal)
    first, *rest = change(records)
    journal.unlink()
    file = FileJournal(journal)
    assert isinstance(first, Checkpoint)
    file.compact(first)
    for record in rest:
        file.append(record)
    file.close()


def edit_trades(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    spool = path / "algo" / "first" / SPOOL
    lines = change([line[: line.rindex(",#")] + "\n" for line in spool.read_text().splitlines()])
    spool.write_text("".join(lines))  # without checksums, as an earlier release would have written them


def with_field(line: str, at: int, value: str) -> str:
    fields = line.rstrip("\n").split(",")
    fields[at] = value
    return ",".join(fields) + "\n"


def changed(kind: type[Record], action: str, records: list[Record], **fields: object) -> list[Record]:
    """The first record of a kind and action with other fields; without any it is left out."""
    at = next(i for i, record in enumerate(records) if isinstance(record, kind) and record.action in action)  # type: ignore[union-attr]
    kept = [msgspec.structs.replace(records[at], **fields)] if fields else []
    return [*records[:at], *kept, *records[at + 1 :]]


def other_holding(records: list[Record]) -> list[Record]:
    return [msgspec.structs.replace(records[0], holdings={"ACME": Holding(realised=1)}), *records[1:]]


def other_session(records: list[Record]) -> list[Record]:
    return [Opened("ANOTHER") if isinstance(record, Opened) else record for record in records]


RECORDS: dict[str, tuple[Callable[[list[Record]], list[Record]], str]] = {
    "an order of another size": (lambda held: changed(Intent, "B", held, volume_lots=77), "first: order "),
    "an order that was never written down": (lambda held: changed(Intent, "B", held), "expected a request in the jour"),
    "a fill at another price": (
        lambda held: changed(Received, "EF", held, price_ticks=7),
        "position, profit, cost and",
    ),
    "a profit from nowhere": (other_holding, "position, profit, cost and fees of ACME"),
    "another session": (other_session, "session: expected SESSION1, was ANOTHER"),
    "a journal that is cut": (lambda held: held[:-5], "messages received: expected"),
}
TRADES = {
    "a trade less": (lambda lines: lines[:4] + lines[5:], "execution "),
    "the last trade less": (lambda lines: lines[:-1], "expected a line in the list of trades, was none"),
    "a trade more": (lambda lines: [*lines, with_field(lines[-1], 1, "999999")], "expected a message of the exchange"),
    "another price": (lambda lines: [with_field(lines[0], 7, "1"), *lines[1:]], "execution "),
    "another side": (
        lambda lines: [with_field(lines[0], 5, "B" if ",S," in lines[0] else "S"), *lines[1:]],
        "position of",
    ),
    "another order": (lambda lines: [with_field(lines[0], 9, "424242"), *lines[1:]], "execution "),
    "another fee": (lambda lines: [with_field(lines[0], 11, "9"), *lines[1:]], "fee of trade"),
}


@pytest.mark.parametrize("what", RECORDS)
def test_a_wrong_journal_is_found(run: Path, tmp_path: Path, what: str) -> None:
    change, expected = RECORDS[what]
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    rewrite(copy, change)
    found = problems(copy)
    assert any(expected in problem for problem in found), found
    assert all(problem.startswith("first:") for problem in found)


@pytest.mark.parametrize("is_reserved", [False, True])
def test_a_request_that_a_power_loss_took_was_reserved(run: Path, tmp_path: Path, is_reserved: bool) -> None:
    """Its order is known by the exchange's answer; of a number that nobody had reserved the request must be there."""
    shutil.copytree(run, tmp_path / "copy")

    def lose(records: list[Record]) -> list[Record]:
        at, intent = next((at, each) for at, each in enumerate(records) if isinstance(each, Intent))
        reserved: list[Record] = [Reserved(intent.client_id, 0)] if is_reserved else []
        return [*records[:at], *reserved, Noted(intent.client_id), *records[at + 1 :]]

    rewrite(tmp_path / "copy", lose)
    assert [problem.partition("expected ")[2] for problem in problems(tmp_path / "copy")] == (
        [] if is_reserved else ["a request in the journal, was none"]
    )


@pytest.mark.parametrize("what", TRADES)
def test_a_wrong_list_of_trades_is_found(run: Path, tmp_path: Path, what: str) -> None:
    change, expected = TRADES[what]
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    edit_trades(copy, change)
    found = problems(copy)
    assert any(expected in problem for problem in found), found
    assert len(found) <= 21


def test_an_empty_directory_is_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="expected journals of orders in"):
        audit(tmp_path, tmp_path)
