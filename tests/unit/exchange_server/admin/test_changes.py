"""What an operator changes is a request like any other, and what cannot be changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltabook.wire import admin
from exchange_server.errors import JournalError
from exchange_server.matching.inputs import Kill, MassCancel, Phase
from exchange_server.matching.order import CancelReason
from tests.generators.operated import Operated, Playing
from tests.generators.text_floor import fields


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path)
    yield operated
    operated.close()


def trader(operated: Operated, broker: int, *requests: str) -> Any:
    """A client that has sent some requests, and its transport."""
    connection, wire = operated.connect(f"0,{broker},,1")
    connection.dataReceived("".join(f"{line}\n" for line in requests).encode())
    operated.clock.advance(0)
    wire.take()
    return connection, wire


def phases(operated: Operated) -> list[str]:
    return [book.phase for book in operated.exchange.market.books.values()]


def test_a_phase_is_a_request_with_a_time_of_its_own(operated: Operated) -> None:
    operated.quote(1)
    submitted: list[Any] = []
    submit = operated.exchange.submit

    def noted(batch: Any) -> Any:
        submitted.extend(batch)
        return submit(batch)

    operated.exchange.submit = noted  # type: ignore[method-assign]
    done = operated.change(admin.SetPhase("ACME", "halted", "NEWS"))
    assert (done.what, done.inputs) == ("ACME is halted", 2)
    assert submitted == [Phase(done.time_ns, "ACME", "halted", "NEWS")]
    assert phases(operated) == ["halted", "continuous"]


def test_a_phase_that_a_symbol_is_in_or_cannot_leave_is_refused(operated: Operated) -> None:
    assert operated.refused(admin.SetPhase("ACME", "continuous")) == (
        409, "expected ACME in another phase than continuous, was in it already"
    )  # fmt: skip
    operated.change(admin.SetPhase("ACME", "closed"))
    assert operated.refused(admin.SetPhase("ACME", "continuous")) == (
        409, "expected ACME before the end of its day, was closed"
    )  # fmt: skip


def test_a_phase_for_every_symbol_leaves_closed_ones_alone(operated: Operated) -> None:
    operated.change(admin.SetPhase("GLOBEX", "closed"))
    operated.change(admin.SetPhase("", "auction-close"))
    assert phases(operated) == ["auction-close", "closed"]
    assert operated.change(admin.SetPhase("", "closed")).what == "every symbol is closed"
    assert operated.refused(admin.SetPhase("", "closed"))[0] == 409
    assert operated.refused(admin.SetPhase("", "continuous"))[0] == 409


def test_a_session_is_cut_with_its_reason_and_others_stay(operated: Operated) -> None:
    (one, wire), (other, stays) = trader(operated, 7), trader(operated, 8)
    one.peer, other.peer = "127.0.0.1:1", "127.0.0.1:2"
    done = operated.change(admin.CutSession("text:127.0.0.1:1", "misbehaved"))
    assert (done.what, done.inputs) == ("session text:127.0.0.1:1 is cut: misbehaved", operated.exchange.inputs)
    assert (wire.disconnecting, stays.disconnecting) == (True, False)
    assert operated.refused(admin.CutSession("itch:127.0.0.1:2"))[0] == 404


def test_a_killed_account_gets_no_orders_until_it_is_revived(operated: Operated) -> None:
    connection, wire = trader(operated, 7, "1,0,0,7,B,5,100,ACME", "2,0,0,7,B,5,99,GLOBEX")
    assert operated.change(admin.KillAccount("text:7")).what == (
        "account text:7 is stopped, 2 of its orders are cancelled"
    )
    operated.clock.advance(0)
    assert [line[0] for line in fields(wire.take())] == ["D", "D"]
    connection.dataReceived(b"3,0,0,7,B,5,100,ACME\n")
    operated.clock.advance(0)
    assert [line[0] for line in fields(wire.take())] == ["R"]
    assert operated.refused(admin.KillAccount("text:7")) == (
        409, "expected an account that trades, was text:7, which is stopped"
    )  # fmt: skip
    operated.change(admin.KillAccount("text:7", killed=False))
    connection.dataReceived(b"4,0,0,7,B,5,100,ACME\n")
    operated.clock.advance(0)
    assert [line[0] for line in fields(wire.take())] == ["A"]
    assert operated.refused(admin.KillAccount("text:7", killed=False))[0] == 409
    assert operated.refused(admin.KillAccount("text:9"))[0] == 404


def test_a_mass_cancel_ends_what_it_names(operated: Operated) -> None:
    _, wire = trader(operated, 7, "1,0,0,7,B,5,100,ACME", "2,0,0,7,B,5,99,GLOBEX")
    trader(operated, 8, "1,0,0,8,B,5,90,ACME")
    operated.quote(3)
    done = operated.change(admin.CancelOrders("text:7", "ACME"))
    assert done.what == "1 orders of text:7 in ACME are cancelled"
    operated.clock.advance(0)
    assert [line[0] for line in fields(wire.take())] == ["D"]
    assert operated.exchange.market.live_orders == 5
    assert operated.change(admin.CancelOrders(all=True)).what == "5 orders of everybody in all symbols are cancelled"
    assert operated.refused(admin.CancelOrders("text:9"))[0] == 404
    assert operated.refused(admin.CancelOrders("", "NONE", all=True))[0] == 404


@pytest.mark.parametrize(
    ("body", "was"),
    [(b"{}", "neither"), (b'{"symbol":"ACME"}', "neither"), (b'{"account":"text:7","all":true}', "both")],
)
def test_a_cancel_must_say_whose_orders(operated: Operated, body: bytes, was: str) -> None:
    """An empty request must not end everybody's orders."""
    operated.quote(3)
    before = operated.exchange.market.live_orders
    answer = operated.ask("/v1/orders/cancel", "POST", body)
    assert (answer.status, f'expected an account or "all": true, was {was}' in answer.text) == (400, True)
    assert operated.exchange.market.live_orders == before > 0


def test_the_journal_has_every_change_of_the_market(operated: Operated) -> None:
    trader(operated, 7)
    operated.quote(1)
    before = operated.exchange.inputs
    operated.change(admin.SetPhase("ACME", "halted"))
    operated.change(admin.KillAccount("text:7"))
    operated.change(admin.CancelOrders(all=True))
    batches = operated.exchange.journal.reader.batches(before)
    items = [item for _, batch in batches for item in batch]
    account = operated.exchange.market.account_named("text:7")
    assert account is not None
    assert [type(item) for item in items] == [Phase, Kill, MassCancel]
    assert isinstance(items[2], MassCancel)
    assert (items[2].account, items[2].reason) == (0, CancelReason.SUPERVISORY)
    assert [item.time_ns for item in items] == sorted({item.time_ns for item in items})


def test_only_a_trade_that_was_can_be_bust(operated: Operated) -> None:
    trader(operated, 7, "1,0,0,7,B,5,100,ACME", "2,0,0,7,S,5,100,ACME")
    newest = operated.exchange.market.next_match_id - 1
    assert operated.refused(admin.BustTrade("ACME", newest + 1)) == (
        409, f"expected a match from 1 to {newest}, was {newest + 1}"
    )  # fmt: skip
    done = operated.change(admin.BustTrade("ACME", newest))
    assert done.what == f"match {newest} of ACME is void; text:7 notified"
    assert operated.refused(admin.BustTrade("GLOBEX", newest)) == (409, "expected a match of GLOBEX, was one of ACME")


def test_a_snapshot_is_written(operated: Operated) -> None:
    operated.quote(7)
    assert operated.change(admin.TakeSnapshot()).what == "a snapshot after 7 requests is written"
    assert operated.exchange.snapshot_inputs == 7


def test_a_journal_that_cannot_be_written_ends_the_exchange(operated: Operated) -> None:
    def submit(batch: object) -> list[int | str]:
        raise JournalError("expected to write inputs, was a full disk")

    operated.exchange.submit = submit  # type: ignore[method-assign]
    assert operated.refused(admin.SetPhase("ACME", "halted")) == (409, "expected to write inputs, was a full disk")
    assert operated.failures == ["expected to write inputs, was a full disk"]


def test_a_replay_skips_to_a_record_or_to_a_time() -> None:
    """One of both may be refused when the other has already been carried out."""
    with pytest.raises(ValueError, match="expected a position or a time, was both"):
        admin.PlayReplay(position=40, time_ns=500)


def test_a_recording_is_paused_resumed_quickened_and_skipped(tmp_path: Path) -> None:
    playing = Playing()
    operated = Operated(tmp_path, playing=playing)
    assert operated.change(admin.PlayReplay(paused=True)).what == "day.csv is paused"
    assert operated.report(admin.REPLAY_PATH, admin.Replay).paused
    assert operated.change(admin.PlayReplay(paused=False, speed=20)).what == "day.csv is played at 20 times real time"
    assert operated.change(admin.PlayReplay(speed=0)).what == "day.csv is played as fast as possible"
    operated.change(admin.PlayReplay(position=40))
    operated.change(admin.PlayReplay(time_ns=500))
    found = operated.report(admin.REPLAY_PATH, admin.Replay)
    assert (found.file, found.position, found.speed, found.paused) == ("day.csv", 40, None, False)
    assert (found.time_ns, playing.time_ns) == (operated.exchange.clock.now_ns(), 500)
    assert operated.refused(admin.PlayReplay(position=40)) == (409, "expected a record after 40, was 40")
    playing.finished = True
    assert operated.refused(admin.PlayReplay(paused=True))[1].endswith("was day.csv, which has ended")
    operated.close()
